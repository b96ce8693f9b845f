"""Golden cases of HAMi's codecs and request parsing: one operation each, product against twin against HAMi.

Errors are compared as such, their texts are not: HAMi's are those of Go's libraries. For a case that is refused the
product has to name one of the container's amounts that the twin finds wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.golden import hami_allocations, hami_usage
from tests.golden.hami import as_reported, beyond_cluster, dialect_of, refused_for, same_refusal
from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive import hami_mig
from tests.naive import hami_wire as wire
from tests.naive.hami_quirks import ALL, NONE, Switches
from tests.naive.hami_values import UNSET

from vgpu_scheduler.dialects import ClaimError
from vgpu_scheduler.dialects.hami import (
    CodecError,
    RegisteredDevice,
    encode_register_json,
    format_lock,
    parse_lock,
)
from vgpu_scheduler.dialects.hami.codec import decode_register, decode_register_colon, decode_register_json
from vgpu_scheduler.dialects.hami.links import decode_pair_scores
from vgpu_scheduler.dialects.hami.mig import decode_allocations, encode_allocations, encode_profile
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import REGISTER_ANNOTATION
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.policy import parse_weights

ERROR = {"error": True}
PANIC = {"panic": True}

Json = Any
REFUSED = "refused"


class Operation(NamedTuple):
    """How to run one operation; each side returns the case's ``expect`` in a common form."""

    twin: Callable[[Case, Switches], Json]
    product: Callable[[Case], Json]
    expected: Callable[[Case], Json]
    missing: Callable[[Case], str] = lambda case: ""


def run_case(case: Case) -> Outcome:
    """Run a codec case and compare."""
    operation = OPERATIONS[case["op"]]
    if missing := _beyond(case) or operation.missing(case):
        return Outcome("not_implemented", missing)
    case = as_reported(case)
    on, off = Switches(ALL), Switches(NONE)
    theirs, ours = operation.twin(case, on), operation.twin(case, off)
    made = operation.product(case)
    found = list(differences("twin", operation.expected(case), theirs))
    if isinstance(ours, dict) and REFUSED in ours:
        if not isinstance(made, dict) or not same_refusal(ours[REFUSED], made.get(REFUSED, frozenset())):
            found.append(f"product: {made}, not {ours}")
    else:
        found += differences("product", ours, made)
    if found:
        return Outcome("failed", "; ".join(found))
    asked = on.asked | off.asked
    quirks = responsible(theirs, ours, lambda some: operation.twin(case, Switches(some)), asked, ALL)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _beyond(case: Case) -> str:
    if case["op"] == "pod_decode" or "config" not in case:  # configured for several makers, decided by the keys
        return ""
    return beyond_cluster(case)


# Registration ------------------------------------------------------------------------------------------------------


def _expected_or_error(case: Case) -> Json:
    expect = case["expect"]
    return ERROR if "error" in expect else PANIC if "panic" in expect else expect


def _twin_node_decode(case: Case, switch: Switches) -> Json:
    value = case["input"]["value"]
    try:
        colon = case["input"]["format"] == "colon"
        devices = wire.register_colon(value) if colon else wire.register_json(value, switch)
    except wire.Unreadable:
        return ERROR
    if None in devices:
        return {"devices": devices}
    return {
        "devices": devices,
        "encoded_colon": wire.encode_colon(devices),
        "encoded_json": wire.encode_json(devices),
    }


def _product_node_decode(case: Case) -> Json:
    decode = decode_register_colon if case["input"]["format"] == "colon" else decode_register_json
    try:
        devices = decode(case["input"]["value"])
    except CodecError:
        return ERROR
    return {
        "devices": [_registered(device) for device in devices],
        "encoded_colon": encode_register_colon(devices),
        "encoded_json": encode_register_json(devices),
    }


def encode_register_colon(devices: Sequence[RegisteredDevice]) -> str:
    """Encode a registration in the format of nine fields, which nobody writes any more."""
    return "".join(
        f"{d.id},{d.count},{d.devmem},{d.devcore},{d.type},{d.numa},{str(d.health).lower()},{d.index},{d.mode}:"
        for d in devices
    )


