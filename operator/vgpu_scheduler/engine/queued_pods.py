"""The pods in the scheduling queue: where each waits, what brought it there, who is like it, whose turn is next.

Pods are tried by priority, then age. That is what ``explain`` says of them, which sees only their objects.
kube-scheduler orders pods of one priority by when they were tried last instead, so that a pod that is tried again and
again does not starve the others; but then a younger pod may take the room for which an older one waits.

Here *rounds* see to it that nobody starves. A pod that was tried in a round, and is active again before the round is
over, comes in the next one, as does each pod that becomes active from then on. So each round ends, and until a pod has
its turn, each other one of its priority has two at most, but for a few looks that are no attempts. Pods back off after
an attempt: unless the scheduler is overloaded, rounds are over before anybody is tried again, and age alone decides.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClusterEvent

__all__ = [
    "INITIAL_BACKOFF",
    "MAX_BACKOFF",
    "MAX_UNHELPFUL_CHANGES",
    "ActivePods",
    "LastAttempt",
    "QueueEvent",
    "QueueName",
    "QueuedPod",
    "Requeue",
    "UnschedulableClass",
    "UnschedulablePods",
]


class Requeue(Enum):
    """When a pod whose placement was given back is tried again."""

    NOW = "now"
    """It waited in vain, or has changed since it was decided: that was no failure."""
    BACK_OFF = "back off"
    """An attempt has failed."""


class QueueEvent(StrEnum):
    """Label ``event`` of ``scheduler_queue_incoming_pods_total``."""

    POD_ADD = "UnschedulablePodAdd"
    """A pod came that waits."""
    POD_UPDATE = "UnschedulablePodUpdate"
    """It asks for something else, or another priority."""
    ATTEMPT_FAILURE = "ScheduleAttemptFailure"
    BACKOFF_COMPLETE = "BackoffComplete"
    TIMEOUT = "UnschedulableTimeout"
    """It had waited for too long."""
    FORCE_ACTIVATE = "ForceActivate"
    """Its turn came after a pod that asks for the same was tried."""
    ASSIGNED_POD_DELETE = "AssignedPodDelete"
    """A pod gave something back."""
    ASSIGNED_POD_UPDATE = "AssignedPodUpdate"
    """A pod came to a node or changed its labels, or its namespace did."""
    NODE_ADD = "NodeAdd"
    """A node came, or takes pods again."""
    NODE_ALLOCATABLE = "NodeUpdateNodeAllocatable"
    NODE_LABEL = "NodeUpdateNodeLabel"
    NODE_TAINT = "NodeUpdateNodeTaint"
    NODE_FEATURE = "NodeUpdateNodeDeclaredFeature"
    NODE_ANNOTATION = "NodeUpdateNodeAnnotation"
    """The devices changed that a node has registered."""
    VOLUME_CLAIM_UPDATE = "PersistentVolumeClaimUpdate"
    """A claim that it names came, changed or went."""
    POLICY_UPDATE = "PolicyUpdate"
    """Another policy is in force for it. Not a word of kube-scheduler, nor are those below."""
    QUOTA_UPDATE = "ResourceQuotaUpdate"
    STORAGE_UPDATE = "StorageUpdate"
    """A volume or a class changed, or what a CSI driver says of a node; or storage objects have become known."""
    REJECTION_OVER = "RejectionOver"
    """Nodes that had rejected pods like it may be tried again."""
    POD_GROUP_UPDATE = "PodGroupUpdate"
    """Its group needs fewer pods than before, or is described otherwise."""
    OTHER = "Other"

    @classmethod
    def of(cls, events: ClusterEvent) -> QueueEvent:
        """Return what a change is called; of several the first in the order below."""
        return next((name for some, name in _BY_CLUSTER_EVENT if events & some), cls.OTHER)


_BY_CLUSTER_EVENT = (
    (ClusterEvent.DEVICE_FREED | ClusterEvent.ASSIGNED_POD_DELETE, QueueEvent.ASSIGNED_POD_DELETE),
    (ClusterEvent.NODE_ADD, QueueEvent.NODE_ADD),
    (ClusterEvent.NODE_ALLOCATABLE, QueueEvent.NODE_ALLOCATABLE),
    (ClusterEvent.NODE_LABELS, QueueEvent.NODE_LABEL),
    (ClusterEvent.NODE_TAINTS, QueueEvent.NODE_TAINT),
    (ClusterEvent.NODE_FEATURES, QueueEvent.NODE_FEATURE),
    (ClusterEvent.DEVICE_ADD, QueueEvent.NODE_ANNOTATION),
    (ClusterEvent.ASSIGNED_POD_CHANGE, QueueEvent.ASSIGNED_POD_UPDATE),
    (ClusterEvent.STORAGE | ClusterEvent.ATTACH_LIMIT, QueueEvent.STORAGE_UPDATE),
    (ClusterEvent.KUBELET_REJECTION, QueueEvent.REJECTION_OVER),
    (ClusterEvent.POD_GROUP, QueueEvent.POD_GROUP_UPDATE),
)


class Rank(NamedTuple):
    """When a pod's turn comes: the highest priority first, then the oldest, then who came first.

    A pod is as old as its object: who comes first to a scheduler that starts is chance. Objects tell seconds only.
    """

    urgency: int
    created: str
    arrival: int
    uid: str


class UnschedulableClass(NamedTuple):
    """What the pods of a class have in common.

    Attributes
    ----------
    equivalence
        Pods with an equal value get the same answer.
    waits_for
        What could help them.
    per_node
        Whether each node rejects them for what it is by itself, so that only changed nodes need to be looked at.
    """

    equivalence: Hashable
    waits_for: ClusterEvent
    per_node: bool = False


class UnschedulablePods:
    """The classes. Their first pod is tried for all: only when it was placed is the next one's turn.

    Parameters
    ----------
    dissolved
        Told of each class of which the last pod has gone.
    """

    def __init__(self, dissolved: Callable[[UnschedulableClass], None]) -> None:
        self._dissolved = dissolved
        self._classes: dict[tuple[ClusterEvent, bool], dict[Hashable, list[Rank]]] = {}

    def __contains__(self, key: UnschedulableClass) -> bool:
        return key.equivalence in self._classes.get(key[1:], {})

    def add(self, key: UnschedulableClass, rank: Rank) -> None:
        """Take in a pod."""
        insort(self._classes.setdefault(key[1:], {}).setdefault(key.equivalence, []), rank)

    def discard(self, key: UnschedulableClass, rank: Rank) -> None:
        """Take out a pod."""
        classes = self._classes[key[1:]]
        ranks = classes[key.equivalence]
        del ranks[bisect_left(ranks, rank)]
        if not ranks:
            del classes[key.equivalence]
            if not classes:
                del self._classes[key[1:]]
            self._dissolved(key)

    def waiting_for(self, events: ClusterEvent) -> list[UnschedulableClass]:
        """Return the classes that one of some events could help, whichever node it is about."""
        return [
            UnschedulableClass(equivalence, waits_for)
            for (waits_for, per_node), classes in self._classes.items()
            if waits_for & events and not per_node
            for equivalence in classes
        ]

    def all(self) -> list[UnschedulableClass]:
        """Return all classes."""
        return [
            UnschedulableClass(equivalence, *kind) for kind, classes in self._classes.items() for equivalence in classes
        ]

    def any_for(self, events: ClusterEvent) -> bool:
        """Tell whether one of some events could help any class."""
        return any(waits_for & events for waits_for, _ in self._classes)

    def uids(self, key: UnschedulableClass) -> Iterator[str]:
        """Yield the pods of a class in their order."""
        return (rank.uid for rank in self._classes[key[1:]][key.equivalence])

    def next(self, equivalence: Hashable, ready_at: Callable[[str], float], now: float) -> str:
        """Return the pod whose turn comes first of those that get the same answer; empty if there is none.

        That is the first one whose back-off is over; if there is none, the one whose back-off ends first.

        Parameters
        ----------
        ready_at
            Returns when the back-off of a pod ends.
        """
        found: tuple[float, Rank] | None = None
        for classes in self._classes.values():
            for rank in classes.get(equivalence, ()):
                ready = ready_at(rank.uid)
                sort_key = max(ready, now), rank
                if found is None or sort_key < found:
                    found = sort_key
                if ready <= now:
                    break
        return "" if found is None else found[1].uid


INITIAL_BACKOFF = 1.0
"""Seconds."""
MAX_BACKOFF = 10.0
"""Seconds."""
MAX_UNHELPFUL_CHANGES = 8
"""So many changes in a row may not help a pod, before it backs off as after an attempt."""


class QueueName(Enum):
    """Where a pod waits."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    TRYING = "trying"
    """Popped: being decided or bound."""


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """Why a pod was put among the unschedulable ones, where each node rejects it for what it is by itself.

    Attributes
    ----------
    equivalence, waits_for, rejected_by
        See :meth:`SchedulingQueue.add_unschedulable`.
    nodes_version
        As of which version of the nodes.
    attempted_at
        When all nodes were asked for it.
    again_at
        When they are asked again at the latest.
    """

    equivalence: Hashable
    waits_for: ClusterEvent
    rejected_by: tuple[str, ...]
    nodes_version: int
    attempted_at: float
    again_at: float


