"""The worked numbers of the source document about Koordinator's DeviceShare (D4): its rules read literally, and the
product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.koordinator_arguments import deviceshare_arguments
from tests.naive import deviceshare, koordinator

from vgpu_scheduler.allocators import FitColumns, ShareOrder, Strategy, share_terms
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.koordinator.claims import normalise
from vgpu_scheduler.kernels import ShareAsk, share_score
from vgpu_scheduler.kube import decode_node
from vgpu_scheduler.model import Claim, ContainerClaims, ContainerType, Device
from vgpu_scheduler.scorers import DeviceShareScorer, ScoredPod
from vgpu_scheduler.scorers.deviceshare import share_demand
from vgpu_scheduler.state import State

Obj = dict[str, Any]

DIALECT = koordinator_dialect()
LONG = {name.rpartition("-")[2].rpartition("/")[2]: name for name in DIALECT.inventory.device_resources}
"""The resource names of the examples: ``ratio``, ``core``, ``memory``, ``rdma``, ``fpga``."""


def literal_arguments(inputs: Obj) -> Obj:
    strategy = inputs["scoringStrategy"] or {}
    documented = [{"name": "koordinator.sh/gpu-memory-ratio", "weight": 1}]
    return {"type": strategy.get("type", "LeastAllocated"), "resources": strategy.get("resources", documented)}


def product_arguments(inputs: Obj) -> Obj:
    order = deviceshare_arguments(inputs)
    return {"type": order.strategy.value, "resources": [{"name": n, "weight": w} for n, w in order.weights]}


def literal_normalise(inputs: Obj) -> Obj:
    return koordinator.convert(inputs["request"])


def product_normalise(inputs: Obj) -> Obj:
    return normalise(inputs["request"])


def literal_score(inputs: Obj) -> Obj:
    instances = [(instance["total"], instance["free"]) for instance in inputs["instances"]]
    strategies = (deviceshare.LEAST, deviceshare.MOST)
    return {s: deviceshare.score(instances, inputs["pod"], inputs["weights"], s) for s in strategies}


def product_score(inputs: Obj) -> Obj:
    state = _node(inputs["instances"])
    claims = (ContainerClaims("c", ContainerType.APP, (Claim("gpu", 1, _amounts(inputs["pod"]), (0, 0, 0, 0)),)),)
    weights = tuple(sorted((LONG[name], weight) for name, weight in inputs["weights"].items()))
    found = {}
    for strategy in Strategy:
        if inputs["level"] == "node":
            scorer = DeviceShareScorer(strategy, weights).compile(
                ScoredPod({}, claims, DIALECT.inventory.device_resources)
            )
            (score,) = scorer.score(state, state.nodes.rows(), FitColumns.empty(state.nodes.capacity))
        else:
            terms = share_terms(ShareOrder(strategy, weights), DIALECT.inventory.device_resources, state.devices)
            demand, columns = share_demand(claims, state.devices), state.devices.columns
            asked = ShareAsk(demand.vendor[0], demand.amounts[0], demand.percent[0])
            score = share_score(columns, 0, columns.used[:1], terms, asked)
        found[strategy.value] = int(score)
    return found


def _node(instances: Sequence[Obj]) -> State:
    """A state with one node and these cards, with so much of them used that what is free is left."""
    state = State({DIALECT.name: len(DIALECT.inventory.dimensions)})
    cards = [Device(f"card-{i}", "gpu", "", _amounts(card["total"]), i) for i, card in enumerate(instances)]
    state.observe_node(decode_node({"metadata": {"name": "node"}, "spec": {}, "status": {}}), {DIALECT.name: cards})
    for number, card in enumerate(instances):
        used = np.subtract(_amounts(card["total"]), _amounts(card["free"]))
        state.devices.charge(number, tuple(used.tolist()), 1)
    return state


def _amounts(named: Obj) -> tuple[int, ...]:
    amounts = [0] * len(DIALECT.inventory.dimensions)
    for name, amount in named.items():
        amounts[DIALECT.inventory.device_resources[LONG[name]].dimension] = amount
    return tuple(amounts)
