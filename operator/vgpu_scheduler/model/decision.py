"""Decisions: what to do with a pod, together with the explanation."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

from vgpu_scheduler.model.amounts import shown_free, shown_needed, shown_unit
from vgpu_scheduler.model.claims import PodClaims
from vgpu_scheduler.model.placement import Placement
from vgpu_scheduler.model.reasons import ClusterEvent, RejectionReason

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
    """The outcome of one attempt."""

    PLACED = "placed"
    UNSCHEDULABLE = "unschedulable"
    """No node fits now; an event may change that."""
    REFUSED = "refused"
    """The pod's request is malformed or not supported; only a change of the pod helps."""
    ERROR = "error"
    """The attempt failed with an internal error; it is retried."""
    NOT_READY = "waiting"
    """Nothing was decided, because something that the pod depends on is not known yet; no condition is written."""


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
        The distinct reasons, as the condition counts them.
    detail
        The reasons with counts of cards (``1/4 CardNotHealth, 3/4 CardInsufficientMemory``); empty if no reason is
        counted per card.
    """

    reasons: tuple[RejectionReason, ...]
    detail: str = ""

    @property
    def text(self) -> str:
        """The reasons, without counts of cards."""
        return ", ".join(reason.text for reason in self.reasons)


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One scorer's score of a node.

    Attributes
    ----------
    raw
        The score on the scorer's own scale.
    normalised
        The score normalised to 0 to 100, more is better; used if several scorers are combined.
    value
        What it adds to the node's score: ``raw`` or ``normalised``, times ``weight``.
    within
        The name of the part that this one is a term of; empty for parts of the node's score.
    """

    scorer: str
    raw: float
    normalised: float
    weight: int
    value: float
    within: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """An insufficient amount on a card, in the unit of its dimension.

    Attributes
    ----------
    together
        Whether ``asked`` is the sum over all containers that run at the same time, as if all were on this card.
    piece
        Whether the card is given out in pieces: ``free`` is then that of the largest one, or with ``together`` of all.
    """

    dimension: str
    unit: str
    free: int
    asked: int
    together: bool = False
    piece: bool = False

    @property
    def amounts(self) -> str:
        """The free and the requested amount; bytes are written in MiB."""
        free, asked = shown_free(self.free, self.unit), shown_needed(self.asked, self.unit)
        unit = shown_unit(self.unit)
        pieces = (_PIECES if self.together else _PIECE) if self.piece else ""
        what = unit if unit == _SHARES else f"{unit} {self.dimension}"
        return f"{free} of {asked} {what}{pieces}{_TOGETHER if self.together else ''}"

    def __str__(self) -> str:
        """Format the free and the requested amount."""
        return f"{self.amounts} free"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The card that came closest: the smallest relative shortfall, then the names.

    Attributes
    ----------
    shortages
        What it lacks, for one container or for all that run together; the largest relative shortfall first.
    """

    node: str
    uuid: str
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        """Format it for an event."""
        return f"nearest: {' and '.join(each.amounts for each in self.shortages)} free on {self.node}/{self.uuid}"

    @classmethod
    def found_in(cls, text: str) -> NearMiss | None:
        """Parse the near miss from an event's text, with bytes in MiB; None if there is none."""
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
    """A pod that has to be evicted so that another pod gets its room.

    Attributes
    ----------
    uid, pod
        The pod's UID and ``namespace/name``.
    priority
        Its priority.
    devices
        The UUIDs of the devices that it holds.
    bound
        Whether it is bound; an unbound victim need not be evicted.
    budgets
        The disruption budgets, as ``namespace/name``, that its eviction violates.
    node
        The node that it is on.
    group
        The group, as ``namespace/name``, whose pods are all evicted with it; empty if it is evicted alone.
    terminating
        Whether it is terminating already; the preemptor then waits for it without evicting it.
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
    """How an unschedulable pod gets room: the node and the victims.

    Attributes
    ----------
    node, placement
        What the pod gets once the victims are gone.
    victims
        At least one, unless other pods of its group have some; the most important first.
    policy
        The policy that allows the preemption, as ``source_of`` names it.
    gang
        The UIDs of the pods of its group, itself included, that get room together; empty for a single pod. Every victim
        is listed with exactly one of them; a pod of the gang may have no victim.
    """

    node: str
    placement: Placement
    victims: tuple[Victim, ...]
    policy: str = ""
    gang: tuple[str, ...] = ()

    @property
    def violations(self) -> int:
        """The number of victims whose eviction violates a disruption budget."""
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
        The annotations that the Binding writes for the node side, with the time of the write, already encoded when
        their size was checked against the limits. None if they still have to be encoded.
    claims
        The pod's device claims, for the code that carries the placement out.
    score
        The winner's node score: on its scorer's own scale if there is only one, else the weighted sum; if preferences
        of pods or taints distinguish nodes, the sum of the points of all plugins.
    scores
        Each scorer's score of each feasible node: always of the winner, of the others only if the caller asked for an
        explanation.
    message
        The text of the condition and of the event: the standard summary of all nodes.
    nodes, feasible
        The number of nodes considered, and the number of feasible nodes, if the outcome is ``PLACED``.
    reasons
        The number of nodes per reason.
    verdicts
        Per node, only if the caller asked for an explanation.
    another_node_helps
        Whether one more node could change an ``UNSCHEDULABLE`` outcome: not if a quota keeps the pod from all nodes
        that would fit, nor if other pods have to be placed first.
    helped_by
        The cluster events that could change an ``UNSCHEDULABLE`` outcome.
    rejected_by
        The distinct plugins, card reasons or other causes that kept it from nodes.
    equivalence
        Pods whose ``UNSCHEDULABLE`` decisions have an equal value get the same decision in the same state; None if no
        other pod does.
    node_local
        Whether each node rejects the pod because of that node alone: the decision then holds until a node changes.
    sources
        The origins of each section of the effective policy: policies, the most important first, the pod, the settings.
        Empty if the decision was made about another pod of its group.
    warnings
        Warnings for an event, once per pod (an unknown policy value, for example).
    error
        The error, if the outcome is ``ERROR``.
    preemption
        How a pod whose outcome is ``UNSCHEDULABLE`` gets room by preemption, if it can.
    retry_at
        The time of the latest retry, on the clock of the attempt; None for no such limit.
    takes_holds_of
        The UIDs of the pods whose holds the placement takes.
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
    reasons: Mapping[RejectionReason, int] = field(default_factory=dict)
    verdicts: Mapping[str, NodeVerdict] = field(default_factory=dict)
    near_miss: NearMiss | None = None
    helped_by: ClusterEvent = ClusterEvent.NONE
    rejected_by: tuple[str, ...] = ()
    equivalence: Hashable = field(default=None, compare=False)
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: Exception | None = None
    another_node_helps: bool = True
    node_local: bool = False
    preemption: Preemption | None = None
    retry_at: float | None = None
    takes_holds_of: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The node of the placement, or empty."""
        return self.placement.node if self.placement is not None else ""

    @property
    def condition_reason(self) -> ConditionReason:
        """The reason of the pod's condition if it was not placed."""
        waits_for_a_node = self.outcome is Outcome.UNSCHEDULABLE and self.another_node_helps
        return ConditionReason.UNSCHEDULABLE if waits_for_a_node else ConditionReason.SCHEDULER_ERROR
