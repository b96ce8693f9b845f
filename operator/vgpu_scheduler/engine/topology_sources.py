"""What requires the topology of a group, as its pods' conditions name it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.groups import REQUIRED_TOPOLOGY
from vgpu_scheduler.kube import PodGroup
from vgpu_scheduler.model import TopologyConstraint

TOPOLOGY_FIELD: Final = "spec.schedulingConstraints.topology"
"""The field of a group's object that requires a topology."""
_AND: Final = " and "
_SAID_BY_OBJECT: Final = re.compile(rf"\((?:[^()]*{_AND})?{re.escape(TOPOLOGY_FIELD)} of (PodGroup\S* [^\s)]+)")
_SAID_BY_PODS: Final = re.compile(rf"\((?:[^()]*{_AND})?annotation {re.escape(REQUIRED_TOPOLOGY)}\b")


def topology_of_object(group: PodGroup) -> tuple[TopologyConstraint, ...]:
    """Return the topology constraints of a group's object."""
    said_by = f"{TOPOLOGY_FIELD} of {group.kind} {group.key}"
    return tuple(TopologyConstraint(each, required=True, said_by=said_by) for each in group.topology)


def said_by(required: Iterable[TopologyConstraint]) -> str:
    """Name what requires the topology of a group, in parentheses, as a condition ends with it."""
    return f"({_AND.join(dict.fromkeys(each.said_by for each in required))})"


@dataclass(frozen=True, slots=True)
class TopologySources:
    """What requires the topology of a group.

    Attributes
    ----------
    pods
        Whether an annotation of its pods does.
    group
        Kind and name of the group's object that does; empty if it does not.
    """

    pods: bool = False
    group: str = ""

    @classmethod
    def found_in(cls, message: str) -> TopologySources:
        """Return the sources that a condition names."""
        found = _SAID_BY_OBJECT.search(message)
        return cls(_SAID_BY_PODS.search(message) is not None, found[1] if found else "")
