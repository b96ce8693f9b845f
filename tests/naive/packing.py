"""Fragmentation and its gradient as the paper words them, card by card, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif.traces import SHARES, TraceNode, TracePod, TypicalPod


@dataclass
class Box:
    """A node, what is left of its cpu, memory and cards, and how often each card is shared."""

    node: TraceNode
    cpu: int
    memory: int
    left: list[int]
    tenants: list[int]


def empty(nodes: Sequence[TraceNode]) -> list[Box]:
    return [Box(n, n.cpu, n.memory, [WHOLE] * len(n.models), [0] * len(n.models)) for n in nodes]


def usable(box: Box, pod: TracePod) -> list[int]:
    """The cards that a pod may have a share of."""
    models = box.node.models
    return [
        card
        for card in range(len(models))
        if box.left[card] >= pod.share and box.tenants[card] < SHARES and (not pod.models or models[card] in pod.models)
    ]


def fits(box: Box, pod: TracePod) -> bool:
    return box.cpu >= pod.cpu and box.memory >= pod.memory and len(usable(box, pod)) >= pod.cards


def fragments(box: Box, mix: Sequence[TypicalPod]) -> float:
    """What is free and cannot be used, in percent of a card; memory and tenants are not looked at."""
    total = 0.0
    for typical in mix:
        pod = typical.pod
        models = box.node.models
        could = [
            card
            for card in range(len(models))
            if box.left[card] >= max(pod.share, 1) and (not pod.models or models[card] in pod.models)
        ]
        runs = pod.cards > 0 and box.cpu >= pod.cpu and len(could) >= pod.cards
        used = sum(box.left[card] for card in could) if runs else 0
        total += typical.weight * (sum(box.left) - used)
    return total


def points(less: float) -> int:
    return int(100 / (1 + math.exp(-less * 10 / 1000)))


def descend(boxes: Sequence[Box], pod: TracePod, mix: Sequence[TypicalPod]) -> tuple[int, tuple[int, ...]] | None:
    """The first node with the highest score, and the cards there; None where the pod fits nowhere."""
    found: list[tuple[int, int, tuple[int, ...]]] = []
    for number, box in enumerate(boxes):
        if not fits(box, pod):
            continue
        ways = [(card,) for card in usable(box, pod)] if pod.cards == 1 else [tuple(usable(box, pod)[: pod.cards])]
        scored = []
        for way in ways:
            before = fragments(box, mix)
            book(box, pod, way, 1)
            scored.append((points(before - fragments(box, mix)), way))
            book(box, pod, way, -1)
        best = max(score for score, _ in scored)
        found.append((best, number, next(way for score, way in scored if score == best)))
    if not found:
        return None
    best = max(score for score, *_ in found)
    return next((number, way) for score, number, way in found if score == best)


def book(box: Box, pod: TracePod, cards: Sequence[int], sign: int) -> None:
    box.cpu -= sign * pod.cpu
    box.memory -= sign * pod.memory
    for card in cards:
        box.left[card] -= sign * pod.share
        box.tenants[card] += sign
