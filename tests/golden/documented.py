"""The worked numbers of the source documents.

An example passes when the rule, read literally, and the product both give what the document says. Where a decision
of ours overrides the document, the example says what is ours: it counts as decided when the literal rule gives the
document's number and the product ours.

Examples of the checks below are run. The others are statements, which are prose for the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tests.golden import documented_binpack as binpack
from tests.golden import documented_deviceshare as deviceshare
from tests.golden import documented_mig as mig
from tests.golden import documented_topology as topology
from tests.golden.outcome import Case, Outcome, differences
from tests.naive import documented as literal

from vgpu_scheduler.allocators import FitColumns, HamiAllocator, card_order, verdict
from vgpu_scheduler.dialects import ClaimError
from vgpu_scheduler.dialects.hami import CodecError, NvidiaRequests, decode_assignments, hami_dialect, vendors
from vgpu_scheduler.dialects.hami.allocation import NODE_ANNOTATION, TIME_ANNOTATION
from vgpu_scheduler.dialects.hami.rules import parse_rules
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import ALLOCATED_ANNOTATION
from vgpu_scheduler.kernels import (
    AllowedCards,
    CardClaim,
    ClaimRules,
    DeviceColumns,
    PodDemand,
    Request,
    TryOrder,
    score_cards,
    select_best,
)
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Claim, ContainerClaims, ContainerType, Device, OrderKind
from vgpu_scheduler.policy import Policies, PolicyDefaults
from vgpu_scheduler.state import State

VENDOR = "NVIDIA"
Obj = dict[str, Any]

NAMES = NvidiaRequests()
SHORT = {"gpu": NAMES.count, "gpumem": NAMES.memory, "pct": NAMES.memory_percent, "gpucores": NAMES.cores}
"""The resource names of the examples."""


class Check(NamedTuple):
    """Both ways to an answer: by the rule as it is written, and by the product."""

    literal: Callable[[Obj], Any]
    product: Callable[[Obj], Any]


def knows(check: str) -> bool:
    """Tell whether a check is one of these, be it that it is deliberately not made."""
    return check in CHECKS or check in BEYOND


def run_case(case: Case) -> Outcome:
    """Check one example."""
    if case["check"] in BEYOND:
        return Outcome("not_implemented", BEYOND[case["check"]])
    check = CHECKS[case["check"]]
    inputs: Obj = case["inputs"]
    tolerance = case.get("tolerance", 1e-5)
    by_rule: Obj
    by_product: Obj
    by_rule, by_product = check.literal(inputs), check.product(inputs)
    found = list(differences("rule", case["expected"], _asked(by_rule, case["expected"]), tolerance))
    stated: Obj = OURS.get(case["check"]) or case.get("ours") or case["expected"]
    ours = {key: value for key, value in stated.items() if key != "note"}
    if "refused" in ours:
        if NAMES.count not in by_product.get("refused", ""):
            found.append(f"product: {by_product}, not refused with the count resource in the message")
    else:
        found += differences("product", ours, _asked(by_product, ours), tolerance)
    if found:
        return Outcome("failed", "; ".join(found))
    return Outcome("decided" if "decision" in case or case["check"] in OURS else "passed")


def _asked(answer: Obj, expected: Obj) -> Obj:
    """Leave out what the example does not print."""
    return {key: value for key, value in answer.items() if key in expected} if len(answer) > len(expected) else answer


# Cards -------------------------------------------------------------------------------------------------------------


def _node(cards: Sequence[Device], used: Sequence[tuple[int, int, int]]) -> State:
    """A state with one node and so much used of its cards."""
    state = State({"hami": 3})
    state.observe_node(decode_node({"metadata": {"name": "node"}, "spec": {}, "status": {}}), {"hami": cards})
    row = state.nodes.row("node")
    assert row is not None
    for card, amounts in zip(cards, used, strict=True):
        device = state.devices.position(row, card.uuid)
        assert device is not None
        state.devices.charge(device, amounts, 1)
    return state


def _one(device: Obj) -> State:
    total = (device["Count"], device["Totalmem"], device["Totalcore"])
    card = Device(device.get("id", "card"), VENDOR, "NVIDIA T4", total, healthy=device.get("health", True))
    return _node([card], [(device["Used"], device["Usedmem"], device["Usedcores"])])


def _claim(nums: int, memory: int, percent: int, cores: int) -> Claim:
    return Claim(VENDOR, nums, (1, memory, cores), (0, 0 if percent == literal.UNSET else percent, 0))


def _place(
    state: State,
    claims: Sequence[Claim],
    policy: str = "spread",
    annotations: Mapping[str, str] | None = None,
) -> tuple[list[str] | None, FitColumns]:
    """Cards in the order picked, or None, and the columns of the fit."""
    rules = parse_rules(annotations or {}, vendors())
    order = card_order(policy, OrderKind.NUMA_FIRST, numa_bind=rules.numa_bind)
    allocator = HamiAllocator((ContainerClaims("c", ContainerType.APP, tuple(claims)),), rules, order)
    rows, fit = state.nodes.rows(), FitColumns.empty(state.nodes.capacity)
    allocator.fit(state.devices, rows, fit)
    placed = allocator.place(state.devices, int(rows[0]))
    return None if placed is None else [assignment.uuid for assignment in placed[0]], fit


def _literal_device_score(inputs: Obj) -> Obj:
    return literal.device_score(inputs["device"], inputs.get("claims") or [inputs["request"]])


def _product_device_score(inputs: Obj) -> Obj:
    device, claims = inputs["device"], inputs.get("claims") or [inputs["request"]]
    made = [_claim(c["Nums"], c["Memreq"], c["MemPercentagereq"], c["Coresreq"]) for c in claims]
    columns = _one(device).devices.columns
    # Three dimensions of equal weight (D0-11): each alone gives its part, ten times.
    parts = {name: _score(columns, made, weights) for name, weights in _WEIGHTS.items()}
    return {name: score if name == "DeviceScore" else score / 10 for name, score in parts.items()}


_WEIGHTS = {"DeviceScore": (1, 1, 1), "UsedScore": (1, 0, 0), "MemScore": (0, 1, 0), "CoreScore": (0, 0, 1)}


def _score(columns: DeviceColumns, claims: Sequence[Claim], weights: tuple[int, int, int]) -> float:
    nothing = np.zeros(0, dtype=np.int8)
    number = len(claims)
    rules = (np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64))
    request = Request(
        PodDemand(
            container=np.zeros(number, dtype=np.int64),
            kind=np.full(number, ContainerType.APP, dtype=np.int64),
            vendor=np.zeros(number, dtype=np.int32),
            wanted=np.array([claim.count for claim in claims], dtype=np.int64),
            amounts=np.array([claim.amounts for claim in claims], dtype=np.int64),
            percent=np.array([claim.percent for claim in claims], dtype=np.int64),
        ),
        ClaimRules(*rules, np.zeros(number, dtype=np.float32), np.zeros(number, dtype=np.bool_)),
        AllowedCards(nothing, nothing, numa_bind=False, mutex=False, pieces=True),
        TryOrder(np.zeros(0, dtype=np.int64), np.array(weights, dtype=np.float32)),
    )
    score = np.zeros(1, dtype=np.float32)
    here = CardClaim(
        0, 0, 0, np.zeros(1, dtype=np.int64), columns.used[:1], np.zeros(0, dtype=np.int16), np.zeros(1, dtype=np.int16)
    )
    score_cards(columns, request, here, score)
    return float(score[0])


def _scored_cards(cards: Sequence[Obj], unhealthy: Sequence[str] = ()) -> State:
    """Cards whose scores stand in the order of the example's: the score is memory in use."""
    devices = [
        Device(card["id"], VENDOR, "NVIDIA T4", (10, 1000, 100), number, card["numa"], healthy=healthy)
        for number, (card, healthy) in enumerate((card, card["id"] not in unhealthy) for card in cards)
    ]
    return _node(devices, [(0, 10 * card["score"], 0) for card in cards])


