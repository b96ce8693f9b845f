"""The section ``groups`` of a policy as it is written, and what is in force for the group of a pod."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from vgpu_scheduler.policy.rules import Duration, Rule, Section, any_field_is_set

__all__ = ["HOLDING_RULE", "NO_GROUP_RULES", "GroupRules", "GroupsSection", "WhenStale", "group_rules"]

STALE_AFTER: Final = 300.0
"""Seconds that a group may run with fewer pods than it needs before somebody is told, where no policy says so."""


class GroupsSection(Section):
    """How pods that are placed together are treated; at least one field."""

    minimum: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    """How many pods of a group have to be placed before any is, where neither its pods nor an object say so: for
    example where the API server does not serve the kind of the PodGroup that the pods name. Without it such pods are
    placed one by one, or wait for the object if its kind is served."""
    stale_after: Duration | None = None
    """How long a group may run with fewer pods than it needs before an event says so (10m). 5m if it is absent."""
    when_stale: Literal["Report", "Evict"] | None = None
    """What becomes of such a group then. Report: an event, a metric and a finding of doctor. Evict: its pods that run
    are evicted as well, so that others may use their cards and the group starts again as a whole. That has no effect
    unless the operator has the rights for evictions. Report if it is absent."""
    hold_after: Duration | None = None
    """How long a group, or a pod that is placed by itself, must have waited before room is kept for it as others leave
    it (15m), so that smaller pods do not take it again and again. Without it none is kept."""

    rules = (
        Rule(
            cel="[has(self.minimum), has(self.staleAfter), has(self.whenStale), has(self.holdAfter)].exists(set, set)",
            message="set at least one field, or remove groups",
            holds=any_field_is_set,
        ),
    )


HOLDING_RULE: Final = Rule(
    cel="!has(self.groups) || !has(self.groups.holdAfter)",
    message="a policy of a namespace cannot have cards kept, which others lack meanwhile; a ClusterVGPUPolicy can",
    holds=lambda it: it.groups is None or it.groups.hold_after is None,
    field="groups.holdAfter",
)
"""What a spec of the namespaced kind must keep to."""


class WhenStale(StrEnum):
    """What becomes of a group that runs with too few pods for long."""

    REPORT = "Report"
    EVICT = "Evict"


@dataclass(frozen=True, slots=True)
class GroupRules:
    """What is in force for the group of a pod.

    Attributes
    ----------
    minimum
        How many pods are needed where neither pods nor an object say so; None where nothing says so.
    stale_after
        Seconds that it may run with fewer pods than it needs.
    when_stale
        What becomes of it then.
    hold_after
        Seconds that it waits before cards are kept for it; None for ever.
    """

    minimum: int | None = None
    stale_after: float = STALE_AFTER
    when_stale: WhenStale = WhenStale.REPORT
    hold_after: float | None = None


NO_GROUP_RULES: Final = GroupRules()
"""What holds without any policy."""


def group_rules(section: GroupsSection) -> GroupRules:
    """Return what a section says."""
    return GroupRules(
        minimum=section.minimum,
        stale_after=STALE_AFTER if section.stale_after is None else section.stale_after,
        when_stale=WhenStale(section.when_stale or WhenStale.REPORT),
        hold_after=section.hold_after,
    )
