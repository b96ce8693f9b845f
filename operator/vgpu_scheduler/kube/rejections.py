"""Detection of pods that a kubelet did not admit."""

from typing import Final

from vgpu_scheduler.kube.wire import WirePodStatus

_TOO_LITTLE: Final = "OutOf"
"""Prefix of reasons that end with a resource: ``OutOfcpu``, ``OutOfpods``, ``OutOfnvidia.com/gpu``."""
_REJECTED: Final = "Pod was rejected: "
"""Prefix of the message of every rejection; kubelets before 1.25 do not write it."""
_REASONS: Final = frozenset({
    "AppArmor", "EmptyPodSharedPoolError", "InitContainerRestartPolicyForbidden", "InvalidNodeInfo", "NodeAffinity",
    "NodeName", "NodePorts", "NodeShutdown", "PodFeatureUnsupported", "PodLevelResourcesNotSupported",
    "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "SMTAlignmentError",
    "SupplementalGroupsPolicyNotSupported", "SysctlForbidden", "TaintToleration", "TopologyAffinityError",
    "UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason", "VolumeAttachmentLimitExceeded",
})  # fmt: skip


def kubelet_rejection(status: WirePodStatus) -> str:
    """Return the reason why a kubelet did not admit a pod; empty if it did, or has not decided yet.

    A pod that was evicted, preempted or stopped while running counts as admitted.
    """
    if status.phase != "Failed" or not status.reason:
        return ""
    known = status.reason in _REASONS or status.reason.startswith(_TOO_LITTLE)
    return status.reason if known or status.message.startswith(_REJECTED) else ""
