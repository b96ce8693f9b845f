"""The worked numbers of the source document about Volcano's binpack (D1): its rules read literally, and the product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.naive import documented as literal

from vgpu_scheduler.allocators import FitColumns, Weights
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.scorers import BinpackScorer, NodeRanking, ScoredPod, WeightedScorer
from vgpu_scheduler.state import State

Obj = dict[str, Any]

# Arguments ---------------------------------------------------------------------------------------------------------


def literal_arguments(inputs: Obj) -> Obj:
    arguments = inputs["arguments"]
    return _arguments(arguments.get("binpack.weight", 1), literal.binpack_weights(arguments))


def product_arguments(inputs: Obj) -> Obj:
    parsed = parse_binpack_arguments(inputs["arguments"])
    assert not parsed.warnings
    return _arguments(parsed.weight, dict(parsed.weights))


def _arguments(weight: int, weights: Mapping[str, int]) -> Obj:
    """Everything that any of the examples prints."""
    others = [name for name in weights if name not in ("cpu", "memory")]
    unset = dict(parse_binpack_arguments({"binpack.resources": "name"}).weights)["name"]
    return {
        "weight": weight,
        "weight_map": dict(weights),
        "weight_sum_if_all_requested": sum(weights.values()),
        "max_score": 100 * weight,
        "dominant": max(weights, key=lambda name: weights[name]),
        "binpack.weight": weight,
        "binpack.cpu": weights["cpu"],
        "binpack.memory": weights["memory"],
        "binpack.resources": ",".join(others),
        "binpack.resources.<name>": unset,
    }


# Scores ------------------------------------------------------------------------------------------------------------


def literal_score(inputs: Obj) -> Obj:
    weight, weights = inputs["arguments"].get("binpack.weight", 1), literal.binpack_weights(inputs["arguments"])
    offered = _per_node(inputs)
    scores = {
        node: literal.binpack(inputs["task"], offered[node], used, weights, weight)["final"]
        for node, used in inputs["used"].items()
    }
    return {"weight_map": weights, "scores": scores}


def product_score(inputs: Obj) -> Obj:
    parsed = parse_binpack_arguments(inputs["arguments"])
    scores = _scores(inputs["task"], _per_node(inputs), inputs["used"], parsed.weights, parsed.weight)
    return {"weight_map": dict(parsed.weights), "scores": scores}


def literal_steps(inputs: Obj) -> Obj:
    used = inputs["used"] if _by_node(inputs) else {"node": inputs["used"]}
    steps = {
        node: literal.binpack(inputs["task"], inputs["allocatable"], amounts, inputs["weight_map"], inputs["weight"])
        for node, amounts in used.items()
    }
    return _chosen(inputs, steps)


def product_steps(inputs: Obj) -> Obj:
    used = inputs["used"] if _by_node(inputs) else {"node": inputs["used"]}
    offered = dict.fromkeys(used, inputs["allocatable"])
    weights = inputs["weight_map"]

    def scores(of: Mapping[str, int], weight: int = 1) -> Obj:
        return _scores(inputs["task"], offered, used, tuple(of.items()), weight)

    # A resource alone gives its share; the part that it adds is the share times its weight.
    alone = {name: scores({**dict.fromkeys(weights, 0), name: weight}) for name, weight in weights.items()}
    whole, final = scores(weights), scores(weights, inputs["weight"])
    steps = {}
    for node in used:
        parts = {f"{name}_score": alone[name][node] / 100 * weight for name, weight in weights.items()}
        totals = {"sum": sum(parts.values()), "weight_sum": sum(weights.values())}
        steps[node] = {**parts, **totals, "normalised": whole[node] / 100, "final": final[node]}
    return _chosen(inputs, steps)


def _chosen(inputs: Obj, steps: Mapping[str, Obj]) -> Obj:
    if not _by_node(inputs):
        return steps["node"]
    printed = {node: {key: step for key, step in s.items() if key != "weight_sum"} for node, s in steps.items()}
    return {**printed, "chosen": max(steps, key=lambda node: steps[node]["final"])}


def _by_node(inputs: Obj) -> bool:
    return any(isinstance(amounts, dict) for amounts in inputs["used"].values())


def _per_node(inputs: Obj) -> Mapping[str, Obj]:
    """What each node offers; one that the example gives to all of them is printed once."""
    offered = inputs["allocatable"]
    return offered if offered.keys() == inputs["used"].keys() else dict.fromkeys(inputs["used"], offered)


def _scores(task: Obj, offered: Mapping[str, Obj], used: Mapping[str, Obj], weights: Weights, weight: int) -> Obj:
    state = State({"hami": 3})
    for node, amounts in offered.items():
        wire = {"metadata": {"name": node}, "spec": {}, "status": {"allocatable": _texts(amounts)}}
        state.observe_node(decode_node(wire), {})
        state.observe_pod(_pod(f"on-{node}", used[node], node), {})
    requests = _pod("task", task).spec.requests
    ranking = NodeRanking([WeightedScorer(BinpackScorer(weights), weight)], ScoredPod(requests, ()))
    rows = state.nodes.rows()
    found = ranking.score(state, rows, FitColumns.empty(state.nodes.capacity))
    return {state.nodes.name(row): float(score) for row, score in zip(rows.tolist(), found, strict=True)}


def _pod(name: str, amounts: Obj, node: str = "") -> Any:
    container = {"name": "c", "resources": {"requests": _texts(amounts)}}
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return decode_pod({"metadata": metadata, "spec": spec, "status": {"phase": "Running" if node else "Pending"}})


def _texts(amounts: Obj) -> dict[str, str]:
    """The examples' cpu is in cores, their memory in GiB."""
    units = {"cpu": lambda amount: f"{round(amount * 1000)}m", "memory": lambda amount: f"{amount}Gi"}
    return {name: units.get(name, str)(amount) for name, amount in amounts.items()}
