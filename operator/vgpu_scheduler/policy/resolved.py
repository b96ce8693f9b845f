"""What is in force for one pod, as values for the rooms that act on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.allocators import CardChoice
from vgpu_scheduler.kube import LabelSelector
from vgpu_scheduler.model import NO_TERMS, ClaimTerms
from vgpu_scheduler.scorers import WeightedScorer

SETTINGS = "settings"
"""The source of what no policy and no pod says."""
POD = "pod"
"""The source of what the pod's own annotations say."""

DEVICE_WEIGHT = 2
"""How much the scorers' points count unless it is set: as much as most of kube-scheduler's plugins."""


@dataclass(frozen=True, slots=True)
class Bound:
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
    """

    memory: Bound | None = None
    cores: Bound | None = None
    devices: Bound | None = None


NO_POD_LIMITS = PodLimits()
_FREE_CHOICE = CardChoice()


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """What is in force for one pod.

    Attributes
    ----------
    scorers
        What ranks nodes.
    choice
        How cards are chosen.
    terms
        What is added to its claims.
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
    overrides
        Which groups of its own annotations are in force, or None for all of them.
    sources
        Where each section came from.
    warnings
        Said once per pod as an event.
    policies
        The policies that some section came from: kind, namespace, name.
    refusal
        Why the pod must wait; nothing else matters then.
    strict
        Whether pods are refused whose annotations or amounts are odd, instead of being warned about.
    number
        Equal for resolutions that are equal in all else, for as long as the process runs.
    """

    scorers: tuple[WeightedScorer, ...] = ()
    choice: CardChoice = _FREE_CHOICE
    terms: ClaimTerms = NO_TERMS
    limits: PodLimits = NO_POD_LIMITS
    node_selectors: tuple[LabelSelector, ...] = ()
    managed: LabelSelector | None = None
    reads_images: bool = False
    device_weight: int = DEVICE_WEIGHT
    overrides: frozenset[str] | None = None
    sources: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    policies: tuple[tuple[str, str, str], ...] = ()
    refusal: str = ""
    strict: bool = False
    number: int = field(default=-1, compare=False)

    @property
    def source_of(self) -> Mapping[str, str]:
        """Where each section came from, by its name."""
        return dict(self.sources)
