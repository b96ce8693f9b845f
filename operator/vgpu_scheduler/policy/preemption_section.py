"""The section ``preemption`` of a policy as written in resources, and what namespaced policies may set in it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from vgpu_scheduler.policy.evictions import MOST_EVICTIONS
from vgpu_scheduler.policy.rules import Duration, Rule, Section, any_field_is_set


class PreemptionSection(Section):
    """Whether pods may evict others to get room, and whether others may evict them; set at least one field.

    mayPreempt, delay, victims, budgets and perHour are read from the policies of the preempting pod, preemptible and
    minRuntime from those of the victim. A policy of a namespace can only tighten: mayPreempt false, victims Own,
    budgets Respect, a longer delay, a perHour of its own. It can also give up protection, but never add any:
    preemptible true, a shorter minRuntime.
    """

    may_preempt: Annotated[bool, Field(strict=True)] | None = None
    """true: a pod that fits nowhere may evict pods of lower priority, unless its own preemptionPolicy is Never. false
    if absent. It has no effect unless the operator has the rights for evictions."""
    preemptible: Annotated[bool, Field(strict=True)] | None = None
    """false: no pod may evict the pods of this policy. true if absent."""
    min_runtime: Duration | None = None
    """How long a pod must have run before it may be evicted (5m). 0s if absent."""
    delay: Duration | None = None
    """How long a pod must have waited since its creation before it may evict others (2m), so that an autoscaler acts
    first. 0s if absent."""
    victims: Literal["Own", "Any"] | None = None
    """Own: only pods whose spec.schedulerName names this scheduler may be evicted. Any: also pods of other schedulers.
    Own if absent."""
    budgets: Literal["Respect", "Exceed"] | None = None
    """Respect: pods are evicted as far as their PodDisruptionBudgets allow. Exceed: where nothing else makes room,
    budgets may be violated, as in kube-scheduler. Respect if absent."""
    per_hour: Annotated[int, Field(strict=True, ge=0, le=MOST_EVICTIONS)] | None = None
    """Maximum number of evictions within any hour on behalf of all pods of this policy together. No limit if absent; 0
    allows none."""

    rules = (
        Rule(
            cel="[has(self.mayPreempt), has(self.preemptible), has(self.minRuntime), has(self.delay),"
            " has(self.victims), has(self.budgets), has(self.perHour)].exists(set, set)",
            message="set at least one field, or remove preemption",
            holds=any_field_is_set,
        ),
    )


TIGHTENING_RULES: Final = (
    Rule(
        cel="!has(self.preemption) || !has(self.preemption.mayPreempt) || !self.preemption.mayPreempt",
        message="a policy of a namespace can only set mayPreempt to false; a ClusterVGPUPolicy can allow it",
        holds=lambda it: it.preemption is None or it.preemption.may_preempt is not True,
        field="preemption.mayPreempt",
    ),
    Rule(
        cel="!has(self.preemption) || !has(self.preemption.preemptible) || self.preemption.preemptible",
        message="a policy of a namespace can only set preemptible to true; a ClusterVGPUPolicy can protect pods",
        holds=lambda it: it.preemption is None or it.preemption.preemptible is not False,
        field="preemption.preemptible",
    ),
    Rule(
        cel="!has(self.preemption) || !has(self.preemption.victims) || self.preemption.victims == 'Own'",
        message="a policy of a namespace can only set victims to Own; a ClusterVGPUPolicy can set it to Any",
        holds=lambda it: it.preemption is None or it.preemption.victims in (None, "Own"),
        field="preemption.victims",
    ),
    Rule(
        cel="!has(self.preemption) || !has(self.preemption.budgets) || self.preemption.budgets == 'Respect'",
        message="a policy of a namespace can only set budgets to Respect; a ClusterVGPUPolicy can set it to Exceed",
        holds=lambda it: it.preemption is None or it.preemption.budgets in (None, "Respect"),
        field="preemption.budgets",
    ),
)
"""The rules for specs of the namespaced kind. Durations are compared with those of cluster policies at resolution."""
