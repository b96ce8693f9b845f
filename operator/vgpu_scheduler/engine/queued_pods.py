"""The pods in the scheduling queue: where each waits, which event brought it there, its class and its rank.

Pods are tried by priority, then age, which is the order that ``explain`` can tell from the objects alone.
kube-scheduler orders pods of one priority by their last attempt instead, so that a pod that is retried often does not
starve the others; but then a younger pod may take the room for which an older one waits.

Here *rounds* prevent starvation. A pod that was tried in a round and becomes active again before the round is over
goes to the next round, as does each pod that becomes active after it. So each round ends, and before a pod's turn
comes, every other pod of its priority is tried at most twice (apart from a few looks that do not count as attempts).
Pods back off after an attempt: unless the scheduler is overloaded, a round is over before any pod is retried, and age
alone decides.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClusterEvent, KeyedHeap


class Requeue(Enum):
    """When a pod whose placement was given back is tried again."""

    NOW = "now"
    """At once: the placement was given back without a failure, or the pod has changed since it was decided."""
    BACK_OFF = "back off"
    """After its back-off: an attempt has failed."""


class QueueEvent(StrEnum):
    """Label ``event`` of ``scheduler_queue_incoming_pods_total``."""

    POD_ADD = "UnschedulablePodAdd"
    """A new pod waits."""
    POD_UPDATE = "UnschedulablePodUpdate"
    """The pod asks for something else, or its priority changed."""
    ATTEMPT_FAILURE = "ScheduleAttemptFailure"
    BACKOFF_COMPLETE = "BackoffComplete"
    TIMEOUT = "UnschedulableTimeout"
    """No event came before the flush."""
    FORCE_ACTIVATE = "ForceActivate"
    """Its turn came after an equivalent pod was tried."""
    ASSIGNED_POD_DELETE = "AssignedPodDelete"
    """A pod released resources."""
    ASSIGNED_POD_UPDATE = "AssignedPodUpdate"
    """A pod was placed on a node or changed its labels, or the labels of its namespace changed."""
    NODE_ADD = "NodeAdd"
    """A node was added, or takes pods again."""
    NODE_ALLOCATABLE = "NodeUpdateNodeAllocatable"
    NODE_LABEL = "NodeUpdateNodeLabel"
    NODE_TAINT = "NodeUpdateNodeTaint"
    NODE_FEATURE = "NodeUpdateNodeDeclaredFeature"
    NODE_ANNOTATION = "NodeUpdateNodeAnnotation"
    """The devices that a node registers changed."""
    VOLUME_CLAIM_UPDATE = "PersistentVolumeClaimUpdate"
    """A PersistentVolumeClaim that the pod names was added, changed or deleted."""
    POLICY_UPDATE = "PolicyUpdate"
    """The pod's effective policy changed. kube-scheduler has no such event, nor those below."""
    QUOTA_UPDATE = "ResourceQuotaUpdate"
    STORAGE_UPDATE = "StorageUpdate"
    """A volume, a StorageClass or a CSI driver's data about a node changed, or storage objects were first listed."""
    REJECTION_OVER = "RejectionOver"
    """Nodes whose kubelet had rejected similar pods may be tried again."""
    POD_GROUP_UPDATE = "PodGroupUpdate"
    """The pod's group needs fewer pods than before, or its object changed."""
    OTHER = "Other"

    @classmethod
    def of(cls, events: ClusterEvent) -> QueueEvent:
        """Return the name of a change; of several, the first in the order below."""
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
    """The sort key of a pod's turn: highest priority, then oldest object, then first to arrive.

    Age goes by the object, since the order of arrival at a starting scheduler is random. Objects tell seconds only.
    """

    urgency: int
    created: str
    arrival: int
    uid: str


def queue_key(pod: Pod, priority: int) -> tuple[int, float]:
    """Return the sort key of a pod in queue order, as far as objects tell it: equal keys may come in any order.

    Parameters
    ----------
    priority
        The priority that ranks the pod: its group's, if it belongs to one.
    """
    return -priority, pod.created_at or 0.0


class UnschedulableClass(NamedTuple):
    """The key of a class of unschedulable pods.

    Attributes
    ----------
    equivalence
        Pods with an equal value get the same answer.
    waits_for
        The events that could help them.
    node_local
        Whether each node rejects them by its own state alone, so that only changed nodes need to be tried.
    """

    equivalence: Hashable
    waits_for: ClusterEvent
    node_local: bool = False


class UnschedulablePods:
    """The unschedulable pods by class. The first pod of a class is tried for all of it.

    Parameters
    ----------
    dissolved
        Called with each class when its last pod leaves.
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
        """Return the classes, other than those with ``node_local``, that one of the events could help."""
        return [
            UnschedulableClass(equivalence, waits_for)
            for (waits_for, node_local), classes in self._classes.items()
            if waits_for & events and not node_local
            for equivalence in classes
        ]

    def all(self) -> list[UnschedulableClass]:
        """Return all classes."""
        return [
            UnschedulableClass(equivalence, *kind) for kind, classes in self._classes.items() for equivalence in classes
        ]

    def any_for(self, events: ClusterEvent) -> bool:
        """Tell whether one of the events could help any class."""
        return any(waits_for & events for waits_for, _ in self._classes)

    def uids(self, key: UnschedulableClass) -> Iterator[str]:
        """Yield the pods of a class in the order of their ranks."""
        return (rank.uid for rank in self._classes[key[1:]][key.equivalence])

    def next(self, equivalence: Hashable, ready_at: Callable[[str], float], now: float) -> str:
        """Return which of the equivalent pods is tried next; empty if there is none.

        That is the first one whose back-off is over; if there is none, the one whose back-off ends first.

        Parameters
        ----------
        ready_at
            Returns when a pod's back-off ends.
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
"""A pod backs off, as after an attempt, when more changes than this in a row did not help it."""


