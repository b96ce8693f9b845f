"""Kubernetes' own filters as functions over the node table, and the pods that are refused or held back."""

from vgpu_scheduler.predicates.compiled import CompiledPredicates, compile_predicates
from vgpu_scheduler.predicates.interpod import INTER_POD_REJECTIONS, InterPodTerms, needs_inter_pod
from vgpu_scheduler.predicates.reasons import Reason, Rejection, Rejections, unschedulable_message
from vgpu_scheduler.predicates.refusals import gated, refusals

__all__ = [
    "INTER_POD_REJECTIONS",
    "CompiledPredicates",
    "InterPodTerms",
    "Reason",
    "Rejection",
    "Rejections",
    "compile_predicates",
    "gated",
    "needs_inter_pod",
    "refusals",
    "unschedulable_message",
]
