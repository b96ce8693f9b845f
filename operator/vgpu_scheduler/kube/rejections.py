"""How a kubelet says that it does not run a pod that was bound to its node."""

from typing import Final

from vgpu_scheduler.kube.wire import WirePodStatus

__all__ = ["kubelet_rejection"]

_TOO_LITTLE: Final = "OutOf"
"""With a resource behind it: ``OutOfcpu``, ``OutOfpods``, ``OutOfnvidia.com/gpu``."""
_REJECTED: Final = "Pod was rejected: "
"""What the message of every rejection begins with; kubelets before 1.25 do not write it."""
_REASONS: Final = frozenset({
    "AppArmor", "EmptyPodSharedPoolError", "InitContainerRestartPolicyForbidden", "InvalidNodeInfo", "NodeAffinity",
    "NodeName", "NodePorts", "NodeShutdown", "PodFeatureUnsupported", "PodLevelResourcesNotSupported",
    "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "SMTAlignmentError",
    "SupplementalGroupsPolicyNotSupported", "SysctlForbidden", "TaintToleration", "TopologyAffinityError",
    "UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason", "VolumeAttachmentLimitExceeded",
})  # fmt: skip


def kubelet_rejection(status: WirePodStatus) -> str:
    """Return the reason for which a kubelet did not admit a pod; empty if it did, or has not been asked.

    A pod that ran and was evicted, preempted or stopped was admitted before.
    """
    if status.phase != "Failed" or not status.reason:
        return ""
    known = status.reason in _REASONS or status.reason.startswith(_TOO_LITTLE)
    return status.reason if known or status.message.startswith(_REJECTED) else ""
