"""What brings a pod into a place of the queue, in kube-scheduler's words where it has one."""

from __future__ import annotations

from enum import Enum, StrEnum

from vgpu_scheduler.model import Hint

__all__ = ["QueueEvent", "Requeue"]


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
    CLAIM_UPDATE = "PersistentVolumeClaimUpdate"
    """A claim that it names came, changed or went."""
    POLICY_UPDATE = "PolicyUpdate"
    """Another policy is in force for it. Not a word of kube-scheduler, nor are those below."""
    QUOTA_UPDATE = "ResourceQuotaUpdate"
    STORAGE_UPDATE = "StorageUpdate"
    """A volume or a class changed, or what a CSI driver says of a node; or storage objects have become known."""
    REJECTION_OVER = "RejectionOver"
    """Nodes that had rejected pods like it may be tried again."""
    OTHER = "Other"

    @classmethod
    def of(cls, hints: Hint) -> QueueEvent:
        """Return what a change is called; of several the first in the order below."""
        return next((event for hint, event in _BY_HINT if hints & hint), cls.OTHER)


_BY_HINT = (
    (Hint.DEVICE_FREED | Hint.RESOURCES, QueueEvent.ASSIGNED_POD_DELETE),
    (Hint.NODE, QueueEvent.NODE_ADD),
    (Hint.ALLOCATABLE, QueueEvent.NODE_ALLOCATABLE),
    (Hint.LABELS, QueueEvent.NODE_LABEL),
    (Hint.TAINTS, QueueEvent.NODE_TAINT),
    (Hint.FEATURES, QueueEvent.NODE_FEATURE),
    (Hint.DEVICES, QueueEvent.NODE_ANNOTATION),
    (Hint.AFFINITY, QueueEvent.ASSIGNED_POD_UPDATE),
    (Hint.VOLUMES | Hint.ATTACH_LIMIT, QueueEvent.STORAGE_UPDATE),
    (Hint.REJECTION, QueueEvent.REJECTION_OVER),
)
