"""Pod groups: which pods belong together, and how many of them must be placed at once."""

from vgpu_scheduler.groups.ecosystems import GROUP_SOURCES, POD_ANNOTATIONS, POD_GROUP_KINDS, POD_LABELS, membership
from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, PodGroupKind
from vgpu_scheduler.groups.topology import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, rank, topology

__all__ = [
    "GROUP_SOURCES",
    "POD_ANNOTATIONS",
    "POD_GROUP_KINDS",
    "POD_LABELS",
    "PREFERRED_TOPOLOGY",
    "REQUIRED_TOPOLOGY",
    "GroupKey",
    "GroupSource",
    "Membership",
    "PodGroupKind",
    "membership",
    "rank",
    "topology",
]
