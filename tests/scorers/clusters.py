"""Small clusters, and which node a scorer takes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vgpu_scheduler.allocators import Allocator, CardChoice, FitColumns
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.kernels import select_best
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import NO_USAGE, Device
from vgpu_scheduler.scorers import NodeRanking, ScoredPod, WeightedScorer
from vgpu_scheduler.state import State

GIB = 2**30


@dataclass(frozen=True)
class NodeOf:
    """A node: cpu and memory (GiB) in use of 32 and 128, and memory (MiB) in use of each card.

    Attributes
    ----------
    most
        MiB of each card; 16384 where it says nothing.
    """

    cpu: int = 0
    memory: int = 0
    cards: Sequence[int] = ()
    most: Sequence[int] = field(default=())


def cluster(nodes: Mapping[str, NodeOf]) -> State:
    """A state with these nodes, observed in the order given; each use of a card is one of its ten shares."""
    state = State({"hami": 3})
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for name, node in nodes.items():
        most = node.most or (16384,) * len(node.cards)
        devices = [Device(f"{name}/{i}", "NVIDIA", "NVIDIA T4", (10, memory, 100), i) for i, memory in enumerate(most)]
        state.observe_node(
            decode_node({"metadata": {"name": name}, "spec": {}, "status": {"allocatable": allocatable}}),
            {"hami": devices},
        )
        row = state.nodes.row(name)
        assert row is not None
        state.nodes.charge(row, {"cpu": 1000 * node.cpu, "memory": GIB * node.memory})
        for number, memory in enumerate(node.cards):
            position = state.devices.position(row, f"{name}/{number}")
            assert position is not None
            state.devices.charge(position, (int(memory > 0), memory, 0), 1)
    return state


def pod(**amounts: str) -> tuple[ScoredPod, Allocator | None]:
    """A pod of one container with cpu, memory, gpu, gpumem and gpucores, for the HAMi dialect."""
    names = {"gpu": "nvidia.com/gpu", "gpumem": "nvidia.com/gpumem", "gpucores": "nvidia.com/gpucores"}
    limits = {names.get(name, name): amount for name, amount in amounts.items()}
    wire = {
        "metadata": {"name": "pod", "namespace": "default", "uid": "pod"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": limits, "limits": limits}}]},
        "status": {},
    }
    dialect, known = hami_dialect(), decode_pod(wire)
    claims = dialect.claims.read(known)
    assert dialect.allocation.usage(known) == NO_USAGE
    allocator = dialect.claims.allocator({}, claims, CardChoice()) if "gpu" in amounts else None
    return ScoredPod(known.spec.requests, claims, dialect.inventory.device_resources), allocator


def scores(state: State, asked: tuple[ScoredPod, Allocator | None], *scorers: WeightedScorer) -> dict[str, float]:
    """What ranks each node on which the pod fits."""
    workload, allocator = asked
    rows, fit = state.nodes.rows(), FitColumns.empty(state.nodes.capacity)
    if allocator is None:
        fit.fits[rows] = True
    else:
        allocator.fit(state.devices, rows, fit)
    rows = rows[fit.fits[rows]]
    found = NodeRanking(scorers, workload).score(state, rows, fit)
    return {state.nodes.name(row): float(score) for row, score in zip(rows.tolist(), found, strict=True)}


def winner(state: State, asked: tuple[ScoredPod, Allocator | None], *scorers: WeightedScorer) -> str:
    """The node with the highest score, the first by name among equals."""
    found, nodes = scores(state, asked, *scorers), state.nodes
    column, feasible = np.zeros(nodes.capacity), np.zeros(nodes.capacity, dtype=np.bool_)
    for name, score in found.items():
        row = nodes.row(name)
        column[row], feasible[row] = score, True
    return nodes.name(select_best(nodes.rows(), feasible, column, nodes.name_order))