def _literal_card_order(inputs: Obj) -> Obj:
    orders = [literal.card_order(inputs["cards"], policy) for policy in _policies(inputs)]
    assert all(order == orders[0] for order in orders)
    return {"sorted": orders[0], "walk": orders[0][::-1]}


def _product_card_order(inputs: Obj) -> Obj:
    state, count = _scored_cards(inputs["cards"]), len(inputs["cards"])
    walks = [_place(state, [_claim(count, 1, literal.UNSET, 0)], policy)[0] for policy in _policies(inputs)]
    assert walks[0] is not None
    assert all(walk == walks[0] for walk in walks)
    return {"sorted": walks[0][::-1], "walk": walks[0]}


def _policies(inputs: Obj) -> list[str]:
    return list(inputs.get("policies") or [inputs["policy"]])


def _literal_numa_bind(inputs: Obj) -> Obj:
    return {"picks": literal.numa_bind(inputs["cards"], inputs["policy"], inputs["count"], inputs["unhealthy"])}


def _product_numa_bind(inputs: Obj) -> Obj:
    state = _scored_cards(inputs["cards"], inputs["unhealthy"])
    claims = [_claim(inputs["count"], 1, literal.UNSET, 0)]
    return {"picks": _place(state, claims, inputs["policy"], {"nvidia.com/numa-bind": "true"})[0]}