def _registered(device: RegisteredDevice, vendor: str | None = None) -> Json:
    fields = {
        name: getattr(device, name)
        for name in ("id", "index", "count", "devmem", "devcore", "type", "numa", "mode", "health")
    }
    profiles = {"migProfiles": [encode_profile(profile) for profile in device.mig_profiles]}
    custom = {"custominfo": dict(device.custom_info)} if device.custom_info else {}
    fields |= profiles if device.mig_profiles else {}
    return {**fields, **custom, "vendor": device.vendor if vendor is None else vendor}


def _expected_node_devices(case: Case) -> Json:
    if "panic" in case["expect"]:
        return PANIC
    nodes = case["expect"]["nodes"]
    return {name: ERROR if "error" in found["NVIDIA"] else found["NVIDIA"]["devices"] for name, found in nodes.items()}


def _twin_node_devices(case: Case, switch: Switches) -> Json:
    result: Json = {}
    for node in case["nodes"]:
        try:
            result[node["metadata"]["name"]] = wire.node_register(node["metadata"].get("annotations") or {}, switch)
        except wire.Panic:
            return PANIC
        except wire.Unreadable:
            result[node["metadata"]["name"]] = ERROR
    return result


def _product_node_devices(case: Case) -> Json:
    dialect = dialect_of(case)
    result: Json = {}
    for item in case["nodes"]:
        node = decode_node(item)
        try:
            devices = dialect.inventory.devices(node)
        except CodecError:
            devices = ()
        if not devices:
            result[node.name] = ERROR
            continue
        vendors = {device.uuid: device.vendor for device in devices}
        registered = decode_register(node.annotations[REGISTER_ANNOTATION])
        result[node.name] = [_registered(device, vendors[device.id]) for device in registered]
        for device, raw in zip(devices, registered, strict=True):
            assert device.total[:3] == (raw.count, raw.devmem, raw.devcore)
            assert (device.type, device.numa, device.mode) == (raw.type, raw.numa, raw.mode)
            assert (device.index, device.healthy) == (raw.index, raw.health)
    return result


# Requests, weights, lock -------------------------------------------------------------------------------------------


def _twin_requests(case: Case, switch: Switches) -> Json:
    containers, refused = wire.asks(case["pod"], wire.Names.of(case), switch)
    if refused:
        return {REFUSED: frozenset(refused)}
    return {
        "requests": [
            {a.vendor: _request(a.vendor, a.nums, a.memory, a.percent, a.cores) for a in container.asks}
            for container in containers
        ]
    }


def _product_requests(case: Case) -> Json:
    try:
        claims = dialect_of(case).claims.read(decode_pod(case["pod"]))
    except ClaimError as error:
        return {REFUSED: frozenset({refused_for(str(error))})}
    # HAMi marks a percentage that was not given with 101.
    return {
        "requests": [
            {
                c.vendor: _request(c.vendor, c.count, c.amounts[1], c.percent[1] or UNSET, c.amounts[2])
                for c in container.claims
            }
            for container in claims
        ]
    }


def _request(vendor: str, nums: int, memory: int, percent: int, cores: int) -> Json:
    return {"type": vendor, "nums": nums, "mem": memory, "mem_percentage": percent, "cores": cores}


def _twin_weights(case: Case, switch: Switches) -> Json:
    found = wire.weights(case["input"]["value"])
    return ERROR if found is None else dict(zip(("slot", "core", "memory"), found, strict=True))


def _product_weights(case: Case) -> Json:
    try:
        found = parse_weights(case["input"]["value"])
    except ValueError:
        return ERROR
    return dict(zip(("slot", "memory", "core"), found, strict=True))


