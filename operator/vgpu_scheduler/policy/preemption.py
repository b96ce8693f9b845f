"""The preemption rules in force for a pod: whether it may preempt others, and whether it may be a victim.

The highest-ranked matching cluster policy that sets the section provides all of it. For a preemptor, all matching
policies of the namespace tighten the section. For a possible victim they can only give up protection, so that no tenant
protects its own pods against the administrator's will. The section cannot be enforced, because nothing lifts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from vgpu_scheduler.policy.catalogue import PolicyKey, key_of
from vgpu_scheduler.policy.models import PolicyResource
from vgpu_scheduler.policy.preemption_section import PreemptionSection


class VictimScope(StrEnum):
    """Which pods may be victims."""

    OWN = "Own"
    ANY = "Any"


class DisruptionBudgetMode(StrEnum):
    """How PodDisruptionBudgets are treated."""

    RESPECT = "Respect"
    EXCEED = "Exceed"


EvictionLimit = tuple[PolicyKey, int]
"""A policy that limits evictions, and the number that it allows within an hour."""


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """The preemption rules for one pod.

    Attributes
    ----------
    may_preempt
        Whether the pod may preempt others.
    preemptible
        Whether the pod may be a victim.
    min_runtime
        Seconds that the pod must have run before it may be a victim.
    delay
        Seconds that the pod must have waited since its creation before it may preempt.
    victims
        Which pods may be its victims.
    budget_mode
        How the disruption budgets of its victims are treated.
    eviction_limits
        The policies that limit evictions for their pods, with the number that each allows within an hour, the
        highest-ranked first; each records the evictions that count in its status.
    """

    may_preempt: bool = False
    preemptible: bool = True
    min_runtime: float = 0.0
    delay: float = 0.0
    victims: VictimScope = VictimScope.OWN
    budget_mode: DisruptionBudgetMode = DisruptionBudgetMode.RESPECT
    eviction_limits: tuple[EvictionLimit, ...] = ()


NO_PREEMPTION: Final = PreemptionRules()
"""The rules without any policy."""

PROTECTED: Final = PreemptionRules(preemptible=False)
"""The rules while cluster policies cannot be known: an eviction cannot be undone."""


def preemption_rules(matching: Sequence[PolicyResource]) -> tuple[PreemptionRules, list[PolicyResource]]:
    """Return the rules for a pod, and the policies that they come from.

    Parameters
    ----------
    matching
        The policies that select the pod, highest-ranked first, including those with errors.
    """
    setting = [policy for policy in matching if "preemption" in policy.sections]
    winner = next((policy for policy in setting if not policy.namespace), None)
    if winner is None:
        return NO_PREEMPTION, []
    section = _section(winner)
    if section is None:
        return PROTECTED, []
    rules, sources = _of(section, key_of(winner)), [winner]
    for policy in setting:
        if policy.namespace and (tightening := _section(policy)) is not None:
            tightened = _tightened(rules, tightening, key_of(policy))
            if tightened != rules:
                rules = tightened
                sources.append(policy)
    return rules, sources


def _section(policy: PolicyResource) -> PreemptionSection | None:
    return None if policy.spec is None else policy.spec.preemption


def _of(section: PreemptionSection, key: PolicyKey) -> PreemptionRules:
    return PreemptionRules(
        may_preempt=bool(section.may_preempt),
        preemptible=section.preemptible is not False,
        min_runtime=section.min_runtime or 0.0,
        delay=section.delay or 0.0,
        victims=VictimScope(section.victims or VictimScope.OWN),
        budget_mode=DisruptionBudgetMode(section.budgets or DisruptionBudgetMode.RESPECT),
        eviction_limits=() if section.per_hour is None else ((key, section.per_hour),),
    )


def _tightened(rules: PreemptionRules, section: PreemptionSection, key: PolicyKey) -> PreemptionRules:
    """Return the rules tightened by a namespaced policy; values that would lift something are ignored."""
    min_runtime = rules.min_runtime if section.min_runtime is None else min(section.min_runtime, rules.min_runtime)
    return replace(
        rules,
        may_preempt=rules.may_preempt and section.may_preempt is not False,
        preemptible=rules.preemptible or section.preemptible is True,
        min_runtime=min_runtime,
        delay=max(section.delay or 0.0, rules.delay),
        victims=VictimScope.OWN if section.victims == "Own" else rules.victims,
        budget_mode=DisruptionBudgetMode.RESPECT if section.budgets == "Respect" else rules.budget_mode,
        eviction_limits=rules.eviction_limits
        if section.per_hour is None
        else (*rules.eviction_limits, (key, section.per_hour)),
    )


def describe_preemption(section: PreemptionSection) -> str:
    """Summarise the section in a few words: ``mayPreempt Any 10/h``, ``not preemptible``."""
    words = []
    if section.may_preempt is not None:
        words.append("mayPreempt" if section.may_preempt else "no preemption")
    words += [word for word in (section.victims, section.budgets) if word is not None]
    if section.delay is not None:
        words.append(f"after {section.delay:g}s")
    if section.per_hour is not None:
        words.append(f"{section.per_hour}/h")
    if section.preemptible is not None:
        words.append("preemptible" if section.preemptible else "not preemptible")
    if section.min_runtime is not None:
        words.append(f"minRuntime {section.min_runtime:g}s")
    return " ".join(words)
