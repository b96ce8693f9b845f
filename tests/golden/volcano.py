"""Golden cases of Volcano's binpack: what Volcano's own code says, against what this scheduler says.

The cases were made by running Volcano on generated objects. Each goes through the real decoders, a state and the
scorer; where this scheduler differs on purpose, the naive twin tells, as in the cases of HAMi.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive import binpack as naive
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.volcano_quirks import VOLCANO

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.scorers import BinpackScorer, NodeRanking, ScoredPod, WeightedScorer
from vgpu_scheduler.state import State

Obj = dict[str, Any]

RELATIVE = 1e-9
_MILLI = 1000
_PLAIN = ("cpu", "memory", "pods")
"""Resources that Volcano counts in the same unit as this scheduler; all others in thousandths."""


# Arguments ---------------------------------------------------------------------------------------------------------


def run_arguments(case: Case) -> Outcome:
    """Parse the arguments of a case and compare."""
    given = case["args"]["arguments"]
    parsed = parse_binpack_arguments(given)
    found = [
        *differences("twin", case["expect"], _weights(*naive.arguments(given))),
        *differences("product", case["expect"], _weights(parsed.weight, dict(parsed.weights))),
    ]
    return Outcome("failed", "; ".join(found)) if found else Outcome("passed")


def _weights(weight: int, weights: Mapping[str, int]) -> Obj:
    return {
        "cpu": weights["cpu"],
        "memory": weights["memory"],
        "resources": dict(weights),
        "weight": weight,
        "nodeOrderFn": weight != 0,
    }


# Scores ------------------------------------------------------------------------------------------------------------


def run_score(case: Case) -> Outcome:
    """Score the nodes of a case and compare."""
    on, off = Switches(VOLCANO), Switches(NONE)
    theirs, ours = _twin(case, on), _twin(case, off)
    listed = {**ours, "used": _with_column(case, ours["used"])}
    found = [*_differences("twin", _expected(case), theirs), *_differences("product", listed, _product(case))]
    if found:
        return Outcome("failed", "; ".join(found))
    asked = on.asked | off.asked
    quirks = responsible(theirs, ours, lambda some: _twin(case, Switches(some)), asked, VOLCANO)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _expected(case: Case) -> Obj:
    """What a case expects, without the amounts of 0 that Volcano lists now and then."""
    expect = case["expect"]
    return {
        **expect,
        "request": _above_zero(expect["request"]),
        "used": {node: _above_zero(amounts) for node, amounts in expect["used"].items()},
        "allocatable": {node: _above_zero(amounts) for node, amounts in expect["allocatable"].items()},
    }


def _with_column(case: Case, used: Mapping[str, Obj]) -> Obj:
    """Leave out what no node offers: the node table keeps that aside until one does."""
    always = {"ephemeral-storage", *_PLAIN}
    offered = always.union(*(node["status"]["allocatable"] for node in case["nodes"]))
    return {node: {name: amounts[name] for name in amounts.keys() & offered} for node, amounts in used.items()}


def _above_zero(amounts: Mapping[str, int]) -> Obj:
    return {name: amount for name, amount in amounts.items() if amount}


def _twin(case: Case, switch: Switches) -> Obj:
    weight, weights = naive.arguments(case["args"]["arguments"])
    asked = naive.request_of(case["pod"], switch)
    used = {node["metadata"]["name"]: naive.used_on(node, case["pods"], switch) for node in case["nodes"]}
    offered = {node["metadata"]["name"]: naive.offered_by(node) for node in case["nodes"]}
    scores = {node: 100 * weight * naive.score(asked, used[node], offered[node], weights) for node in used}
    return _answer(weight, weights, asked, used, offered, scores)


def _product(case: Case) -> Obj:
    arguments = parse_binpack_arguments(case["args"]["arguments"])
    state = State({"hami": 3})
    for node in case["nodes"]:
        state.observe_node(decode_node(node), {})
    for pod in case["pods"]:
        state.observe_pod(decode_pod(pod), {})
    requests = decode_pod(case["pod"]).spec.requests
    scorers = [WeightedScorer(BinpackScorer(arguments.weights), arguments.weight)]
    nodes, rows = state.nodes, state.nodes.rows()
    score = NodeRanking(scorers, ScoredPod(requests, ())).score(state, rows, FitColumns.empty(nodes.capacity))
    names = [nodes.name(row) for row in rows.tolist()]

    def amounts(of: Any, row: int) -> Obj:
        found = {name: int(of[row, column]) for name, column in nodes.resources.columns.items()}
        return {name: amount for name, amount in found.items() if amount and naive.counted(name)}

    return _answer(
        arguments.weight,
        dict(arguments.weights),
        {name: amount for name, amount in {**requests, "pods": 1}.items() if naive.counted(name)},
        {name: amounts(nodes.used, row) for name, row in zip(names, rows.tolist(), strict=True)},
        {name: amounts(nodes.allocatable, row) for name, row in zip(names, rows.tolist(), strict=True)},
        dict(zip(names, score.tolist(), strict=True)),
    )


def _answer(
    weight: int,
    weights: Mapping[str, int],
    asked: Mapping[str, int],
    used: Mapping[str, Mapping[str, int]],
    offered: Mapping[str, Mapping[str, int]],
    scores: Mapping[str, float],
) -> Obj:
    return {
        "weights": _weights(weight, weights),
        "request": _in_milli(asked),
        "used": {node: _in_milli(amounts) for node, amounts in used.items()},
        "allocatable": {node: _in_milli(amounts) for node, amounts in offered.items()},
        "scores": dict(scores),
        "best": _best(scores),
    }


def _in_milli(amounts: Mapping[str, int]) -> Obj:
    return {name: amount if name in _PLAIN else amount * _MILLI for name, amount in amounts.items()}


def _best(scores: Mapping[str, float]) -> Sequence[str]:
    highest = max(scores.values())
    return sorted(node for node, score in scores.items() if highest - score <= RELATIVE * max(abs(highest), 1))


def _differences(what: str, expected: Obj, found: Obj) -> list[str]:
    """Scores to a relative tolerance, all else exactly."""
    largest = max([1.0, *(abs(score) for score in expected["scores"].values())])
    exact = [{key: value for key, value in side.items() if key != "scores"} for side in (expected, found)]
    return [
        *differences(what, *exact),
        *differences(f"{what}.scores", expected["scores"], found["scores"], RELATIVE * largest),
    ]
