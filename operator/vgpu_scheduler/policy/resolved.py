"""What is in force for one pod, as values for the rooms that act on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_scheduler.allocators import CardChoice
from vgpu_scheduler.kube import LabelSelector
from vgpu_scheduler.model import NO_DEFAULTS, ClaimDefaults, TopologyConstraint, first_of
from vgpu_scheduler.policy.groups import NO_GROUP_RULES, GroupRules
from vgpu_scheduler.policy.preemption import NO_PREEMPTION, PreemptionRules
from vgpu_scheduler.policy.refusals import PolicyRefusal
from vgpu_scheduler.scorers import WeightedScorer

SETTINGS = "settings"
"""The source of what no policy and no pod says."""
POD = "pod"
"""The source of what the pod's own annotations say."""

_MOST_NAMED = 5
"""How many sources of one section messages name."""

DEVICE_WEIGHT = 2
"""How much the scorers' points count unless it is set: as much as most of kube-scheduler's plugins."""


@dataclass(frozen=True, slots=True)
class UpperBound:
    """An upper bound on what one pod may ask for, and the policy that sets it."""

    most: int
    source: str


@dataclass(frozen=True, slots=True)
class PodLimits:
    """What one pod may ask for at most; None where there is no bound.

    Attributes
    ----------
    memory
        Bytes of device memory.
    cores
        Percent of compute, added up over its devices.
    devices
        Devices.
    exclusive_cards
        Devices that nobody else is to use.
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
"""The words of ``podOverrides`` that would change what a section decides. Types and modes of a pod only tighten."""

NO_POD_LIMITS = PodLimits()
_FREE_CHOICE = CardChoice()


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """What is in force for one pod.

    Attributes
    ----------
    scorers
        What ranks nodes.
    choice
        How cards are chosen.
    defaults
        What is added to its claims.
    apart
        The keys of labels by which it knows the pods that it shares no card with, of each policy that says some.
    limits
        What it may ask for at most.
    node_selectors
        Selectors over node labels; all must match.
    managed
        The nodes that this scheduler places pods on at all; None for all.
    reads_images
        Whether nodes are ranked by the images that they have.
    device_weight
        How much the scorers' points count beside those of what somebody would like of nodes.
    together
        How near to each other the pods of its group are placed, if a policy says so.
    groups
        How its group is treated.
    preemption
        Whether it may evict others, and others it. Known also where the pod must wait: a pod that runs can be a victim.
    overrides
        Which groups of its own annotations ``podOverrides`` allow, or None for all of them.
    enforced
        The sections that a policy enforces, each with that policy.
    sources
        Where each section came from: all policies, the most important first, as messages call them, or else the pod or
        the settings.
    warnings
        Said once per pod as an event.
    policies
        The policies that some section came from: kind, namespace, name.
    refusal
        Why the pod must wait; nothing but ``preemption`` matters then. None where it need not.
    strict
        Whether pods are refused whose annotations or amounts are odd, instead of being warned about.
    number
        Equal for resolutions that are equal in all else, for as long as the process runs.
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
    refusal: PolicyRefusal | None = None
    strict: bool = False
    number: int = field(default=-1, compare=False)

    @property
    def source_of(self) -> Mapping[str, str]:
        """Where each section came from, by its name, as messages say it: of many sources the first ones."""
        return shown_sources(dict(self.sources))

    def titles(self, section: str) -> tuple[str, ...]:
        """Return where a section came from, all of it."""
        return dict(self.sources).get(section, ())

    @property
    def overrules_nothing(self) -> bool:
        """Whether all annotations of the pod are followed."""
        return self.overrides is None and not self.enforced

    def overruled(self, word: str) -> str:
        """Return why a group of the pod's annotations is not followed; empty if it is."""
        return overruled_by(word, self.overrides, self.enforced, self.source_of.get("podOverrides", "a policy"))


def shown_sources(sources: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return where sections came from, as messages say it: of many sources the first ones."""
    return {section: shown_titles(titles) for section, titles in sources.items()}


def shown_titles(titles: Sequence[str]) -> str:
    """Return the sources of one section for a message."""
    return first_of(titles, _MOST_NAMED)


def overruled_by(
    word: str, overrides: frozenset[str] | None, enforced: Iterable[tuple[str, str]], overrides_of: str
) -> str:
    """Return why a group of a pod's annotations is not followed; empty if it is.

    Parameters
    ----------
    word
        The group's word of ``podOverrides``.
    overrides
        The words that are allowed; None for all.
    enforced
        The sections that a policy enforces, each with that policy.
    overrides_of
        Who says which words are allowed.
    """
    for section, by in enforced:
        if word in _DECIDED_BY[section]:
            return f"{by} enforces {section}"
    return "" if overrides is None or word in overrides else f"podOverrides of {overrides_of} does not allow it"
