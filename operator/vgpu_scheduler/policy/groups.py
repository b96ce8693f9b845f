"""The section ``groups`` of a policy as written in resources, and the rules in force for a group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from vgpu_scheduler.policy.rules import Duration, Rule, Section, any_field_is_set

STALE_AFTER: Final = 300.0
"""Seconds that a group may run with fewer pods than it needs before it is reported, unless a policy says otherwise."""


class GroupsSection(Section):
    """How groups of pods that are placed together are treated; set at least one field."""

    minimum: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    """Number of pods of a group that must be placeable before any is placed, if neither its pods nor an object say so:
    for example, if the API server does not serve the kind of the PodGroup that the pods name. If absent, such pods are
    placed one by one, or wait for the object if its kind is served."""
    stale_after: Duration | None = None
    """How long a group may run with fewer pods than it needs before an event reports it (10m). 5m if absent."""
    when_stale: Literal["Report", "Evict"] | None = None
    """What happens to such a group then. Report: an event, a metric and a finding of doctor. Evict: its running pods
    are also evicted, so that others can use their cards and the group starts again as a whole; this has no effect
    unless the operator has the rights for evictions. Report if absent."""
    hold_after: Duration | None = None
    """How long a group, or a pod without a group, must have waited before room that other pods leave is kept for it
    (15m), so that smaller pods do not take it again and again. If absent, no room is kept."""

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
"""The rule for specs of the namespaced kind."""


class WhenStale(StrEnum):
    """What happens to a group that runs with too few pods for long."""

    REPORT = "Report"
    EVICT = "Evict"


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The rules for the group of a pod.

    Attributes
    ----------
    minimum
        How many pods are needed, if neither pods nor an object say so; None if nothing does.
    stale_after
        Seconds that the group may run with fewer pods than it needs.
    when_stale
        What happens to it then.
    hold_after
        Seconds that the group waits before cards are held for it; None to hold none.
    """

    minimum: int | None = None
    stale_after: float = STALE_AFTER
    when_stale: WhenStale = WhenStale.REPORT
    hold_after: float | None = None


NO_GROUP_RULES: Final = GroupRules()
"""The rules without any policy."""


def group_rules(section: GroupsSection) -> GroupRules:
    """Return the rules of a section."""
    return GroupRules(
        minimum=section.minimum,
        stale_after=STALE_AFTER if section.stale_after is None else section.stale_after,
        when_stale=WhenStale(section.when_stale or WhenStale.REPORT),
        hold_after=section.hold_after,
    )
