"""Pod groups: who says that pods belong together, how many of them have to be placed for any, one source per file.

A source reads the labels, annotations or a field of a pod, and, where it has one, the object that describes the group.
"""

from vgpu_scheduler.groups.coscheduling import COSCHEDULING, COSCHEDULING_BEFORE
from vgpu_scheduler.groups.koordinator import KOORDINATOR
from vgpu_scheduler.groups.kueue import KUEUE
from vgpu_scheduler.groups.native import NATIVE
from vgpu_scheduler.groups.pod_group import PodGroupKind
from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership
from vgpu_scheduler.groups.topology import rank, topology
from vgpu_scheduler.groups.volcano import VOLCANO
from vgpu_scheduler.kube import Pod

__all__ = [
    "GROUP_SOURCES",
    "POD_GROUP_KINDS",
    "GroupKey",
    "GroupSource",
    "Membership",
    "PodGroupKind",
    "membership",
    "rank",
    "topology",
]

GROUP_SOURCES: tuple[GroupSource, ...] = (NATIVE, COSCHEDULING, COSCHEDULING_BEFORE, KOORDINATOR, KUEUE, VOLCANO)
"""All sources. A pod belongs to the group that the first of them finds."""
POD_GROUP_KINDS: tuple[PodGroupKind, ...] = tuple(
    dict.fromkeys(kind for source in GROUP_SOURCES for kind in source.kinds)
)
"""The kinds of the objects that describe groups."""


def membership(pod: Pod) -> Membership | None:
    """Return what a pod says of its group; None if it belongs to none."""
    return next((found for source in GROUP_SOURCES if (found := source.membership(pod))), None)