def _product_single_card(inputs: Obj) -> Obj:
    request = inputs["request"]
    claim = _claim(1, request.get("mem", 0), request.get("pct", literal.UNSET), request["cores"])
    return {"result": _result(_one(inputs["device"]), [claim], {})}


def _literal_type(inputs: Obj) -> str:
    return "ok" if inputs["request"]["type"] == VENDOR else "CardTypeMismatch"


def _product_foreign_type(inputs: Obj) -> Obj:
    request = inputs["request"]
    claim = Claim(request["type"], 1, (1, request["mem"], request["cores"]), (0, 0, 0))
    return {"result": _result(_one(inputs["device"]), [claim], {})}


def _result(state: State, claims: Sequence[Claim], annotations: Mapping[str, str]) -> str:
    picks, fit = _place(state, claims, annotations=annotations)
    if picks is not None:
        return "ok"
    row = int(state.nodes.rows()[0])
    (reason,) = verdict(fit.counts[row], int(fit.cards[row])).reasons
    return reason.text


def _literal_uuid_list(inputs: Obj) -> Obj:
    allowed = inputs["nvidia.com/use-gpuuuid"].split(",")
    return {"result": "ok" if inputs["device_id"] in allowed else "CardUUIDMismatch"}


def _product_uuid_list(inputs: Obj) -> Obj:
    state = _scored_cards([{"id": inputs["device_id"], "numa": 0, "score": 0}])
    rule = {"nvidia.com/use-gpuuuid": inputs["nvidia.com/use-gpuuuid"]}
    return {"result": _result(state, [_claim(1, 1, literal.UNSET, 0)], rule)}


def _product_memory_need(inputs: Obj) -> Obj:
    cases = inputs["cases"]
    return {"need": [_claim(1, 0, case["pct"], 0).on((10, case["Totalmem"], 100))[1] for case in cases]}


def _product_count(inputs: Obj) -> Obj:
    cards = [{"id": f"card-{i}", "numa": 0, "score": 0} for i in range(inputs["cards_on_node"])]
    return {"fits": _place(_scored_cards(cards), [_claim(inputs["nums"], 1, literal.UNSET, 0)])[0] is not None}


# Nodes -------------------------------------------------------------------------------------------------------------


def _literal_node_score(inputs: Obj) -> Obj:
    return {
        name: 10 * (node["sum_used"] / node["sum_count"] + node["core_ratio"] + node["mem_ratio"])
        for name, node in inputs["nodes"].items()
    }


def _product_node_score(inputs: Obj) -> Obj:
    return {name: _score_of(node) for name, node in inputs["nodes"].items()}


def _score_of(node: Obj) -> float:
    count = node["sum_count"]
    cards = [Device(f"card-{i}", VENDOR, "NVIDIA T4", (1, 1000, 100)) for i in range(count)]
    used = [(int(i < node["sum_used"]), 0, 0) for i in range(count)]
    used[0] = (used[0][0], round(node["mem_ratio"] * 1000 * count), round(node["core_ratio"] * 100 * count))
    state = _node(cards, used)
    fit = _place(state, [_claim(1, 1, literal.UNSET, 0)])[1]
    return float(fit.score[state.nodes.rows()[0]])


def _literal_node_order(inputs: Obj) -> Obj:
    ordered = literal.node_order(inputs["scores"], inputs["policy"])
    return {"sorted": ordered, "chosen": ordered[-1]}


def _product_node_order(inputs: Obj) -> Obj:
    names = sorted(inputs["scores"])
    pod = _pod({}, {}, {"hami.io/node-scheduler-policy": inputs["policy"]})
    (entry,) = Policies(PolicyDefaults()).resolve(pod).scorers
    score = entry.scorer.direction * np.array([inputs["scores"][name] for name in names], dtype=np.float64)
    left, chosen = np.ones(len(names), dtype=np.bool_), []
    for _ in names:  # the best is the last of the document's list, the best without it the one before, ...
        best = select_best(np.arange(len(names)), left, score, np.arange(len(names)))
        left[best] = False
        chosen.append(names[best])
    return {"sorted": chosen[::-1], "chosen": chosen[0]}


# Pods --------------------------------------------------------------------------------------------------------------


