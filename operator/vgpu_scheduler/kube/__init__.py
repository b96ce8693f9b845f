"""Kubernetes objects as this program needs them: quantities, selectors, pods and nodes, and the one decoder."""

from vgpu_scheduler.kube.beside import NodeInventory
from vgpu_scheduler.kube.csidecoding import (
    decode_attachment,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_capacity,
)
from vgpu_scheduler.kube.decoding import (
    Decode,
    DecodeError,
    Encoded,
    WatchEvent,
    WatchStatus,
    decode_event,
    decode_list,
)
from vgpu_scheduler.kube.identity import ObjectIdentity, decode_identity
from vgpu_scheduler.kube.images import Image
from vgpu_scheduler.kube.namespaces import Namespace, decode_namespace
from vgpu_scheduler.kube.nesting import decode_json, loads, of_any_depth
from vgpu_scheduler.kube.nodedecoding import decode_node
from vgpu_scheduler.kube.objects import ANY_ADDRESS, Condition, Container, HostPort, Node, Pod, PodSpec
from vgpu_scheduler.kube.poddecoding import decode_pod
from vgpu_scheduler.kube.podterms import PodSelector, PodTerm, TopologyTerm
from vgpu_scheduler.kube.podvolumes import ClaimVolume, DiskKey, InlineDisk
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
from vgpu_scheduler.kube.selecting import SELECTING_KINDS, SERVICE, SelectingObject, decode_selecting
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
from vgpu_scheduler.kube.storage import (
    BOUND_BY_CONTROLLER,
    READ_WRITE_ONCE_POD,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    AttachedVolume,
    Claim,
    ClaimReference,
    CSIDriver,
    CSINode,
    StorageCapacity,
    StorageClass,
    StorageObject,
    Volume,
    VolumeAttachment,
)
from vgpu_scheduler.kube.storagedecoding import decode_claim, decode_storage_class, decode_volume
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
    "BOUND_BY_CONTROLLER",
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "PODS",
    "PREFER_NO_SCHEDULE",
    "READ_WRITE_ONCE_POD",
    "SELECTED_NODE",
    "SELECTING_KINDS",
    "SERVICE",
    "UNSCHEDULABLE_TAINT",
    "WAIT_FOR_FIRST_CONSUMER",
    "AttachedVolume",
    "CSIDriver",
    "CSINode",
    "Claim",
    "ClaimReference",
    "ClaimVolume",
    "Condition",
    "Container",
    "ContainerKind",
    "Decode",
    "DecodeError",
    "DiskKey",
    "Encoded",
    "HostPort",
    "Image",
    "InlineDisk",
    "LabelSelector",
    "Namespace",
    "Node",
    "NodeInventory",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectIdentity",
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
    "SelectingObject",
    "SelectorError",
    "SpreadConstraint",
    "StorageCapacity",
    "StorageClass",
    "StorageObject",
    "Taint",
    "Toleration",
    "TopologyTerm",
    "Versioned",
    "VersionedStore",
    "Volume",
    "VolumeAttachment",
    "WatchEvent",
    "WatchStatus",
    "compile_label_selector",
    "decode_attachment",
    "decode_claim",
    "decode_csi_driver",
    "decode_csi_node",
    "decode_event",
    "decode_identity",
    "decode_json",
    "decode_list",
    "decode_namespace",
    "decode_node",
    "decode_pod",
    "decode_quota",
    "decode_selecting",
    "decode_storage_capacity",
    "decode_storage_class",
    "decode_volume",
    "has_unit",
    "is_zero",
    "loads",
    "of_any_depth",
    "parse_label_selector",
    "parse_quantity",
    "taint",
    "to_exact_int",
    "to_int",
    "to_milli",
]
