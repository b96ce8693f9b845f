"""Reasons why a node or a card does not fit, with stable codes and texts, and the cluster events that could help.

The texts of the card reasons are those of HAMi 2.10 (its users grep for them); the texts of the Kubernetes filters
are kube-scheduler's and live beside the filters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag, StrEnum
from typing import Protocol


class ClusterEvent(IntFlag):
    """Kinds of change that can make a pod fit; both reasons and observed changes have them."""

    NONE = 0
    NODE_ADD = 1
    """A node was added, or accepts pods again."""
    ASSIGNED_POD_DELETE = 2
    """Requests of a pod on a node were given back."""
    DEVICE_ADD = 4
    """A device was registered, became healthy or was uncordoned."""
    DEVICE_FREED = 8
    """Amounts of a device were given back."""
    POLICY = 16
    """A policy or a setting changed. No change emits this event: pods are woken when their effective policy changes."""
    POD_UPDATE = 32
    """The pod itself changed."""
    QUOTA = 64
    """A quota of the pod's namespace changed, or usage that it counts was given back. No change emits this event: the
    pods of that namespace are woken directly."""
    ASSIGNED_POD_CHANGE = 128
    """Counts of inter-pod terms and spread constraints changed: a pod was placed, left its node or changed its labels,
    or a namespace changed its labels."""
    STORAGE = 256
    """A storage object changed (a claim, a volume, a class), or a pod that uses claims or disks left its node."""
    NODE_LABELS = 512
    """Labels of a node changed."""
    NODE_TAINTS = 1024
    """Taints of a node changed, or it was cordoned or uncordoned."""
    NODE_ALLOCATABLE = 2048
    """Allocatable amounts of a node changed."""
    NODE_FEATURES = 4096
    """The features that a node declares changed."""
    KUBELET_REJECTION = 8192
    """Nodes that rejected pods like this one may be tried again."""
    ATTACH_LIMIT = 16384
    """A CSI driver can attach more volumes to a node than before, or a volume that pods can share was attached."""
    BUDGET = 32768
    """A disruption budget allows more evictions than before, or was removed."""
    POD_GROUP = 65536
    """The pod's group needs fewer pods than before, or its description changed. No change emits this event: the pods of
    the group are woken directly."""
    BUDGET_TIGHTENED = 131072
    """A disruption budget was added, or allows fewer evictions: another set of victims may now be cheapest."""


class EventReason(StrEnum):
    """The reasons of all events; ``docs/runbook.md`` has a section for each."""

    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    BINDING_FAILED = "BindingFailed"
    BINDING_IN_DOUBT = "BindingInDoubt"
    WAITING_FOR_NODE = "WaitingForNode"
    """A placed pod waits for a device plugin or a lock of its node."""
    PREEMPTED = "Preempted"
    """A pod is evicted so that one of higher priority gets its room."""
    VICTIM_OVERDUE = "VictimOverdue"
    """A pod waits for a victim that should have ended already."""
    POD_GROUP_STALE = "PodGroupStale"
    """A group has run with fewer pods than it needs for a long time."""
    POLICY_WARNING = "PolicyWarning"
    """Policies or annotations of a pod that are ignored."""
    SUSPICIOUS_REQUEST = "SuspiciousRequest"
    """A request that is probably a mistake."""
    REJECTED_BY_KUBELET = "RejectedByKubelet"
    REJECTS_PODS = "RejectsPods"
    ALLOCATION_UNREADABLE = "AllocationUnreadable"
    REGISTRATION_UNREADABLE = "RegistrationUnreadable"
    DEVICE_REGISTERED_TWICE = "DeviceRegisteredTwice"
    QUOTA_UNREADABLE = "QuotaUnreadable"
    QUOTA_SUSPICIOUS = "QuotaSuspicious"
    NOT_TAKEN_IN = "NotTakenIn"
    DEVICE_LOCK_HELD = "DeviceLockHeld"
    DEVICE_LOCK_MALFORMED = "DeviceLockMalformed"
    DEVICE_PLUGIN_SILENT = "DevicePluginSilent"
    POD_STARTING = "PodStarting"
    POD_UNREADABLE = "PodUnreadable"
    DEVICES_NOT_TAKEN = "DevicesNotTaken"


class RejectionReason(Protocol):
    """Why a node or a pod is passed over: of a filter, of cards, or of what closes a node; equal ones say the same."""

    @property
    def text(self) -> str:
        """What messages count nodes under."""


class CardReason(IntEnum):
    """Why cards of a node are rejected, in the order of the checks; the values index the kernels' counters.

    The reasons up to ``CardQosPolicyMismatch`` are HAMi's (the last two are vendor-specific), except
    ``CardDeniedByPolicy``, which comes from policies; the later ones are not HAMi's.
    """

    CardNotHealth = 0
    CardCordoned = 1
    CardTypeMismatch = 2
    NumaNotFit = 3
    CardUuidMismatch = 4
    CardTimeSlicingExhausted = 5
    ExclusiveDeviceAllocateConflict = 6
    ResourceQuotaNotFit = 7
    CardInsufficientMemory = 8
    CardInsufficientCore = 9
    CardComputeUnitsExhausted = 10
    CardMigTopologyInfeasible = 11
    AllocatedCardsInsufficientRequest = 12
    NodeInsufficientDevice = 13
    NodeUnregistered = 14
    CardDeniedByPolicy = 15
    CardNotFoundCustomFilterRule = 16
    ModeNotFit = 17
    CardUnhealthy = 18
    CardAppClassMismatch = 19
    CardQosPolicyMismatch = 20
    CardHeldByPeer = 21
    CardLabelMismatch = 22
    CardVirtualFunctionsExhausted = 23
    CardPartitionNotFit = 24

    @property
    def text(self) -> str:
        """The text that users see."""
        return "node unregistered" if self is CardReason.NodeUnregistered else self.name

    @property
    def plugin(self) -> str:
        """Who says so where cards reject a node as filters do."""
        return "Devices"

    @property
    def helped_by(self) -> ClusterEvent:
        """The cluster events that could help."""
        return _EVENTS.get(self, ClusterEvent.DEVICE_FREED | ClusterEvent.DEVICE_ADD)

    @property
    def resolvable(self) -> bool:
        """Whether the card might serve the pod once other pods on it are gone."""
        return ClusterEvent.DEVICE_FREED in self.helped_by


_EVENTS = {
    CardReason.CardNotHealth: ClusterEvent.DEVICE_ADD,
    CardReason.CardUnhealthy: ClusterEvent.DEVICE_ADD,
    CardReason.CardCordoned: ClusterEvent.DEVICE_ADD,
    CardReason.CardTypeMismatch: ClusterEvent.DEVICE_ADD,
    CardReason.CardUuidMismatch: ClusterEvent.DEVICE_ADD,
    CardReason.CardLabelMismatch: ClusterEvent.DEVICE_ADD,
    CardReason.NodeInsufficientDevice: ClusterEvent.DEVICE_ADD,
    CardReason.NodeUnregistered: ClusterEvent.DEVICE_ADD,
    CardReason.ModeNotFit: ClusterEvent.DEVICE_ADD,
    CardReason.CardDeniedByPolicy: ClusterEvent.DEVICE_ADD | ClusterEvent.POLICY,
    CardReason.ResourceQuotaNotFit: ClusterEvent.QUOTA
    | ClusterEvent.DEVICE_ADD,  # a percentage of a smaller card is a smaller amount
}


@dataclass(slots=True)
class PendingEvents:
    """The changes since waiting pods were last woken that may help one of them.

    Stores add changes; the engine takes them out before each attempt, so that the waiting pods are checked once for
    many changes.

    Attributes
    ----------
    events
        Changes that do not concern a particular pod or namespace.
    quotas
        The namespaces whose quotas have changed.
    quota_freed
        Namespaces whose device usage fell; their pods that wait for quota are woken.
    policies
        The namespaces whose pods may have a new effective policy.
    every_policy
        Whether this applies to all namespaces.
    victims
        Whether policies may allow other victims than before.
    pods
        The UIDs of pods to retry whatever they wait for, with the queue's name of the change.
    """

    events: ClusterEvent = ClusterEvent.NONE
    quotas: set[str] = field(default_factory=set)
    quota_freed: set[str] = field(default_factory=set)
    policies: set[str] = field(default_factory=set)
    every_policy: bool = False
    victims: bool = False
    pods: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Tell whether anything has changed."""
        about_some = self.quotas or self.quota_freed or self.policies or self.pods
        return bool(self.events or about_some or self.every_policy or self.victims)

    def take(self) -> PendingEvents:
        """Return what was collected, and start with an empty set."""
        taken = PendingEvents(
            self.events, self.quotas, self.quota_freed, self.policies, self.every_policy, self.victims, self.pods
        )
        self.events, self.every_policy, self.victims = ClusterEvent.NONE, False, False
        self.quotas, self.quota_freed, self.policies, self.pods = set(), set(), set(), {}
        return taken
