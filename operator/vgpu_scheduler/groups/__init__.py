"""Pod groups: who says that pods belong together, and how many of them have to be placed for any."""

from vgpu_scheduler.groups.ecosystems import GROUP_SOURCES, POD_GROUP_KINDS, membership
from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, PodGroupKind
from vgpu_scheduler.groups.topology import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, rank, topology

__all__ = [
    "GROUP_SOURCES",
    "POD_GROUP_KINDS",
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
