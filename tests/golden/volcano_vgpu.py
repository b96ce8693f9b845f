"""Golden cases of Volcano's vGPU placement: what Volcano's own code does on one node, against this scheduler.

A case is a node, the pods on it, and a pod to place. The product runs below the Kubernetes filters. Where it differs
on purpose the naive twin tells, as in the cases of HAMi.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive import volcano as naive
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.volcano import Answer, Card
from tests.naive.volcano_quirks import VOLCANO

from vgpu_scheduler.allocators import CardChoice, FitColumns
from vgpu_scheduler.dialects import ClaimError, CodecError, placement_usage
from vgpu_scheduler.dialects.hami import VendorSection
from vgpu_scheduler.dialects.volcano import configured_names, volcano_dialect
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import Placement, claims_devices
from vgpu_scheduler.state import State

KEPT_AWAY = "volcano.sh/vgpu-podgroup-policy"
REGISTER = "volcano.sh/node-vgpu-register"
TIMES = ("volcano.sh/vgpu-time", "volcano.sh/bind-time")
NOW = 1700000000

Obj = dict[str, Any]


def run_case(case: Case) -> Outcome:
    """Place the pod of a case and compare."""
    if missing := _not_implemented(case):
        return Outcome("not_implemented", missing)
    case = _as_advertised(case)
    on, off = Switches(VOLCANO), Switches(NONE)
    theirs, ours = naive.decide(case, on), naive.decide(case, off)
    found = [*_against_vector(case, theirs), *differences("product", _comparable(ours), _comparable(product(case)))]
    if found:
        return Outcome("failed", "; ".join(found))
    asked = on.asked | off.asked
    quirks = responsible(theirs, ours, lambda some: naive.decide(case, Switches(some)), asked, VOLCANO)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _as_advertised(case: Case) -> Case:
    """Let the node advertise the names that are configured, as its plugin does; Volcano asks for its own there."""
    case, names = copy.deepcopy(case), naive.Names.of(case)
    own = {
        "volcano.sh/vgpu-number": names.count,
        "volcano.sh/vgpu-memory": names.memory,
        "volcano.sh/vgpu-cores": names.cores,
    }
    status = case["node"]["status"]
    status["allocatable"] = {own.get(name, name): amount for name, amount in status["allocatable"].items()}
    return case


def _not_implemented(case: Case) -> str:
    """What in a case is beyond this version; empty if nothing is."""
    if "expectAny" in case:
        return "an outcome that hangs on the order of a map of Go's"
    items = (case["node"]["metadata"].get("annotations") or {}).get(REGISTER, "").split(":")
    if "" in items[:-1]:
        return "a registration with an empty item, over which Volcano breaks sooner or later"
    if any(item.endswith(",mig") for item in items):
        return "cards in MIG mode"
    if KEPT_AWAY in (case["pod"]["metadata"].get("annotations") or {}):
        made = product(case)
        assert made.kind in ("refused", "passed", "no-cards"), f"{KEPT_AWAY} is not refused, but {made.kind}"
        return "pods that keep away from the cards of their group"
    return ""


# The vector --------------------------------------------------------------------------------------------------------


def _against_vector(case: Case, answer: Answer) -> list[str]:
    expect = case["expect"]
    if expect["device"] is None or answer.kind == "no-cards":
        return list(differences("twin.cards", expect["device"], None if answer.kind == "no-cards" else answer.before))
    fits = answer.kind in ("placed", "passed")
    found = {
        "device": {"cards": _cards(answer.before), "mode": "hami-core"},
        "hasRequest": answer.kind != "passed",
        "fit": fits,
        "code": 0 if fits else 2,
        "cardsAfter": _cards(answer.after),
        **({"cardsReplay": _cards(answer.replayed), "allocate": _allocation(answer)} if fits else {}),
    }
    expected = {key: expect[key] for key in found}
    for part in (expected["device"]["cards"], expected["cardsAfter"], expected.get("cardsReplay", [])):
        for card in part:
            card["pods"] = {uid: [use["usedMem"], use["usedCore"]] for uid, use in card["pods"].items()}
    return list(differences("twin", expected, found))


def _allocation(answer: Answer) -> Obj:
    """Volcano's annotations; it writes empty ones for a pod that gets nothing."""
    value = answer.written
    return {
        "annotations": {
            "volcano.sh/bind-phase": "allocating",
            "volcano.sh/devices-to-allocate": value,
            "volcano.sh/vgpu-ids-new": value,
            "volcano.sh/vgpu-node": "node1",
            **dict.fromkeys(TIMES, "<unix time>"),
        }
    }