def _pod(limits: Mapping[str, int], requests: Mapping[str, int], annotations: Mapping[str, str]) -> Any:
    container = {
        "name": "c",
        "resources": {
            "limits": {SHORT[name]: str(amount) for name, amount in limits.items()},
            "requests": {SHORT[name]: str(amount) for name, amount in requests.items()},
        },
    }
    metadata = {"name": "pod", "namespace": "default", "uid": "uid", "annotations": dict(annotations)}
    return decode_pod({"metadata": metadata, "spec": {"containers": [container]}, "status": {}})


def _literal_request(inputs: Obj) -> Obj:
    return {
        "request": literal.request(inputs["limits"], inputs["requests"], inputs["default_mem"], inputs["default_cores"])
    }


def _product_request(inputs: Obj) -> Obj:
    names = NvidiaRequests(default_memory=inputs["default_mem"], default_cores=inputs["default_cores"])
    try:
        ((claim,),) = (
            c.claims for c in hami_dialect(vendors(names)).claims.read(_pod(inputs["limits"], inputs["requests"], {}))
        )
    except ClaimError as error:
        return {"refused": str(error)}
    return {"request": [claim.count, claim.amounts[1], claim.percent[1] or literal.UNSET, claim.amounts[2]]}


def _literal_decode(inputs: Obj) -> Obj:
    annotations = inputs.get("annotations") or {ALLOCATED_ANNOTATION: inputs["value"]}
    result: Obj = {"containers": literal.decode(annotations["hami.io/vgpu-devices-allocated"])}
    if "hami.io/vgpu-node" in annotations:
        result["node"] = annotations["hami.io/vgpu-node"]
        result["time_utc"] = literal.time_utc(annotations["hami.io/vgpu-time"])
    return result


def _product_decode(inputs: Obj) -> Obj:
    annotations = inputs.get("annotations") or {ALLOCATED_ANNOTATION: inputs["value"]}
    try:
        entries = decode_assignments(annotations[ALLOCATED_ANNOTATION])
    except CodecError:
        return {"result": "undecodable"}
    if not entries[-1]:
        entries = entries[:-1]  # what stands behind the last terminator
    result: Obj = {
        "containers": [
            [{"UUID": d.uuid, "Type": d.type, "Usedmem": d.memory, "Usedcores": d.cores} for d in container]
            for container in entries
        ]
    }
    if NODE_ANNOTATION in annotations:
        result["node"] = annotations[NODE_ANNOTATION]
        result["time_utc"] = literal.time_utc(annotations[TIME_ANNOTATION])
    return result


CHECKS = {
    "device_score": Check(_literal_device_score, _product_device_score),
    "card_order": Check(_literal_card_order, _product_card_order),
    "numa_bind": Check(_literal_numa_bind, _product_numa_bind),
    "foreign_type": Check(lambda inputs: {"result": _literal_type(inputs)}, _product_foreign_type),
    "single_card": Check(
        lambda inputs: {"result": literal.single_card(inputs["device"], inputs["request"])}, _product_single_card
    ),
    "uuid_list": Check(_literal_uuid_list, _product_uuid_list),
    "memory_need": Check(
        lambda inputs: {"need": [case["Totalmem"] * case["pct"] // 100 for case in inputs["cases"]]},
        _product_memory_need,
    ),
    "count": Check(lambda inputs: {"fits": inputs["nums"] <= inputs["cards_on_node"]}, _product_count),
    "node_score": Check(_literal_node_score, _product_node_score),
    "node_order": Check(_literal_node_order, _product_node_order),
    "request": Check(_literal_request, _product_request),
    "decode": Check(_literal_decode, _product_decode),
    "binpack_arguments": Check(binpack.literal_arguments, binpack.product_arguments),
    "binpack_score": Check(binpack.literal_score, binpack.product_score),
    "binpack_steps": Check(binpack.literal_steps, binpack.product_steps),
    "deviceshare_arguments": Check(deviceshare.literal_arguments, deviceshare.product_arguments),
    "deviceshare_score": Check(deviceshare.literal_score, deviceshare.product_score),
    "mig": Check(mig.literal_mig, mig.product_mig),
    "topology": Check(topology.literal_topology, topology.product_topology),
    "normalise": Check(deviceshare.literal_normalise, deviceshare.product_normalise),
}

BEYOND = {
    "statement": "a statement in prose: its rule is covered by the worked examples and by other tests",
}
OURS: Mapping[str, Obj] = {"foreign_type": {"result": "NodeInsufficientDevice"}}
"""What is ours beside the decisions: cards of another maker are no candidates, so none is passed over. The real HAMi
says so, too (the golden cases of the other makers)."""
