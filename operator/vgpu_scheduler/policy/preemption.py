"""What is in force for a pod in preemption: whether it may evict others, and whether others may evict it.

The section comes whole from the highest-ranked matching cluster policy that sets it. All matching policies of the
namespace tighten it for a pod that needs room; for a pod that would have to go they can only give up protection, so
that nobody protects the own pods against what the administrator wants. It cannot be enforced, for nothing lifts it.
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
    """Whose pods may have to go."""

    OWN = "Own"
    ANY = "Any"


class DisruptionBudgetMode(StrEnum):
    """What PodDisruptionBudgets mean."""

    RESPECT = "Respect"
    EXCEED = "Exceed"


EvictionLimit = tuple[PolicyKey, int]
"""A policy that limits evictions, and how many it allows within an hour."""


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """What is in force for one pod.

    Attributes
    ----------
    may_preempt
        Whether it may evict others.
    preemptible
        Whether others may evict it.
    min_runtime
        Seconds that it must have run before others may.
    delay
        Seconds that it must have waited since it was created before it may evict others.
    victims
        Whose pods it may evict.
    budget_mode
        What the budgets of its victims mean.
    eviction_limits
        The policies that limit the evictions for their pods, and how many each allows within an hour, in rank of the
        policies; the evictions that count are recorded in the status of each.
    """

    may_preempt: bool = False
    preemptible: bool = True
    min_runtime: float = 0.0
    delay: float = 0.0
    victims: VictimScope = VictimScope.OWN
    budget_mode: DisruptionBudgetMode = DisruptionBudgetMode.RESPECT
    eviction_limits: tuple[EvictionLimit, ...] = ()


NO_PREEMPTION: Final = PreemptionRules()
"""What holds without any policy."""

PROTECTED: Final = PreemptionRules(preemptible=False)
"""What holds while it cannot be known what cluster policies say: an eviction cannot be undone."""


def preemption_rules(matching: Sequence[PolicyResource]) -> tuple[PreemptionRules, list[PolicyResource]]:
    """Return what is in force for a pod, and the policies that it came from.

    Parameters
    ----------
    matching
        The policies that select the pod, the highest-ranked first, those that are not understood among them.
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
    """Return the rules with what a policy of the namespace adds; what would lift something is passed over."""
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