def _twin_lock_parse(case: Case, switch: Switches) -> Json:
    time, *owner = case["input"]["value"].split(",")
    stamp = re.fullmatch(r"([0-9]{4}-..-..T..:..:..)(\.[0-9]+)?(Z|[+-]..:..)", time)
    if len(owner) not in (0, 2) or not stamp:
        return ERROR
    try:
        moment = datetime.strptime(stamp[1] + stamp[3].replace("Z", "+00:00"), "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return ERROR
    if moment.second > 59 or ":60" in stamp[1]:
        return ERROR
    namespace, name = owner or ("", "")
    return {"unix": int(moment.timestamp()), "namespace": namespace, "name": name}


def _product_lock_parse(case: Case) -> Json:
    try:
        lock = parse_lock(case["input"]["value"])
    except ValueError:
        return ERROR
    return {"unix": int(lock.taken_at.timestamp()), "namespace": lock.namespace, "name": lock.name}


def _twin_lock_format(case: Case, switch: Switches) -> Json:
    metadata = case["pod"]["metadata"]
    suffix = f",{metadata['namespace']},{metadata['name']}"
    return {"namespace": metadata["namespace"], "name": metadata["name"], "suffix": suffix}


def _product_lock_format(case: Case) -> Json:
    pod, now = decode_pod(case["pod"]), datetime(2026, 8, 21, 6, 20, 39, tzinfo=UTC)
    value = format_lock(now, pod.namespace, pod.name)
    lock = parse_lock(value)
    assert lock.taken_at == now
    return {"namespace": lock.namespace, "name": lock.name, "suffix": value.removeprefix("2026-08-21T06:20:39Z")}


# Placements on MIG cards -------------------------------------------------------------------------------------------


def _expected_mig_allocations(case: Case) -> Json:
    expect = _expected_or_error(case)
    return ERROR if expect == ERROR else {"allocations": expect["allocations"] or []}


def _twin_mig_allocations(case: Case, switch: Switches) -> Json:
    found = hami_mig.decode(case["input"]["value"])
    return ERROR if found is None else {"allocations": json.loads(hami_mig.encode(found))}


def _product_mig_allocations(case: Case) -> Json:
    try:
        found = decode_allocations(case["input"]["value"])
    except CodecError:
        return ERROR
    return {"allocations": json.loads(encode_allocations(found))}


# Links -------------------------------------------------------------------------------------------------------------


def _expected_pair_scores(case: Case) -> Json:
    # HAMi tells a list that is null from an empty one, and leaves out what is; neither says anything.
    expect = _expected_or_error(case)
    if expect == ERROR:
        return ERROR
    return {"scores": [{"uuid": "", "score": {}, **entry} for entry in expect["scores"] or []]}


def _twin_pair_scores(case: Case, switch: Switches) -> Json:
    found = wire.decode_pair_scores(case["input"]["value"])
    return ERROR if found is None else {"scores": [{"uuid": "", "score": {}, **entry} for entry in found]}


def _product_pair_scores(case: Case) -> Json:
    try:
        found = decode_pair_scores(case["input"]["value"])
    except CodecError:
        return ERROR
    return {"scores": [{"uuid": entry.uuid, "score": dict(entry.score)} for entry in found]}


OPERATIONS = {
    "node_decode": Operation(_twin_node_decode, _product_node_decode, _expected_or_error),
    "node_devices": Operation(_twin_node_devices, _product_node_devices, _expected_node_devices),
    "pod_decode": Operation(
        hami_allocations.twin_decode, hami_allocations.product_decode, hami_allocations.expected_decode
    ),
    "pod_encode": Operation(hami_allocations.twin_encode, hami_allocations.product_encode, _expected_or_error),
    "requests": Operation(_twin_requests, _product_requests, _expected_or_error),
    "weights": Operation(_twin_weights, _product_weights, _expected_or_error),
    "lock_parse": Operation(_twin_lock_parse, _product_lock_parse, _expected_or_error),
    "lock_format": Operation(_twin_lock_format, _product_lock_format, _expected_or_error),
    "mig_allocations": Operation(_twin_mig_allocations, _product_mig_allocations, _expected_mig_allocations),
    "pair_scores": Operation(_twin_pair_scores, _product_pair_scores, _expected_pair_scores),
    "usage": Operation(hami_usage.twin_usage, hami_usage.product_usage, hami_usage.expected_usage),
}
