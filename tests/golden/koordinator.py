"""Golden cases of Koordinator's DeviceShare: what Koordinator's own code says, against what this scheduler says.

The cases were made by running Koordinator on generated objects. Each goes through the real decoders, the dialect, a
state, the allocator and the scorer; where this scheduler differs on purpose, the naive twin tells, as in the cases of
HAMi. That a request is refused is compared, the words are not.

Beyond this version, and counted as not implemented:

* pods that ask for NPUs: they are refused by name;
* nodes that give cards out by shared resource templates.

Models that cannot be shared are what a policy denies to pods with shares.

What Koordinator would reserve on a node that it had filtered out is not compared.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.koordinator_arguments import DeviceShareArgumentError, ShareDefaults, deviceshare_arguments
from tests.naive import deviceshare, koordinator, koordinator_hints, koordinator_nodes
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.koordinator_books import ALLOCATED
from tests.naive.koordinator_quirks import KOORDINATOR, KoordinatorQuirk
from tests.naive.scopes import LEVELS

from vgpu_scheduler.allocators import CardChoice, CardLimits, FitColumns, ShareOrder, share_terms
from vgpu_scheduler.dialects import ClaimError, CodecError
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.koordinator.claims import device_requests, normalise
from vgpu_scheduler.dialects.koordinator.hints import NO_HINT, read_hints
from vgpu_scheduler.dialects.koordinator.joint import read_joint
from vgpu_scheduler.dialects.koordinator.partitions import PartitionSpec, read_partition_spec
from vgpu_scheduler.kernels import ShareAsk, share_score
from vgpu_scheduler.kube import Node, decode_node, decode_pod, to_int
from vgpu_scheduler.model import Claim, Device, Placement, PodClaims, claims_devices
from vgpu_scheduler.scorers import DeviceShareScorer, NodeRanking, ScoredPod, WeightedScorer
from vgpu_scheduler.scorers.deviceshare import share_demand
from vgpu_scheduler.state import State, canonical

Obj = dict[str, Any]

DIALECT = koordinator_dialect()
NAMES = {(r.vendor, r.dimension): name for name, r in DIALECT.inventory.device_resources.items()}
NAMED_TYPES = {vendor for vendor, _ in NAMES}
"""Those that Koordinator has a name for: virtual functions are written at their devices."""
_QUANTITY = re.compile(r'("[^"]*/[^"]*"):"([^"]*)"')


# Arguments ---------------------------------------------------------------------------------------------------------


def run_arguments(case: Case) -> Outcome:
    """Parse the arguments of a case and compare."""
    theirs = koordinator.arguments(case["args"])
    expected = {"error": True} if "error" in case["expect"] else case["expect"]
    try:
        order = deviceshare_arguments(case["args"], ShareDefaults.KOORDINATOR)
        ours: Obj = {"type": order.strategy.value, "weights": dict(order.weights)}
    except DeviceShareArgumentError:
        ours = {"error": True}
    found = [
        *differences(
            "twin", expected, {"error": True} if theirs is None else dict(zip(("type", "weights"), theirs, strict=True))
        ),
        *differences("product", expected, ours),
    ]
    return Outcome("failed", "; ".join(found)) if found else Outcome("passed")


# Requests ----------------------------------------------------------------------------------------------------------


def run_request(case: Case) -> Outcome:
    """Read the requests of a pod and compare."""
    pod = case["pod"]
    if _asks_for_npus(pod):
        return Outcome("not_implemented", "NPUs")
    crashes = case["expect"].get("panic", False)
    theirs, ours = _read(case, Switches(KOORDINATOR)), _read(case, Switches(NONE))
    found = [*differences("twin", _read_expected(case), theirs), *differences("product", ours, _read_by_product(pod))]
    if found:
        return Outcome("failed", "; ".join(found))
    if not crashes and theirs == ours:
        return Outcome("passed")
    quirks = responsible(theirs, ours, lambda some: _read(case, Switches(some)), {*KOORDINATOR}, KOORDINATOR)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _read_expected(case: Case) -> Obj:
    expect = case["expect"]
    if expect.get("panic"):
        return {"panic": True}
    if expect["status"]["code"] != "Success":
        return {"status": {"code": "refused"}}
    found = {"status": {"code": "Success"}, "skip": expect["skip"], "requests": expect["requests"]}
    if "gpu" in expect:
        found["gpu"] = {
            key: value
            for key, value in expect["gpu"].items()
            if key not in ("candidateTemplates", "enforceTemplate", "requiredTopologyScope")
        }
    return {**found, "joint": expect["joint"]} if "joint" in expect else found


def _read(case: Case, switch: Switches) -> Obj:
    pod = case["pod"]
    try:
        wanted = koordinator.asks(pod)
        odd = koordinator_hints.refused(pod, wanted) if wanted else None
    except (koordinator.InvalidError, koordinator_hints.UnreadableError):
        return {"status": {"code": "refused"}}
    if odd is KoordinatorQuirk.NULL_HINT_CRASHES and switch(odd):
        return {"panic": True}
    if odd is not None and not switch(odd):
        return {"status": {"code": "refused"}}
    if koordinator.beyond_a_device(wanted) and not switch(KoordinatorQuirk.BEYOND_A_DEVICE):
        return {"status": {"code": "refused"}}
    found: Obj = {
        "status": {"code": "Success"},
        "skip": not wanted,
        "requests": {kind: ask.converted for kind, ask in wanted.items()},
    }
    if "gpu" in wanted:
        ask = wanted["gpu"]
        level = {**LEVELS, "Device": 4}.get(koordinator_hints.scope_word(pod), 0)
        found["gpu"] = {
            "count": ask.count,
            "perInstance": ask.each,
            "shared": ask.shared,
            "requiredTopologyScopeLevel": level,
            **_partition(koordinator_hints.spec(pod, wanted)),
        }
    jointly = koordinator_hints.joint(pod, wanted) if wanted else None
    if jointly is not None:
        found["joint"] = {"deviceTypes": list(jointly.types), "requiredScope": jointly.scope}
    return found


def _partition(spec: koordinator_hints.Spec | PartitionSpec | None) -> Obj:
    """What a pod wants of partitions, by the twin or the product."""
    restricted = spec.policy == "Restricted" if isinstance(spec, koordinator_hints.Spec) else spec and spec.restricted
    found: Obj = {"honorPartition": spec is not None, "restrictedPartition": bool(restricted)}
    return found if spec is None or spec.bandwidth is None else {**found, "ringBusBandwidth": spec.bandwidth}


def _read_by_product(wire: Obj) -> Obj:
    pod = decode_pod(wire)
    try:
        claims = DIALECT.claims.read(pod)
    except ClaimError:
        return {"status": {"code": "refused"}}
    asked = device_requests(pod)
    found: Obj = {"status": {"code": "Success"}, "skip": not claims_devices(claims), "requests": {}}
    for kind, claim in _by_type(claims).items():
        own = {name: amount for name, amount in asked.items() if koordinator.device_type(name) == kind}
        found["requests"][kind] = normalise(own) if kind == "gpu" else own
        if kind == "gpu":
            each = _each(claim)
            shared = each.get(koordinator.RATIO, 100) < 100 or koordinator.MEMORY in each
            found["gpu"] = {
                "count": claim.count,
                "perInstance": each,
                "shared": shared,
                "requiredTopologyScopeLevel": read_hints(pod.annotations).get(kind, NO_HINT).scope,
                **_partition(read_partition_spec(pod.annotations)),
            }
    jointly = read_joint(pod.annotations, _by_type(claims).values(), read_hints(pod.annotations)) if asked else None
    if jointly is not None:
        scope = koordinator_hints.SAME_SWITCH if jointly.same_switch else ""
        found["joint"] = {"deviceTypes": list(jointly.types), "requiredScope": scope}
    return found


def _by_type(claims: PodClaims) -> dict[str, Claim]:
    return {claim.vendor: claim for container in claims for claim in container.claims}


def _each(claim: Claim) -> Obj:
    """What a claim asks of one device, by name."""
    return {NAMES[claim.vendor, dimension]: amount for dimension, amount in enumerate(claim.amounts) if amount}


# Scores ------------------------------------------------------------------------------------------------------------


def run_score(case: Case) -> Outcome:
    """Filter and score the nodes of a case and compare."""
    if koordinator.beyond_a_device(koordinator.asks(case["pod"])):
        return _refused(case, KoordinatorQuirk.BEYOND_A_DEVICE, _expected_scores(case), _twin_scores)
    return _compare(case, _expected_scores(case), _twin_scores, _product_scores(case))


def _refused(case: Case, quirk: KoordinatorQuirk, expected: Obj, twin: Any) -> Outcome:
    """Hold a pod that is refused here against Koordinator, which finds no device for it, or not what it asks for."""
    found = [*differences("twin", expected, twin(case, Switches(KOORDINATOR)))]
    placed = [name for name, node in koordinator_nodes.decide(case, Switches(NONE)).items() if node.fits]
    if placed and quirk not in (KoordinatorQuirk.SCOPE_UNKNOWN_IGNORED, KoordinatorQuirk.WORD_UNKNOWN_IGNORED):
        found.append(f"placed on {placed}")
    if _read_by_product(case["pod"]) != {"status": {"code": "refused"}}:
        found.append("not refused")
    return Outcome("failed", "; ".join(found)) if found else Outcome("decided", quirks=frozenset({quirk.value}))


def _compare(case: Case, expected: Obj, twin: Any, product: Obj) -> Outcome:
    on, off = Switches(KOORDINATOR), Switches(NONE)
    theirs, ours = twin(case, on), twin(case, off)
    found = [*differences("twin", expected, theirs), *differences("product", ours, product)]
    if found:
        return Outcome("failed", "; ".join(found))
    asked = on.asked | off.asked
    quirks = responsible(theirs, ours, lambda some: twin(case, Switches(some)), asked, KOORDINATOR)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _expected_scores(case: Case) -> Obj:
    expect = case["expect"]
    if expect["preFilter"]["code"] == "Skip":
        return {"preFilter": "Skip"}
    return {
        "preFilter": expect["preFilter"]["code"],
        "nodes": {
            name: {
                "fits": node["filter"]["code"] == "Success",
                "score": node.get("score"),
                "types": node.get("types", {}),
            }
            for name, node in expect["nodes"].items()
        },
        "normalized": expect["normalized"],
    }


def _twin_scores(case: Case, switch: Switches) -> Obj:
    if not koordinator.requested(case["pod"]):
        return {"preFilter": "Skip"}
    nodes = koordinator_nodes.decide(case, switch)
    return {
        "preFilter": "Success",
        "nodes": {name: {"fits": n.fits, "score": n.score, "types": n.types} for name, n in nodes.items()},
        "normalized": deviceshare.normalised({name: n.score or 0 for name, n in nodes.items() if n.fits}),
    }


def _product_scores(case: Case) -> Obj:
    state, order, claims = _state(case), _order(case), DIALECT.claims.read(decode_pod(case["pod"]))
    if not claims_devices(claims):
        return {"preFilter": "Skip"}
    rows, fit = state.nodes.rows(), FitColumns.empty(state.nodes.capacity)
    DIALECT.claims.allocator({}, claims, CardChoice(device_share_order=order)).fit(state.devices, rows, fit)
    workload = ScoredPod(decode_pod(case["pod"]).spec.requests, claims, DIALECT.inventory.device_resources)
    ranking = NodeRanking([WeightedScorer(DeviceShareScorer(order.strategy, order.weights))], workload)
    scores = ranking.score(state, rows, fit)
    nodes = {}
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        vendors = {device.vendor for device in state.devices.devices(row)}
        lacking = vendors and not _by_type(claims).keys() <= vendors
        nodes[state.nodes.name(row)] = {
            "fits": bool(fit.fits[row]),
            "score": None if lacking else score,
            "types": {} if lacking else _types(state, row, claims, order),
        }
    fitting = {name: int(node["score"]) for name, node in nodes.items() if node["fits"]}
    return {"preFilter": "Success", "nodes": nodes, "normalized": deviceshare.normalised(fitting)}


def _types(state: State, row: int, claims: PodClaims, order: ShareOrder) -> Obj:
    """What Koordinator logs of a node: per type the request, and the devices in the order in which they are tried."""
    matrix = state.devices
    demand, terms = share_demand(claims, matrix), share_terms(order, DIALECT.inventory.device_resources, matrix)
    found = {}
    for number, claim in enumerate(_by_type(claims).values()):
        devices = []
        for device in matrix.devices(row):
            position = matrix.position(row, device.uuid)
            if device.vendor != claim.vendor or position is None:
                continue
            asked = ShareAsk(demand.vendor[number], demand.amounts[number], demand.percent[number])
            used = matrix.columns.used[position : position + 1]
            score = share_score(matrix.columns, position, used, terms, asked)
            devices.append({"minor": device.index, "score": int(score), "free": _free(state, position, claim.vendor)})
        if not devices:
            continue
        if not any(any(device["free"].values()) for device in devices):
            devices = []
        devices.sort(key=lambda device: (-device["score"], device["minor"]))
        found[claim.vendor] = {"count": claim.count, "perInstance": _each(claim), "devices": devices}
    return found


def _free(state: State, position: int, vendor: str) -> Obj:
    columns = state.devices.columns
    total = columns.total[position] if columns.healthy[position] else np.zeros_like(columns.total[position])
    used = columns.used[position]
    return {
        NAMES[vendor, dimension]: max(int(total[dimension] - used[dimension]), 0)
        for dimension in range(total.shape[0])
        if total[dimension] or used[dimension]
    }


def _state(case: Case) -> State:
    state = State({DIALECT.name: len(DIALECT.inventory.dimensions)})
    inventories = {device["metadata"]["name"]: device for device in case["devices"]}
    for wire in case["nodes"]:
        node = decode_node(wire)
        state.observe_node(node, {DIALECT.name: canonical(_devices(node, inventories.get(node.name)))})
    for wire in case["pods"]:
        pod = decode_pod(wire)
        state.observe_pod(pod, {DIALECT.name: DIALECT.allocation.usage(pod)})
    return state


def _devices(node: Node, listed: Obj | None) -> tuple[Device, ...]:
    """The devices of a node; none where their list is not followed."""
    try:
        return DIALECT.inventory.devices(node, listed)
    except CodecError:
        return ()


def _order(case: Case) -> ShareOrder:
    return deviceshare_arguments({"scoringStrategy": case["args"].get("scoringStrategy")}, ShareDefaults.KOORDINATOR)


# Allocations -------------------------------------------------------------------------------------------------------


def run_allocation(case: Case) -> Outcome:
    """Place the pod of a case on each node and compare."""
    if beyond := beyond_reach(case):
        return Outcome("not_implemented", beyond)
    expected = _expected_allocation(_any_of(case))
    wanted = koordinator.asks(case["pod"])
    if koordinator.beyond_a_device(wanted):
        return _refused(case, KoordinatorQuirk.BEYOND_A_DEVICE, expected, _twin_allocation)
    if (odd := koordinator_hints.refused(case["pod"], wanted)) is not None:
        return _refused(case, odd, expected, _twin_allocation)
    fixed = _expected_allocation(case["expectFixed"]) if "expectFixed" in case else expected
    corrected = Switches(KOORDINATOR - {KoordinatorQuirk.SCOPE_SCORE_SWAPPED})
    if found := [*differences("corrected", fixed, _twin_allocation(case, corrected))]:
        return Outcome("failed", "; ".join(found))
    return _compare(case, expected, _twin_allocation, _product_allocation(case))


def _any_of(case: Case) -> Obj:
    """Return what is expected; of several outcomes that Koordinator had, the one that the twin says, if it is one."""
    theirs = _twin_allocation(case, Switches(KOORDINATOR))
    outcomes: list[Obj] = [case["expect"], *case.get("expectAny", ())]
    return next((one for one in outcomes if _expected_allocation(one) == theirs), outcomes[0])


def beyond_reach(case: Case) -> str:
    """What in an allocation is beyond this version; empty if nothing is."""
    pod, args = case["pod"], case["args"]
    if "numaAffinity" in args:
        return "the NUMA affinity of the topology manager"
    if "gpuSharedResourceTemplates" in args or _asks_for_npus(pod):
        return "NPUs"
    return ""


def _asks_for_npus(pod: Obj) -> bool:
    return {n for n in koordinator.requested(pod) if n in koordinator.GPU_NAMES} in koordinator.OF_NPUS


def _expected_allocation(expect: Obj) -> Obj:
    nodes = {}
    for name, node in expect["nodes"].items():
        fits = node["filter"]["code"] == "Success"
        reserve = node if fits else {"reserve": {"code": ""}}
        nodes[name] = {
            "fits": fits,
            "reserved": reserve["reserve"]["code"] == "Success",
            "minors": reserve.get("minors", {}),
            "annotation": _plain(reserve.get("annotation", "")),
        }
    return {"preFilter": expect["preFilter"]["code"], "nodes": nodes}


def _twin_allocation(case: Case, switch: Switches) -> Obj:
    nodes = {
        name: {"fits": n.fits, "reserved": n.fits, "minors": n.minors, "annotation": n.annotation}
        for name, n in koordinator_nodes.decide(case, switch).items()
    }
    return {"preFilter": "Success" if koordinator.requested(case["pod"]) else "Skip", "nodes": nodes}


def _product_allocation(case: Case) -> Obj:
    state, claims = _state(case), DIALECT.claims.read(decode_pod(case["pod"]))
    given = case["pod"]["metadata"].get("annotations", {})
    allocator = DIALECT.claims.allocator(
        given, claims, CardChoice(device_share_order=_order(case), limits=_limits(case))
    )
    rows, fit = state.nodes.rows(), FitColumns.empty(state.nodes.capacity)
    allocator.fit(state.devices, rows, fit)
    nodes = {}
    for row in rows.tolist():
        placed = allocator.place(state.devices, row)
        minors: dict[str, list[int]] = {}
        index = {device.uuid: device.index for device in state.devices.devices(row)}
        own = (a for container in placed or () for a in container if a.vendor in NAMED_TYPES)
        for assignment in own:
            minors.setdefault(assignment.vendor, []).append(index[assignment.uuid])
        name = state.nodes.name(row)
        text = "" if placed is None else DIALECT.allocation.annotations(Placement(name, placed), 0)[ALLOCATED]
        nodes[name] = {
            "fits": bool(fit.fits[row]),
            "reserved": placed is not None,
            "minors": minors,
            "annotation": _plain(text),
        }
    return {"preFilter": "Success" if claims_devices(claims) else "Skip", "nodes": nodes}


def _limits(case: Case) -> CardLimits:
    """What a policy denies to pods with shares."""
    wanted = koordinator.asks(case["pod"])
    if "gpu" not in wanted or not wanted["gpu"].shared:
        return CardLimits()
    models = case["args"].get("gpuShareUnsupportedModels") or []
    return CardLimits(deny=tuple(f"{model['vendor']} {model['model']}".strip() for model in models))


def _plain(annotation: str) -> str:
    """Write the quantities of an annotation as plain numbers: how a number is written is no difference."""
    if annotation:
        json.loads(annotation)
    return _QUANTITY.sub(lambda match: f'{match[1]}:"{to_int(match[2])}"', annotation)