@dataclass(slots=True)
class QueuedPod:
    """A pod that waits, is being decided, or is being bound.

    Attributes
    ----------
    came
        When it was first seen waiting.
    created
        When its object was created (RFC 3339, UTC); empty where it does not say.
    arrival
        The later it came, the higher.
    attempts, attempted_at
        How often it was tried, and when for the last time.
    """

    uid: str
    priority: int
    place: QueueName
    came: float
    created: str = ""
    arrival: int = 0
    attempts: int = 0
    attempted_at: float = 0.0
    unschedulable_class: UnschedulableClass | None = None
    """The class that it waits in."""
    tried_for: Hashable = None
    """Those that would get the same answer, and wait for what becomes of this pod."""
    rejected_by: tuple[str, ...] = ()
    """What rejected it at the last attempt."""
    last_attempt: LastAttempt | None = None
    """What came of the last attempt, where only changes of nodes since then need to be looked at."""
    moves: int = 0
    """How often it was decided anew because its node was slow."""
    unhelpful_events: int = 0
    """How often in a row a change did not help, so that it was not tried."""
    ticket: int = 0
    """Heap items with another ticket are leftovers of an earlier place."""
    round: int = 0
    """The round of the active pods that it came in last."""
    tried_in: int = 0
    """The round that it was tried in last."""

    @property
    def rank(self) -> Rank:
        """When its turn comes among those that wait for the same."""
        return Rank(-self.priority, self.created, self.arrival, self.uid)

    @property
    def ready_at(self) -> float:
        """When its back-off ends."""
        # Capped before the power: a pod that waits for months must not overflow a float.
        doublings = min(max(self.attempts - 1, 0), 10)
        return self.attempted_at + min(INITIAL_BACKOFF * float(1 << doublings), MAX_BACKOFF)

    def sort_key(self, now: float) -> tuple[float, Rank]:
        """Return when its turn comes if it is woken now: pods that back off come later."""
        return max(self.ready_at, now), self.rank

    def goes_before(self, other: QueuedPod, now: float) -> bool:
        """Tell whether its turn, which it waits for, comes before that of another one would."""
        if self.place is QueueName.BACKOFF and other.ready_at <= now:
            return False  # it may have to wait for longer than its back-off
        return ((now, self.rank) if self.place is QueueName.ACTIVE else self.sort_key(now)) < other.sort_key(now)

    def forget_attempt(self, now: float) -> int:
        """Have it be as if it had not been tried: neither counted nor in back-off; return how often in a row it was so.

        It keeps its turn in the round as well, unless that happens again and again.
        """
        self.attempts, self.attempted_at = self.attempts - 1, now - MAX_BACKOFF
        events = self.unhelpful_events + 1
        if events <= MAX_UNHELPFUL_CHANGES:
            self.tried_in = 0
        return events


