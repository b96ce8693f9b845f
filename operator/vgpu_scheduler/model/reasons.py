"""Why a node or a card does not fit: stable codes and texts, and what could change the answer.

The texts of the card reasons are those of HAMi 2.10 (its users grep for them); the texts of the Kubernetes filters
are kube-scheduler's and live beside the filters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag, StrEnum

__all__ = ["WakeSet"]


class ClusterEvent(IntFlag):
    """Kinds of change that can help a pod that did not fit; reasons and events both carry them."""

    NONE = 0
    NODE_ADD = 1
    """A node came, or takes pods again."""
    ASSIGNED_POD_DELETE = 2
    """Requests of a pod on a node were given back."""
    DEVICE_ADD = 4
    """A device was registered, became healthy or was uncordoned."""
    DEVICE_FREED = 8
    """Amounts of a device were given back."""
    POLICY = 16
    """A policy or a setting changed. Nobody gives this event: pods are woken when what is in force for them changes."""
    POD_UPDATE = 32
    """The pod itself changed."""
    QUOTA = 64
    """A quota of the pod's namespace changed, or something that counts in it was given back. Nobody gives this event,
    because it is about one namespace: pods are woken by name."""
    ASSIGNED_POD_CHANGE = 128
    """What inter-pod terms and spread constraints count changed: a pod came to a node, went or changed its labels, or a
    namespace changed its labels."""
    STORAGE = 256
    """A storage object changed (a claim, a volume, a class), or a pod that uses claims or disks left its node."""
    NODE_LABELS = 512
    """Labels of a node changed."""
    NODE_TAINTS = 1024
    """Taints of a node changed, or it was cordoned or uncordoned."""
    NODE_ALLOCATABLE = 2048
    """What a node offers changed."""
    NODE_FEATURES = 4096
    """The features that a node declares changed."""
    KUBELET_REJECTION = 8192
    """Nodes that rejected pods like this one may be tried again."""
    ATTACH_LIMIT = 16384
    """A CSI driver can attach more volumes to a node than before, or one is attached there already that was not."""
    BUDGET = 32768
    """A disruption budget lets more pods end than before, or is gone."""
    POD_GROUP = 65536
    """The group of the pod needs fewer pods than before, or is described otherwise. Nobody gives this event to all:
    pods are woken by name."""
    BUDGET_TIGHTENED = 131072
    """A disruption budget came, or lets fewer pods end than before: other victims cost least, who may be fewer."""


class EventReason(StrEnum):
    """The reasons of all events; ``docs/runbook.md`` has a section for each."""

    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    BINDING_FAILED = "BindingFailed"
    BINDING_IN_DOUBT = "BindingInDoubt"
    WAITING_FOR_NODE = "WaitingForNode"
    """A device plugin or a lock of its node keeps a decided pod waiting."""
    PREEMPTED = "Preempted"
    """A pod ends so that one of higher priority gets its room."""
    VICTIM_OVERDUE = "VictimOverdue"
    """A pod waits for one that should have ended for it, and has not."""
    POD_GROUP_STALE = "PodGroupStale"
    """A group has run with fewer pods than it needs for long."""
    POLICY_WARNING = "PolicyWarning"
    """What policies and annotations of a pod are not followed."""
    SUSPICIOUS_REQUEST = "SuspiciousRequest"
    """What a pod hardly means."""
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


class CardReason(IntEnum):
    """Why cards of a node were passed over, in the order of the checks; the values index the kernels' counters.

    Those up to ``CardAppClassMismatch`` and ``CardQosPolicyMismatch``, which are of single vendors, are HAMi's, but for
    ``CardDeniedByPolicy``, which only policies give; those after them are not.
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
        """The wording that users see."""
        return "node unregistered" if self is CardReason.NodeUnregistered else self.name

    @property
    def helped_by(self) -> ClusterEvent:
        """What could help."""
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
    | ClusterEvent.DEVICE_ADD,  # a smaller card makes less of a percentage
}


@dataclass(slots=True)
class WakeSet:
    """What has changed since waiting pods were last woken, as far as it may help one of them.

    Parts that keep something write to it; the engine drains it before each attempt, so that many changes together cost
    one look at the pods that wait.

    Attributes
    ----------
    events
        Changes that are about no particular pod or namespace.
    quotas
        The namespaces whose limits have changed.
    returned
        The namespaces whose pods gave devices back; that helps where a limit is.
    policies
        The namespaces for whose pods another policy may be in force.
    every_policy
        Whether that is so for all namespaces.
    victims
        Whether policies may let other pods be evicted than before.
    pods
        The UIDs of pods that are to be tried whatever they wait for, with what the queue calls the change.
    """

    events: ClusterEvent = ClusterEvent.NONE
    quotas: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    policies: set[str] = field(default_factory=set)
    every_policy: bool = False
    victims: bool = False
    pods: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Tell whether anything has changed."""
        about_some = self.quotas or self.returned or self.policies or self.pods
        return bool(self.events or about_some or self.every_policy or self.victims)

    def take(self) -> WakeSet:
        """Return what was collected, and start with an empty set."""
        taken = WakeSet(
            self.events, self.quotas, self.returned, self.policies, self.every_policy, self.victims, self.pods
        )
        self.events, self.every_policy, self.victims = ClusterEvent.NONE, False, False
        self.quotas, self.returned, self.policies, self.pods = set(), set(), set(), {}
        return taken