class QueueName(Enum):
    """Where a pod waits."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    """Popped: being decided or bound."""


@dataclass(frozen=True, slots=True)
class RetryBasis:
    """What the next attempt of an unschedulable pod may rely on, if each node rejected it by its own state alone.

    Attributes
    ----------
    equivalence, waits_for, rejected_by
        See :meth:`SchedulingQueue.add_unschedulable`.
    nodes_version
        The version of the nodes that were tried.
    attempted_at
        When all nodes were tried.
    retry_at
        When all nodes are tried again at the latest.
    """

    equivalence: Hashable
    waits_for: ClusterEvent
    rejected_by: tuple[str, ...]
    nodes_version: int
    attempted_at: float
    retry_at: float


@dataclass(slots=True)
class QueuedPod:
    """A pod that waits, is being decided, or is being bound.

    Attributes
    ----------
    waiting_since
        When it was first seen waiting.
    created
        When its object was created (RFC 3339, UTC); empty where unknown.
    arrival
        Sequence number of its arrival in the queue.
    attempts, attempted_at
        Number of attempts, and the time of the last one.
    """

    uid: str
    priority: int
    place: QueueName
    waiting_since: float
    created: str = ""
    arrival: int = 0
    attempts: int = 0
    attempted_at: float = 0.0
    unschedulable_class: UnschedulableClass | None = None
    """Its class while it is unschedulable."""
    tried_for: Hashable = None
    """The equivalence for which it is tried; its equivalent pods wait for the outcome."""
    rejected_by: tuple[str, ...] = ()
    """The plugins or card reasons that rejected it at the last attempt."""
    retry_basis: RetryBasis | None = None
    """The last attempt, if only nodes that changed since then need to be tried."""
    moves: int = 0
    """How often it was decided anew because its node was slow."""
    unhelpful_events: int = 0
    """Number of changes in a row that did not help, so that the pod was not tried."""
    round: int = 0
    """The round that it last became active in."""
    tried_in: int = 0
    """The round that it was last tried in."""

    @property
    def rank(self) -> Rank:
        """Its sort key within its class and round."""
        return Rank(-self.priority, self.created, self.arrival, self.uid)

    @property
    def ready_at(self) -> float:
        """When its back-off ends."""
        # Capped before the power: a pod that waits for months must not overflow a float.
        doublings = min(max(self.attempts - 1, 0), 10)
        return self.attempted_at + min(INITIAL_BACKOFF * float(1 << doublings), MAX_BACKOFF)

    def sort_key(self, now: float) -> tuple[float, Rank]:
        """Return the sort key of its turn if it is woken now: pods in back-off come later."""
        return max(self.ready_at, now), self.rank

    def goes_before(self, other: QueuedPod, now: float) -> bool:
        """Tell whether this pod, which is queued to be tried, would be tried before another one woken now."""
        if self.place is QueueName.BACKOFF and other.ready_at <= now:
            return False  # a forced back-off may last longer than `ready_at`
        return ((now, self.rank) if self.place is QueueName.ACTIVE else self.sort_key(now)) < other.sort_key(now)

    def forget_attempt(self, now: float) -> int:
        """Undo the counting of the last attempt and its back-off; return the number of unhelpful changes in a row.

        The pod keeps its turn in the round, unless there were more than `MAX_UNHELPFUL_CHANGES`.
        """
        self.attempts, self.attempted_at = self.attempts - 1, now - MAX_BACKOFF
        events = self.unhelpful_events + 1
        if events <= MAX_UNHELPFUL_CHANGES:
            self.tried_in = 0
        return events


def asks_differently(before: Pod, after: Pod) -> bool:
    """Tell whether a pod's request changed; a change of its status alone does not warrant a new attempt."""
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
        self._heap: KeyedHeap[str, tuple[int, int, Rank]] = KeyedHeap()
        self._numbers: Counter[int] = Counter()
        """Number of active pods by priority."""
        self._rounds: dict[int, int] = {}
        """The current round of each priority that has active pods."""
        self._last_round = _NEVER
        """The highest round of any priority: pods that become active later start after it."""

    def __bool__(self) -> bool:
        return bool(self._rounds)

    def add(self, pod: QueuedPod) -> None:
        """Add a pod that is not active."""
        now_in = self._rounds.get(pod.priority)
        if now_in is None:
            now_in = self._last_round + 1
        pod.round = self._rounds[pod.priority] = max(now_in, pod.tried_in + 1)
        self._last_round = max(self._last_round, pod.round)
        self._numbers[pod.priority] += 1
        self._heap.add_or_update(pod.uid, (-pod.priority, pod.round, pod.rank))

    def discard(self, pod: QueuedPod) -> None:
        """Remove a pod, if it is there. Its priority must be the one with which it was added."""
        if self._heap.delete(pod.uid):
            self._left(pod.priority)

    def pop(self) -> str | None:
        """Take out the pod whose turn is next, and return its UID; None if there is none."""
        first = self._heap.pop()
        if first is None:
            return None
        self._left(-first.rank[0])
        return first.key

    def _left(self, priority: int) -> None:
        self._numbers[priority] -= 1
        if not self._numbers[priority]:
            del self._numbers[priority], self._rounds[priority]

    def popped_specific(self, pod: QueuedPod) -> None:
        """Count a pod that is tried out of turn, together with another one, to the current round."""
        pod.round = self._rounds.get(pod.priority, self._last_round)
