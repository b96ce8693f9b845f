"""Pod groups: which pods belong together, and how many of them must be placed at once."""

from vgpu_scheduler.groups.ecosystems import (
    COSCHEDULING_API_VERSION,
    COSCHEDULING_LABEL,
    GROUP_SOURCES,
    POD_ANNOTATIONS,
    POD_GROUP_KINDS,
    POD_LABELS,
    VOLCANO_API_VERSION,
    membership,
    pod_group_kind,
)
from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, PodGroupKind
from vgpu_scheduler.groups.topology import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, rank, topology

__all__ = [
    "COSCHEDULING_API_VERSION",
    "COSCHEDULING_LABEL",
    "GROUP_SOURCES",
    "POD_ANNOTATIONS",
    "POD_GROUP_KINDS",
    "POD_LABELS",
    "PREFERRED_TOPOLOGY",
    "REQUIRED_TOPOLOGY",
    "VOLCANO_API_VERSION",
    "GroupKey",
    "GroupSource",
    "Membership",
    "PodGroupKind",
    "membership",
    "pod_group_kind",
    "rank",
    "topology",
]