def _cards(cards: Sequence[Card]) -> list[Obj]:
    return [
        {
            "uuid": card.uuid,
            "index": card.index,
            "number": card.number,
            "memory": card.memory,
            "type": card.type,
            "health": card.healthy,
            "usedNum": card.used,
            "usedMem": card.used_memory,
            "usedCore": card.used_cores,
            "pods": {uid: list(use) for uid, use in card.pods.items()},
        }
        for card in cards
    ]


# The product -------------------------------------------------------------------------------------------------------


def dialect_of(case: Case) -> volcano_dialect:
    """The dialect as the device configuration of a case sets it up."""
    return volcano_dialect(configured_names(VendorSection(case["args"]["deviceConfig"])))


def product(case: Case) -> Answer:
    """What the product says about a case."""
    dialect = dialect_of(case)
    state = State({dialect.name: len(dialect.inventory.dimensions)})
    node = decode_node(case["node"])
    try:
        state.observe_node(node, {dialect.name: dialect.inventory.devices(node)})
    except CodecError:
        state.observe_node(node, {})
    for wire in _as_reported(case["pods"]):
        pod = decode_pod(wire)
        state.observe_pod(pod, {dialect.name: dialect.allocation.usage(pod)})
    row = state.nodes.row(node.name)
    assert row is not None
    if not state.devices.devices(row):
        return Answer("no-cards")
    before = _ledger(state, row)
    pod = decode_pod(case["pod"])
    try:
        claims = dialect.claims.read(pod)
        if not claims_devices(claims):
            return Answer("passed", before, after=before, replayed=before)
        allocator = dialect.claims.allocator(pod.annotations, claims, CardChoice(policy=case["args"]["schedulePolicy"]))
    except ClaimError:
        return Answer("refused", before, after=before)
    fit = FitColumns.empty(state.nodes.capacity)
    allocator.fit(state.devices, state.nodes.rows(), fit)
    containers = allocator.place(state.devices, row)
    assert bool(fit.fits[row]) == (containers is not None)
    if containers is None:
        return Answer("unfit", before, after=before)
    placement = Placement(node.name, containers, dialect.name)
    written = dialect.allocation.annotations(placement, NOW)
    value = written[naive.ALLOCATED]
    expected = {**_allocation(Answer("placed", written=value))["annotations"], **dict.fromkeys(TIMES, str(NOW))}
    assert written == expected
    after, replayed = state.rebuild(), state.rebuild()
    after.observe_pod(pod, {})
    after.assume(pod.uid, placement, placement_usage(placement, claims), pod.spec.requests)
    bound = _bound(case["pod"], node.name, written)
    replayed.observe_pod(bound, {dialect.name: dialect.allocation.usage(bound)})
    return Answer("placed", before, value, _ledger(after, row), _ledger(replayed, row))


def _as_reported(pods: Sequence[Obj]) -> list[Obj]:
    """Give running pods the container statuses that the kubelet writes together with the phase."""
    pods = copy.deepcopy(list(pods))
    for pod in pods:
        pod["status"]["containerStatuses"] = [{"name": c["name"]} for c in pod["spec"]["containers"]]
    return pods


def _bound(wire: Obj, node: str, annotations: Obj) -> Pod:
    """The pod as it comes back from the API server after the Binding."""
    wire = copy.deepcopy(wire)
    wire["spec"]["nodeName"] = node
    wire["metadata"]["annotations"] = {**(wire["metadata"].get("annotations") or {}), **annotations}
    return decode_pod(wire)


def _ledger(state: State, row: int) -> list[Card]:
    assert not state.drift()
    used = dict(state.devices.usage(row))
    listed = state.devices.devices(row)
    held = {held.uid: held.device_charges("volcano", listed) for held in state.reservations(state.nodes.name(row))}
    cards = []
    for device in listed:
        assert device.mode == "hami-core"
        pods = {uid: amounts[device.uuid][1:] for uid, amounts in held.items() if device.uuid in amounts}
        number, memory, cores = device.total
        assert cores == 100
        cards.append(
            Card(device.uuid, device.index, number, memory, device.type, device.healthy, *used[device.uuid], pods)
        )
    return cards


def _comparable(answer: Answer) -> Obj:
    found = asdict(answer)
    for part in ("before", "after", "replayed"):
        for card in found[part]:
            card["pods"] = {uid: list(use) for uid, use in card["pods"].items()}
    return found
