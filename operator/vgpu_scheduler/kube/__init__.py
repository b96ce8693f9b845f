"""Kubernetes objects as this program needs them: quantities, selectors, pods and nodes, and the one decoder."""

from vgpu_scheduler.kube.beside import NodeInventory
from vgpu_scheduler.kube.decoding import (
    Decode,
    DecodeError,
    Encoded,
    WatchEvent,
    WatchStatus,
    decode_event,
    decode_list,
    decode_node,
    decode_pod,
)
from vgpu_scheduler.kube.images import Image
from vgpu_scheduler.kube.namespaces import Namespace, decode_namespace
from vgpu_scheduler.kube.objects import ANY_ADDRESS, Condition, Container, HostPort, Node, Pod, PodSpec
from vgpu_scheduler.kube.podterms import PodSelector, PodTerm, TopologyTerm
from vgpu_scheduler.kube.preferences import PreferredNodes, PreferredPods
from vgpu_scheduler.kube.quantities import (
    QuantityError,
    has_unit,
    is_zero,
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
    parse_label_selector,
)
from vgpu_scheduler.kube.spread import SpreadConstraint
from vgpu_scheduler.kube.store import Versioned, VersionedStore
from vgpu_scheduler.kube.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    Taint,
    Toleration,
    taint,
)

__all__ = [
    "ANY_ADDRESS",
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "PODS",
    "PREFER_NO_SCHEDULE",
    "UNSCHEDULABLE_TAINT",
    "Condition",
    "Container",
    "ContainerKind",
    "Decode",
    "DecodeError",
    "Encoded",
    "HostPort",
    "Image",
    "LabelSelector",
    "Namespace",
    "Node",
    "NodeInventory",
    "NodeSelector",
    "NodeSelectorTerm",
    "Operator",
    "Pod",
    "PodSelector",
    "PodSpec",
    "PodTerm",
    "PreferredNodes",
    "PreferredPods",
    "QuantityError",
    "Requirement",
    "ResourceQuota",
    "SelectorError",
    "SpreadConstraint",
    "Taint",
    "Toleration",
    "TopologyTerm",
    "Versioned",
    "VersionedStore",
    "WatchEvent",
    "WatchStatus",
    "compile_label_selector",
    "decode_event",
    "decode_list",
    "decode_namespace",
    "decode_node",
    "decode_pod",
    "decode_quota",
    "has_unit",
    "is_zero",
    "parse_label_selector",
    "parse_quantity",
    "taint",
    "to_exact_int",
    "to_int",
    "to_milli",
]