def asks_differently(before: Pod, after: Pod) -> bool:
    """Tell whether a pod changed in what it asks for; its status alone does not make a new attempt worthwhile."""
    return (
        before.spec is not after.spec
        or before.annotations != after.annotations
        or before.labels != after.labels
        or before.priority != after.priority
    )


_NEVER: Final = 0
"""Before the first round."""


class ActivePods:
    """The pods that are tried next, by priority, round, and rank."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Rank, int, QueuedPod]] = []
        self._tickets: dict[int, dict[str, int]] = {}
        """Of the active pods, by priority and UID; what else the heap has are leftovers."""
        self._rounds: dict[int, int] = {}
        """The round that pods of a priority come in, while some are active."""
        self._last_round = _NEVER
        """The highest one of all priorities: no pod that was tried before is in one that comes."""

    def __bool__(self) -> bool:
        return bool(self._tickets)

    def add(self, pod: QueuedPod) -> None:
        """Take in a pod under its ticket."""
        now_in = self._rounds.get(pod.priority)
        if now_in is None:
            now_in = self._last_round + 1
        pod.round = self._rounds[pod.priority] = max(now_in, pod.tried_in + 1)
        self._last_round = max(self._last_round, pod.round)
        self._tickets.setdefault(pod.priority, {})[pod.uid] = pod.ticket
        heapq.heappush(self._heap, (-pod.priority, pod.round, pod.rank, pod.ticket, pod))

    def discard(self, pod: QueuedPod) -> None:
        """Take out a pod, if it is there, by the priority that it came with."""
        tickets = self._tickets.get(pod.priority)
        if tickets is None:
            return
        tickets.pop(pod.uid, None)
        if not tickets:
            del self._tickets[pod.priority], self._rounds[pod.priority]

    def pop(self) -> QueuedPod | None:
        """Take out the pod whose turn it is; None if there is none."""
        while self._heap:
            urgency, _, _, ticket, pod = heapq.heappop(self._heap)
            if self._tickets.get(-urgency, {}).get(pod.uid) == ticket:
                self.discard(pod)
                return pod
        return None

    def join(self, pod: QueuedPod) -> None:
        """Have a pod that is tried out of its turn, together with another one, be in the round that goes on."""
        pod.round = self._rounds.get(pod.priority, self._last_round)
