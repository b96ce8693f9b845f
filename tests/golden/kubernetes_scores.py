"""The scores of a golden case: what each plugin of kube-scheduler gave the feasible nodes, and their weighted sum."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.naive.scores import default_rules

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.kube import Pod, compile_label_selector, decode_pod
from vgpu_scheduler.predicates import SCORE_PLUGINS, Scores
from vgpu_scheduler.predicates.spread import SpreadScore, system_defaults
from vgpu_scheduler.scorers import AllocationRule, AllocationScorer, ImageLocalityScorer, NodeScorer, ScoredPod
from vgpu_scheduler.state import State

Points = dict[str, dict[str, int]]
"""By plugin and node."""

_GPU = (("cpu", 1), ("memory", 1), ("nvidia.com/gpu", 5))
SCORERS: dict[str, NodeScorer] = {
    "NodeResourcesFit": AllocationScorer(AllocationRule.LEAST),
    "NodeResourcesFit/MostAllocated": AllocationScorer(AllocationRule.MOST),
    "NodeResourcesFit/MostAllocated+gpu": AllocationScorer(AllocationRule.MOST, _GPU),
    "NodeResourcesFit/RequestedToCapacityRatio": AllocationScorer(
        AllocationRule.RATIO, _GPU, ((0, 0), (50, 7), (100, 10))
    ),
    "NodeResourcesBalancedAllocation": AllocationScorer(AllocationRule.BALANCED),
    "ImageLocality": ImageLocalityScorer(),
}
WEIGHTS = {plugin.name: plugin.weight for plugin in SCORE_PLUGINS} | {
    "NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
}  # fmt: skip
ELSEWHERE = ("DynamicResources",)
"""Plugins of which nothing is here; in all cases they give every node 0."""


def points(case: dict[str, Any], state: State, feasible: list[str]) -> tuple[Points, dict[str, int]]:
    """Return what the product gives the feasible nodes: by plugin, of those that say something, and the sums."""
    pod = decode_pod(case["pod"])
    rows = np.array([state.nodes.row(name) for name in feasible], dtype=np.int64)
    found: dict[str, NDArray[np.int64]] = {}
    for plugin in SCORE_PLUGINS:
        key = plugin.key(pod, state)
        said = None if key is None else plugin.make(pod, state).evaluate(pod, rows)
        if plugin.name == "PodTopologySpread":
            said = said or _by_default(case, pod, state, rows)
        if said is not None:
            found[plugin.name] = said.normalised
    for name, scorer in SCORERS.items():
        compiled = scorer.compile(_workload(case, name))
        found[name] = compiled.score(state, rows, FitColumns.empty(0)).astype(np.int64)
    # Where no taint bears on the pod, kube-scheduler gives all nodes all points.
    total = np.full(rows.shape[0], 0 if "TaintToleration" in found else 100 * WEIGHTS["TaintToleration"])
    for name, weight in WEIGHTS.items():
        total += weight * found.get(name, 0)
    named = {name: dict(zip(feasible, each.tolist(), strict=True)) for name, each in found.items()}
    return named, dict(zip(feasible, total.tolist(), strict=True))


def _by_default(case: dict[str, Any], pod: Pod, state: State, rows: NDArray[np.int64]) -> Scores | None:
    """The system's defaults are on in the cases."""
    rules = default_rules(case["pod"], case["objects"])
    selector = compile_label_selector(rules[0]["labelSelector"]) if rules else None
    return None if selector is None else SpreadScore(pod, state, system_defaults(selector)).evaluate(pod, rows)


def _workload(case: dict[str, Any], plugin: str) -> ScoredPod:
    obj = case["pod"]
    if plugin.startswith("NodeResourcesFit"):
        # kube-scheduler forgets what the pod itself requests as a whole; this scheduler counts it.
        obj = copy.deepcopy(obj)
        obj["spec"].pop("resources", None)
    spec = decode_pod(obj).spec
    return ScoredPod(
        spec.requests, (), unrequested=spec.unrequested, images=spec.images, containers=len(spec.containers)
    )


def differences(case: dict[str, Any], found: tuple[Points, dict[str, int]] | None) -> Iterator[str]:
    """Say where the points differ from those of the case.

    While a pod is being resized in place, what its other containers are taken to use is not told apart exactly: there,
    one point is no difference.
    """
    expect = case["expect"]
    if "scores" not in expect or found is None:
        if ("scores" in expect) is not (found is not None):
            yield f"scores: {found}, not {expect.get('scores')}"
        return
    resized = any(decode_pod(pod).resized_requests is not None for pod in case["pods"])
    named, total = found
    for plugin in sorted({*named, *expect["scores"]} - {*ELSEWHERE}):
        missing = 100 if plugin == "TaintToleration" else 0  # where nobody says anything
        for node in expect["feasible"]:
            wanted = expect["scores"].get(plugin, {}).get(node, missing)
            got = named.get(plugin, {}).get(node, missing)
            if abs(wanted - got) > int(resized):
                yield f"scores of {plugin} on {node}: {got}, not {wanted}"
    for node, wanted in expect["total"].items():
        if total.get(node) is None or abs(total[node] - wanted) > int(resized):
            yield f"total of {node}: {total.get(node)}, not {wanted}"
    elsewhere = {points for plugin in ELSEWHERE for points in expect["scores"].get(plugin, {}).values()}
    if elsewhere - {0}:
        yield f"{ELSEWHERE} say {elsewhere}"
