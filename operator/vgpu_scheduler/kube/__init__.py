"""Kubernetes objects as this program needs them: quantities, selectors, pods and nodes, and the one decoder."""

from vgpu_scheduler.kube.decoding import (
    DecodeError,
    NodeEvent,
    PodEvent,
    WatchStatus,
    decode_node,
    decode_node_event,
    decode_node_list,
    decode_pod,
    decode_pod_event,
    decode_pod_list,
)
from vgpu_scheduler.kube.objects import Condition, Container, HostPort, Node, Pod, PodSpec
from vgpu_scheduler.kube.quantities import (
    QuantityError,
    parse_quantity,
    to_exact_int,
    to_int,
    to_milli,
)
from vgpu_scheduler.kube.quotas import ResourceQuota, decode_quota
from vgpu_scheduler.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, ContainerKind
from vgpu_scheduler.kube.selectors import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    SelectorError,
    compile_label_selector,
)
from vgpu_scheduler.kube.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_TAINT, Taint, Toleration, taint

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "PODS",
    "UNSCHEDULABLE_TAINT",
    "Condition",
    "Container",
    "ContainerKind",
    "DecodeError",
    "HostPort",
    "LabelSelector",
    "Node",
    "NodeEvent",
    "NodeSelector",
    "NodeSelectorTerm",
    "Operator",
    "Pod",
    "PodEvent",
    "PodSpec",
    "QuantityError",
    "Requirement",
    "ResourceQuota",
    "SelectorError",
    "Taint",
    "Toleration",
    "WatchStatus",
    "compile_label_selector",
    "decode_node",
    "decode_node_event",
    "decode_node_list",
    "decode_pod",
    "decode_pod_event",
    "decode_pod_list",
    "decode_quota",
    "parse_quantity",
    "taint",
    "to_exact_int",
    "to_int",
    "to_milli",
]
