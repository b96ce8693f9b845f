"""Which holds for other pods keep a pod out: for messages and questions about one pod, not for decisions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import NearMiss, worded_pod
from vgpu_scheduler.state import Hold

_MOST_NODES: Final = 16
"""The most nodes with holds that are tried for a message."""


def holds_for_others(algorithm: SchedulingAlgorithm, pod: Pod, node: str) -> list[Hold]:
    """Return the holds on a node that a pod must not use: those of pods of its priority or a higher one."""
    holds = algorithm.state.holds
    usable = holds.usable_by(node, pod.uid, algorithm.priority(pod)) if holds else []
    return [hold for hold in (holds.on(node) if holds else ()) if hold.uid not in usable]


def holding(algorithm: SchedulingAlgorithm, holds: Collection[Hold], card: str) -> list[Hold]:
    """Return the holds for which room is kept on a card now."""
    charged = algorithm.state.holds.charged
    return [hold for hold in holds if any(card in usage.charges for usage in charged(hold.uid).uses.values())]


def holds_keeping_out(algorithm: SchedulingAlgorithm, pod: Pod, near_miss: NearMiss | None) -> list[Hold]:
    """Return the holds on nodes where a pod would fit without them, and on the card that came closest.

    Parameters
    ----------
    near_miss
        The card that came closest, if amounts are short.
    """
    found: list[Hold] = []
    for node in islice(algorithm.state.holds.nodes(), _MOST_NODES):
        others = holds_for_others(algorithm, pod, node)
        if others and _fits_without(algorithm, pod, node):
            found += others
        elif near_miss is not None and near_miss.node == node:
            found += holding(algorithm, others, near_miss.uuid)
    return found


def _fits_without(algorithm: SchedulingAlgorithm, pod: Pod, node: str) -> bool:
    everything = [hold.uid for hold in algorithm.state.holds.on(node)]
    return algorithm.node_fit.fits_once_gone(pod, node, (), everything) is not None


def for_whom(holds: Sequence[Hold], namespace: str) -> str:
    """Name the pod for which room is kept to readers of one namespace, or say that it is another one's."""
    mine = [hold for hold in holds if hold.reservation.namespace == namespace]
    return worded_pod(namespace, (mine or holds)[0].reservation.pod)
