"""The policy in force for a pod, as values for the rooms that apply it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vgpu_scheduler.allocators import CardChoice
from vgpu_scheduler.kube import LabelSelector
from vgpu_scheduler.model import NO_DEFAULTS, ClaimDefaults, TopologyConstraint, first_of
from vgpu_scheduler.policy.groups import NO_GROUP_RULES, GroupRules
from vgpu_scheduler.policy.not_ready import PolicyNotReady
from vgpu_scheduler.policy.preemption import NO_PREEMPTION, PreemptionRules
from vgpu_scheduler.scorers import WeightedScorer

SETTINGS = "settings"
"""The source of parts that come from the settings."""
POD = "pod"
"""The source of parts that come from the pod's own annotations."""

_MOST_NAMED = 5
"""The most sources of one section to name in messages."""

DEVICE_WEIGHT = 2
"""The default weight of the scorers beside preferences: as much as most of kube-scheduler's plugins."""


@dataclass(frozen=True, slots=True)
class UpperBound:
    """An upper bound on what one pod may ask for, and the policy that sets it."""

    most: int
    source: str


class LimitField(StrEnum):
    """The fields of ``spec.limits`` of a policy."""

    DEVICES = "devicesPerPod"
    EXCLUSIVE_CARDS = "exclusiveCardsPerPod"
    CORES = "coresPerPod"
    MEMORY = "memoryPerPod"


@dataclass(frozen=True, slots=True)
class PodLimits:
    """The most that one pod may ask for; None where there is no limit.

    Attributes
    ----------
    memory
        Bytes of device memory.
    cores
        Percent of compute, summed over its devices.
    devices
        Number of devices.
    exclusive_cards
        Number of devices for the pod's exclusive use.
    """

    memory: UpperBound | None = None
    cores: UpperBound | None = None
    devices: UpperBound | None = None
    exclusive_cards: UpperBound | None = None


_DECIDED_BY: Mapping[str, frozenset[str]] = {
    "nodes": frozenset({"nodePolicy"}),
    "devices": frozenset({"devicePolicy", "deviceWeights", "deviceUUIDs", "numa"}),
    "defaults": frozenset(),
}
"""The words of ``podOverrides`` that would change what a section decides. A pod's types and modes only tighten."""

NO_POD_LIMITS = PodLimits()
_FREE_CHOICE = CardChoice()


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy in force for one pod.

    Attributes
    ----------
    scorers
        The scorers that rank nodes.
    choice
        How cards are chosen.
    defaults
        What is added to the pod's claims.
    apart
        The label keys that identify the pods to share no card with, one tuple per policy that sets some.
    limits
        The most that the pod may ask for.
    node_selectors
        Selectors over node labels; all must match.
    managed
        The nodes that the scheduler may place pods on; None for all.
    reads_images
        Whether nodes are scored by the images that they have.
    device_weight
        The weight of the scorers beside preferred affinities, preferred taints and the like.
    together
        How close to each other the pods of its group are placed, if a policy says so.
    groups
        How its group is treated.
    preemption
        Whether it may preempt, and be a victim. Known even if ``refusal`` is set: a running pod can be a victim.
    overrides
        The groups of the pod's annotations that ``podOverrides`` allow; None for all.
    enforced
        The enforced sections, each with the policy that enforces it.
    sources
        The sources of each section: all policies, the most important first, by their names in messages, or the pod or
        the settings.
    warnings
        Warnings, reported once per pod as events.
    policies
        The policies that are sources: kind, namespace, name.
    refusal
        Why the pod has to wait, in which case only ``preemption`` matters; None if it need not.
    strict
        Whether suspicious annotations or amounts are refused, instead of a warning.
    number
        Equal for equal resolutions, as long as the process runs.
    """

    scorers: tuple[WeightedScorer, ...] = ()
    choice: CardChoice = _FREE_CHOICE
    defaults: ClaimDefaults = NO_DEFAULTS
    apart: tuple[tuple[str, ...], ...] = ()
    limits: PodLimits = NO_POD_LIMITS
    node_selectors: tuple[LabelSelector, ...] = ()
    managed: LabelSelector | None = None
    reads_images: bool = False
    device_weight: int = DEVICE_WEIGHT
    together: TopologyConstraint | None = None
    groups: GroupRules = NO_GROUP_RULES
    preemption: PreemptionRules = NO_PREEMPTION
    overrides: frozenset[str] | None = None
    enforced: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    warnings: tuple[str, ...] = ()
    policies: tuple[tuple[str, str, str], ...] = ()
    refusal: PolicyNotReady | None = None
    strict: bool = False
    number: int = field(default=-1, compare=False)

    @property
    def source_of(self) -> Mapping[str, str]:
        """The source of each section in words, with the first few sources if there are many."""
        return shown_sources(dict(self.sources))

    def titles(self, section: str) -> tuple[str, ...]:
        """Return all sources of a section."""
        return dict(self.sources).get(section, ())

    @property
    def overrules_nothing(self) -> bool:
        """Whether all annotations of the pod are followed."""
        return self.overrides is None and not self.enforced

    def overruled(self, word: str) -> str:
        """Return why a group of the pod's annotations is not followed; empty if it is."""
        return overruled_by(word, self.overrides, self.enforced, self.source_of.get("podOverrides", "a policy"))


def shown_sources(sources: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the source of each section in words, with the first few sources if there are many."""
    return {section: shown_titles(titles) for section, titles in sources.items()}


def shown_titles(titles: Sequence[str]) -> str:
    """Return the sources of one section in words."""
    return first_of(titles, _MOST_NAMED)


def overruled_by(
    word: str, overrides: frozenset[str] | None, enforced: Iterable[tuple[str, str]], overrides_of: str
) -> str:
    """Return why a group of a pod's annotations is not followed; empty if it is.

    Parameters
    ----------
    word
        The word of ``podOverrides`` for the group.
    overrides
        The allowed words; None for all.
    enforced
        The enforced sections, each with the policy that enforces it.
    overrides_of
        The policies that restrict the words, for the message.
    """
    for section, by in enforced:
        if word in _DECIDED_BY[section]:
            return f"{by} enforces {section}"
    return "" if overrides is None or word in overrides else f"podOverrides of {overrides_of} does not allow it"
