"""A fleet and a workload made from a published distribution, for use without a trace."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif.traces.format import TraceNode, TracePod

PODS: Final = 10_000
"""The number of pods that represent the distribution."""
_FILE: Final = "distribution.json"
_MILLI: Final = 1000
_MIB: Final = 1024


@cache
def distribution() -> dict[str, Any]:
    """Return the distribution as written, with its source.

    Nodes are kinds with a count; cpu is in cores, memory in GiB. Pods are kinds with a percentage, each with weighted
    requests; ``share`` is in percent of a card, by default 100.
    """
    found = json.loads(files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def synthetic_nodes() -> list[TraceNode]:
    """Return the nodes of the distribution."""
    return [
        TraceNode(
            f"{kind['model']}-{kind['cards']}x-{kind['cpu']}c-{number:04d}",
            kind["cpu"] * _MILLI,
            kind["memory"] * _MIB,
            (kind["model"],) * kind["cards"],
        )
        for kind in distribution()["nodes"]
        for number in range(kind["count"])
    ]


def synthetic_pods() -> list[TracePod]:
    """Return 10,000 pods in the proportions of the distribution."""
    weights: list[tuple[TracePod, float]] = []
    for kind in distribution()["pods"]:
        whole = sum(request["weight"] for request in kind["requests"])
        for request in kind["requests"]:
            share = request.get("share", WHOLE) if kind["cards"] else 0
            pod = TracePod(int(request["cpu"] * _MILLI), request["memory"] * _MIB, kind["cards"], share)
            weights.append((pod, kind["percent"] * request["weight"] / whole))
    whole = sum(weight for _, weight in weights)
    found: list[TracePod] = []
    due = 0.0
    for pod, weight in weights:  # rounding errors are carried over to the next request
        due += weight * PODS / whole
        found += [pod] * (round(due) - len(found))
    return found
