"""Decisions: what is to be done with a pod, together with the explanation."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

from vgpu_scheduler.model.devices import MIB, PodClaims
from vgpu_scheduler.model.placement import Placement
from vgpu_scheduler.model.reasons import ClusterEvent

_NEAR_MISS: Final = re.compile(
    r"nearest: (?P<shortages>\d+ of \d+ [^/;]+?) free on (?P<node>[^/\s]+)/(?P<uuid>[^\s;)]+)"
)
_PIECE, _PIECES = " in one piece", " in pieces"
_TOGETHER: Final = " for containers that run together"
_SHARES, _SLOTS = "shares", "slots"
_SHORTAGE: Final = re.compile(
    rf"(\d+) of (\d+) (?:({_SHARES})|((?:x \d+ )?\S+) (.+?))({_PIECE}|{_PIECES})?({_TOGETHER})?(?= and \d+ of |$)"
)


class Outcome(Enum):
    """What one attempt came to."""

    PLACED = "placed"
    UNSCHEDULABLE = "unschedulable"
    """No node fits now; an event may change that."""
    REFUSED = "refused"
    """The pod asks for what cannot be understood or is not supported; only the pod itself can change that."""
    ERROR = "error"
    """The attempt failed for a reason of our own; it is tried again."""
    NOT_READY = "waiting"
    """Nothing was decided, because not all that the pod depends on is known yet; there is nothing to say about it."""


class ConditionReason(StrEnum):
    """Why a pod's ``PodScheduled`` condition is false, in Kubernetes' words."""

    UNSCHEDULABLE = "Unschedulable"
    """No node fits now. Autoscalers add nodes for such pods."""
    SCHEDULER_ERROR = "SchedulerError"
    """Another node would not help: the pod is refused, a quota is used up, or the attempt failed."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Why one node does not fit.

    Attributes
    ----------
    reasons
        Each distinct reason once, as the condition counts them.
    detail
        The reasons with counts of cards (``1/4 CardNotHealth, 3/4 CardInsufficientMemory``); empty when nothing is
        counted per card.
    """

    reasons: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """What one scorer says about a node.

    Attributes
    ----------
    raw
        On the scorer's own scale.
    normalised
        Brought to 0 to 100, where more is better; what counts when several scorers are combined.
    value
        What it adds to the node's score: ``raw`` or ``normalised``, times ``weight``.
    within
        The part that this one explains, to which it adds instead; empty for parts of the node's score.
    """

    scorer: str
    raw: float
    normalised: float
    weight: int
    value: float
    within: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """An amount of which a card has too little free, in the unit of its dimension.

    Attributes
    ----------
    together
        Whether it is asked by containers that run at the same time, together, if all are on this card.
    piece
        Whether the card is given out in pieces, of which this is the largest, or all; told where several containers
        take one.
    """

    dimension: str
    unit: str
    free: int
    asked: int
    together: bool = False
    piece: bool = False

    @property
    def amounts(self) -> str:
        """How much there is and how much was asked; bytes are said in MiB."""
        free, asked, unit = self.free, self.asked, self.unit
        if unit == "bytes":
            free, asked, unit = free // MIB, -(-asked // MIB), "MiB"
        pieces = (_PIECES if self.together else _PIECE) if self.piece else ""
        what = unit if unit == _SHARES else f"{unit} {self.dimension}"
        return f"{free} of {asked} {what}{pieces}{_TOGETHER if self.together else ''}"

    def __str__(self) -> str:
        """Say how much is free."""
        return f"{self.amounts} free"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The card that came closest: the smallest relative shortfall, then the names.

    Attributes
    ----------
    shortages
        What it lacks, for one container or for all that run together; first what it lacks most, relative to what is
        asked.
    """

    node: str
    uuid: str
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        """Word it for an event."""
        return f"nearest: {' and '.join(each.amounts for each in self.shortages)} free on {self.node}/{self.uuid}"

    @classmethod
    def found_in(cls, text: str) -> NearMiss | None:
        """Return the near miss that an event tells of, with bytes in MiB; None if it tells of none."""
        found = _NEAR_MISS.search(text)
        if found is None:
            return None
        shortages = (
            Shortage(dimension or _SLOTS, unit or shares, int(free), int(asked), bool(together), bool(piece))
            for free, asked, shares, unit, dimension, piece, together in _SHORTAGE.findall(found["shortages"])
        )
        return cls(found["node"], found["uuid"], tuple(shortages))


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that has to end so that another one gets its room.

    Attributes
    ----------
    uid, pod
        The pod's UID and ``namespace/name``.
    priority
        Its priority.
    devices
        The UUIDs of the devices that it holds.
    bound
        Whether it is bound; one that is not need not be evicted.
    budgets
        The disruption budgets, as ``namespace/name``, that its end violates.
    node
        The node that it is on.
    group
        The group, as ``namespace/name``, of which all pods end with it; empty for one that ends by itself.
    terminating
        Whether it ends already; then it is waited for, and need not be evicted.
    """

    uid: str
    pod: str
    priority: int
    devices: tuple[str, ...] = ()
    bound: bool = True
    budgets: tuple[str, ...] = ()
    node: str = ""
    group: str = ""
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Preemption:
    """How a pod that fits nowhere gets room: where, and who has to end for it.

    Attributes
    ----------
    node, placement
        What the pod gets once the victims are gone.
    victims
        At least one, unless others of its group have some, the most important first.
    policy
        The policy that allows it, as ``source_of`` names it.
    gang
        The UIDs of the pods of its group, itself among them, that get room together; empty for one that gets it by
        itself. Every victim is listed with exactly one of them; a pod of the gang may have no victim.
    """

    node: str
    placement: Placement
    victims: tuple[Victim, ...]
    policy: str = ""
    gang: tuple[str, ...] = ()

    @property
    def violations(self) -> int:
        """How many victims end against a disruption budget."""
        return sum(bool(victim.budgets) for victim in self.victims)


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one attempt to place a pod: the action and its explanation in one value.

    Attributes
    ----------
    uid, pod
        The pod's UID and ``namespace/name``.
    placement
        Set when the outcome is ``PLACED``.
    annotations
        What the Binding writes on the pod for the node side, as it was measured against the limits; the times in it are
        those of the write. None where it has to be encoded for that.
    claims
        What the pod asks of devices, for those who carry the placement out.
    score
        The winner's node score: on its scorer's own scale when there is one, else the weighted sum; where
        somebody likes some nodes more than others, the sum of the points of all plugins.
    scores
        What each scorer said about each feasible node: about the winner always, about the others only when the caller
        asked for an explanation.
    message
        The text of the condition and of the event: the standard summary of all nodes.
    nodes, feasible
        How many nodes were looked at, and how many of them fit, where the outcome is ``PLACED``.
    reasons
        How many nodes gave each reason.
    verdicts
        Per node, only when the caller asked for an explanation.
    another_node_helps
        Whether one more node could change an ``UNSCHEDULABLE`` outcome: not where a quota keeps the pod from all nodes
        that would fit, nor where other pods have to come first.
    helped_by
        What could change an ``UNSCHEDULABLE`` outcome.
    rejected_by
        The plugins, card reasons or other causes that kept it from nodes, each once.
    equivalence
        Pods whose ``UNSCHEDULABLE`` decisions have an equal value get the same answer from the same state; None for a
        pod that stands for itself.
    per_node
        Whether each node rejects the pod for what that node is by itself: until one changes, the decision stays.
    sources
        Where each section of the policy in force came from: policies, the most important first, the pod, the settings.
    warnings
        Said once per pod as an event (an unknown policy value, for example).
    error
        What went wrong, when the outcome is ``ERROR``.
    preemption
        How a pod whose outcome is ``UNSCHEDULABLE`` gets room, if others may and have to end for it.
    again_at
        When the pod is to be tried again at the latest, in the time of the attempt; None if nothing says so.
    takes_room_of
        The UIDs of the pods for which the room was kept that the placement takes.
    """

    uid: str
    pod: str
    outcome: Outcome
    placement: Placement | None = None
    annotations: Mapping[str, str] | None = field(default=None, compare=False)
    claims: PodClaims = ()
    score: float = 0.0
    scores: Mapping[str, tuple[ScorePart, ...]] = field(default_factory=dict)
    message: str = ""
    nodes: int = 0
    feasible: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    verdicts: Mapping[str, NodeVerdict] = field(default_factory=dict)
    near_miss: NearMiss | None = None
    helped_by: ClusterEvent = ClusterEvent.NONE
    rejected_by: tuple[str, ...] = ()
    equivalence: Hashable = field(default=None, compare=False)
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: Exception | None = None
    another_node_helps: bool = True
    per_node: bool = False
    preemption: Preemption | None = None
    again_at: float | None = None
    takes_room_of: tuple[str, ...] = ()

    @property
    def condition_reason(self) -> ConditionReason:
        """The reason of the pod's condition where it was not placed."""
        waits_for_a_node = self.outcome is Outcome.UNSCHEDULABLE and self.another_node_helps
        return ConditionReason.UNSCHEDULABLE if waits_for_a_node else ConditionReason.SCHEDULER_ERROR
