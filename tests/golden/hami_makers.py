"""What the product says about golden cases with devices of other makers than NVIDIA, in the form of their twin."""

from __future__ import annotations

from typing import Any

from tests.golden.hami import decided, dialect_of, refused_for
from tests.golden.outcome import Case
from tests.naive.hami import NODE, Answer

from vgpu_scheduler.dialects import ClaimError, RegistrationError
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Claim, Device

Json = Any

_AT_BINDING = frozenset({NODE, "hami.io/bind-phase", "hami.io/bind-time"})
_TIMES = frozenset({
    "hami.io/vgpu-time", "predicate-time", "mthreads.com/predicate-time", "metax-tech.com/predicate-time",
    "enflame.com/gcu-assigned-time", "NEURON_ALLOC_TIME",
})  # fmt: skip


def placement(case: Case) -> Answer:
    """What is decided; the keys for the plugins must say what those that stay say."""
    dialect = dialect_of(case)
    copies = {vendor.record.to_allocate: vendor.record.allocated for vendor in dialect.claims.vendors}

    def about_devices(name: str, written: dict[str, str]) -> dict[str, str]:
        assert written[NODE] == name
        for key in copies.keys() & written.keys():
            assert written[key] == written[copies[key]], f"{key} for {name}: {written}"
        return {key: written[key] for key in written.keys() - _AT_BINDING - _TIMES - copies.keys()}

    return decided(case, about_devices)


_APART = frozenset({"kunlun", "XPU", "Enflame", "AWSNeuron"})
"""Makers whose claims HAMi keeps in numbers of its own; what comes of them is in the placements."""


def shared_requests(found: Json) -> Json:
    """Return what both say of a pod's requests."""
    if "requests" not in found:
        return found
    return {"requests": [{maker: _said(request) for maker, request in asked.items()} for asked in found["requests"]]}


def _said(request: Json) -> Json:
    return {"nums": request["nums"]} if request["type"] in _APART else request


def requests(case: Case) -> Json:
    """What each container claims, or what is refused."""
    try:
        claims = dialect_of(case).claims.read(decode_pod(_without_class(case["pod"])))
    except ClaimError as error:
        return {"refused": frozenset({refused_for(str(error))})}
    found = [{claim.vendor: _request(claim) for claim in container.claims} for container in claims]
    return shared_requests({"requests": found})


def _without_class(pod: Json) -> Json:
    """Return a pod without what makes a tenant of a MetaX card take no compute: HAMi looks at that later."""
    annotations = pod["metadata"].get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if name != "metax-tech.com/sgpu-app-class"}
    return {**pod, "metadata": {**pod["metadata"], "annotations": kept}}


def _request(claim: Claim) -> Json:
    """Return a claim in HAMi's terms."""
    (_, memory, cores, *_), (_, percent, of_card, *_) = claim.amounts, claim.percent
    said = {"mem": memory, "mem_percentage": 0 if memory else percent, "cores": cores or of_card}
    return {"type": claim.vendor, "nums": claim.count, **said, **_WHOLE.get(claim.vendor, {})}


_WHOLE = {
    "GCU": {"mem": 100},
    "AMD": {"mem_percentage": 0},
    "Biren": {"mem_percentage": 100},
    "Vastai": {"mem_percentage": 100},
}
"""What HAMi says of the memory of devices given out whole: that they have 100 of it, or any; or none is all of it."""


def node_devices(case: Case) -> Json:
    """What the nodes register, maker by maker."""
    dialect = dialect_of(case)
    return {node["metadata"]["name"]: _by_maker(dialect, node) for node in case["nodes"]}


def _by_maker(dialect: hami_dialect, wire: Json) -> Json:
    try:
        devices = dialect.inventory.devices(decode_node(wire))
    except RegistrationError as error:
        devices = error.devices
    found: Json = {}
    for device in devices:
        found.setdefault(device.vendor, {"devices": []})["devices"].append(_device(device))
    return {vendor.key: found.get(vendor.key, {"error": True}) for vendor in dialect.claims.vendors}


def _device(device: Device) -> Json:
    count, memory, cores, *_ = device.total
    return {
        "id": device.uuid,
        "index": device.index,
        "count": count,
        "devmem": memory,
        "devcore": cores,
        "type": device.type,
        "numa": device.numa,
        "health": device.healthy,
    }


_HAMIS = frozenset({"mode", "vendor", "custominfo"})
"""What HAMi says of a device, and the product knows in other ways."""


def shared(found: Json) -> Json:
    """Return what both say of the nodes' devices."""
    return {
        node: {
            vendor: {"devices": [_without(device) for device in entry["devices"]]}
            if entry.get("devices")
            else {"error": True}
            for vendor, entry in by_maker.items()
        }
        for node, by_maker in found.items()
    }


def _without(device: Json) -> Json:
    return {key: value for key, value in device.items() if key not in _HAMIS}
