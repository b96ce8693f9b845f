"""Why each card of a node can or cannot serve a pod: for questions about one pod, not for decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import RefusedClass, ResolvedClaims
from vgpu_scheduler.engine.keeping_out import holding, holds_for_others
from vgpu_scheduler.engine.nearest import ABOUT_AMOUNTS, shortage
from vgpu_scheduler.engine.policy_limits import LimitError, check_limits
from vgpu_scheduler.kernels import MOST_MEMBERS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    MOST_BANDWIDTH,
    Amounts,
    CardReason,
    Claim,
    ContainerClaims,
    Device,
    Partition,
    PartitionTable,
    Shortage,
)
from vgpu_scheduler.state import DeviceMatrix, Hold

_FITS = -1
"""The code for no reason."""


@dataclass(frozen=True, slots=True)
class CardVerdict:
    """Whether one card fits one claim of a pod, as if it were the node's only card, and why not.

    Attributes
    ----------
    container
        The container with the claim.
    device
        The card.
    used
        The amounts in use of it.
    reason
        Why it cannot serve the claim; None if it can.
    lack
        The amount that is short, if that is the reason; else None.
    kept_for
        The pods for which room is kept on the card, and not for this one, if an amount is short.
    """

    container: str
    device: Device
    used: Amounts
    reason: CardReason | None
    lack: Shortage | None
    kept_for: tuple[str, ...] = ()


def card_verdicts(algorithm: SchedulingAlgorithm, pod: Pod, node: str) -> list[CardVerdict]:
    """Return a verdict for each claim of a pod and each card of a node, in the order of containers and cards.

    For a claim of several cards, each card is checked for one share. Quotas concern the whole pod and are ignored, as
    is what other containers of the pod take of a card.

    Returns
    -------
    list
        Empty for a pod that claims nothing or is refused, and for an unknown node.
    """
    pod_class = algorithm.classes.of(pod)
    row = algorithm.state.nodes.row(node)
    if isinstance(pod_class, RefusedClass) or row is None or not pod_class.claimed.dialect:
        return []
    claimed, dialect = pod_class.claimed, algorithm.classes.dialects[pod_class.claimed.dialect]
    devices = algorithm.state.matrix(dialect.name)
    listed = list(algorithm.state.usage_on(node, dialect.name))
    found: list[CardVerdict] = []
    for container in claimed.claims:
        for claim in container.claims:
            found += _about(claimed, dialect, container, claim, listed)
    apart = (algorithm.state.held_cards(peers, dialect.name, dialect.inventory.cards) for peers in claimed.peers(pod))
    held = frozenset[str]().union(*(cards.on(devices, row, besides=pod.uid) for cards in apart))
    others = holds_for_others(algorithm, pod, node)
    found = [_with_holds(algorithm, each, others) for each in found] if others else found
    return [
        replace(each, reason=CardReason.CardHeldByPeer) if each.reason is None and each.device.uuid in held else each
        for each in found
    ]


def _with_holds(algorithm: SchedulingAlgorithm, verdict: CardVerdict, others: Sequence[Hold]) -> CardVerdict:
    """Return a verdict with the pods for which room is kept on its card."""
    if verdict.reason not in ABOUT_AMOUNTS:
        return verdict
    holds = holding(algorithm, others, verdict.device.uuid)
    return replace(verdict, kept_for=tuple(hold.reservation.pod for hold in holds))


def _about(
    claimed: ResolvedClaims,
    dialect: Dialect,
    container: ContainerClaims,
    claim: Claim,
    listed: Sequence[tuple[Device, Amounts]],
) -> Iterator[CardVerdict]:
    """Check each card of the claim's vendor as the only card of a node."""
    cards = [(_by_itself(device, claim), used) for device, used in listed if device.vendor == claim.vendor]
    if not cards:
        return
    parts = [(device, used) for device, used in listed if device.part]
    alone = (replace(container, claims=(replace(claim, count=1),)),)
    try:
        bound = check_limits(claimed.claims, claimed.policy.limits, dialect)
    except LimitError:  # the pod is refused as a whole
        return
    choice = replace(claimed.choice, limits=replace(claimed.choice.limits, most_memory=bound))
    allocator = dialect.claims.allocator(claimed.annotations, alone, choice)
    matrix = DeviceMatrix(len(dialect.inventory.dimensions))
    matrix.ensure_rows(len(cards))
    for row, card in enumerate(cards):
        matrix.replace(row, [device for device, _ in (card, *parts)])
        for device, used in (card, *parts):
            number = matrix.position(row, device.uuid)
            assert number is not None
            matrix.charge(number, used, 1)
    rows = np.arange(len(cards), dtype=np.int64)
    columns = FitColumns.empty(len(cards))
    allocator.fit(matrix, rows, columns)
    numbers = np.array([matrix.position(row, device.uuid) for row, (device, _) in enumerate(cards)], dtype=np.int64)
    rejected = np.where(columns.fits | ~columns.counts.any(axis=1), _FITS, columns.counts.argmax(axis=1))
    relative, dimensions, asked, free = allocator.shortfall(matrix.columns, numbers, rejected)
    for row, (device, used) in enumerate(cards):
        reason = None if rejected[row] == _FITS else CardReason(int(rejected[row]))
        lack = None
        if reason in ABOUT_AMOUNTS and relative[row] > 0:
            column = int(dimensions[row])
            lack = shortage(dialect.inventory.dimensions[column], device, column, int(free[row]), int(asked[row]))
        yield CardVerdict(container.name, device, used, reason, lack)


def _by_itself(device: Device, claim: Claim) -> Device:
    """Return a card for the check of a claim of several cards: its partition is complete without the others."""
    if device.partitions is None or claim.count == 1 or device.index >= MOST_MEMBERS:
        return device
    alone = Partition((device.index,), bandwidth=MOST_BANDWIDTH)
    return replace(device, partitions=PartitionTable((alone,), only=device.partitions.only))
