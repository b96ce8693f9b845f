"""The sections of a policy as written in resources, except ``nodes``, with the rules inside each.

The docstrings of the fields are printed by ``kubectl explain``, and the reference in ``docs`` is generated from them.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from vgpu_scheduler.allocators import Strategy
from vgpu_scheduler.model import BEST_FIT, DEVICE_POLICIES, policy_words
from vgpu_scheduler.policy.rules import MOST, Memory, Rule, Section, Unique, Weight, any_field_is_set, qualified_name

Mode = Literal["hami-core", "mig", "mps"]
Override = Literal["nodePolicy", "devicePolicy", "deviceWeights", "deviceTypes", "deviceUUIDs", "mode", "numa"]

STRATEGIES: Final = (*(strategy.value for strategy in Strategy), BEST_FIT)
"""The device policies that cannot be combined, and that do not use HAMi's score of a card."""


# ---------------------------------------------------------------------------------------------------------- devices


class DeviceWeights(Section):
    """Weight of each dimension in the score of a card, as in HAMi's hami.io/device-scoring-weights."""

    slots: Weight = 1
    """Weight of the shares in use."""
    memory: Weight = 1
    """Weight of the memory in use."""
    cores: Weight = 1
    """Weight of the compute in use."""

    rules = (
        Rule(
            cel="self.slots + self.memory + self.cores > 0",
            message="at least one of slots, memory and cores must be above 0",
            holds=lambda it: it.slots + it.memory + it.cores > 0,
        ),
    )


TypeNames = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[!-+\--~]([ -+\--~]*[!-+\--~])?$")], ...],
    Field(min_length=1, max_length=64),
    Unique(),
]
"""Substrings of model names: printable ASCII without commas, and without blanks at the ends. HAMi's annotations
separate names by commas, so a comma means that a list was pasted as one name."""


class TypesRule(Section):
    """Which models of cards may be used; set at least one of allow and deny."""

    allow: TypeNames = ()
    """Only cards whose model name contains one of these, in upper or lower case (A100 means every model of it)."""
    deny: TypeNames = ()
    """No cards whose model name contains one of these, in upper or lower case. Overrides allow."""

    rules = (
        Rule(
            cel="has(self.allow) || has(self.deny)",
            message="set allow, deny or both",
            holds=lambda it: bool(it.allow or it.deny),
        ),
        Rule(
            cel="!has(self.allow) || !has(self.deny)"
            " || !self.allow.exists(one, self.deny.exists(other, one.lowerAscii() == other.lowerAscii()))",
            message="allow and deny name the same model; remove it from one of them",
            holds=lambda it: {one.lower() for one in it.allow}.isdisjoint(one.lower() for one in it.deny),
            field="deny",
        ),
    )


def _without_blanks(policy: str) -> str:
    """Remove blanks around the words of a list."""
    return ",".join(policy_words(policy))


def _is_device_policy(policy: str) -> bool:
    return policy in STRATEGIES or all(word in DEVICE_POLICIES for word in policy_words(policy))


class ApartFrom(Section):
    """The pods that share no card with each other."""

    match_label_keys: Annotated[
        tuple[
            Annotated[
                str,
                Field(min_length=1, max_length=317),
                qualified_name("must be the key of a label of pods, such as app"),
            ],
            ...,
        ],
        Field(min_length=1, max_length=8),
        Unique(),
    ]
    """Pods of a namespace that have the same values of all these labels share no card. Pods that lack one of the labels
    are not kept apart."""


class DevicesSection(Section):
    """How the cards of the node are chosen, and which cards may be used."""

    policy: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_without_blanks)] | None = None
    """The order in which cards are tried. binpack: the fullest first; spread: the emptiest first; mutex: only idle
    cards; numa: together on one NUMA node; topology-aware: like spread, but among the cards that fit those with the
    closest links to each other (a single card: the one whose links the others need least). These may be combined,
    separated by commas, the most important first. Or one of LeastAllocated and MostAllocated (as in Koordinator's
    DeviceShare), or bestFit (the card with the least left afterwards)."""
    order: Literal["NUMAFirst", "ScoreFirst"] | None = None
    """What binpack and spread compare first: the NUMA node of a card (as documented by HAMi), or its score (as HAMi
    since 2.10 does)."""
    weights: DeviceWeights | None = None
    """Weight of each dimension in HAMi's score of a card."""
    types: TypesRule | None = None
    """Which models of cards may be used."""
    exclusive: Annotated[bool, Field(strict=True)] | None = None
    """true: pods get idle cards for themselves. Cards that cannot be given to one pod alone are not used: NVIDIA cards
    in MIG pieces, cards whose compute is scaled to more or less than 100 percent, and cards of vendors without
    amounts in claims, if these cards take more than one pod."""
    topology: Literal["None", "Preferred"] | None = None
    """Preferred: among the cards that fit, a container gets those with the closest links to each other, or, if
    it needs one, the card whose links the others need least; the policy orders equal cards. The device plugin measures
    links (annotation hami.io/node-nvidia-score); without its values, nothing changes."""
    numa: Literal["None", "Required"] | None = None
    """Required: all cards of a container must be on one NUMA node, whatever their vendor."""
    modes: Annotated[tuple[Mode, ...], Field(min_length=1, max_length=3), Unique()] | None = None
    """The sharing modes that cards may be in: hami-core, mig, mps. A card without a mode counts as in every mode."""
    apart_from: ApartFrom | None = None
    """The pods that a card is not shared with, for example one replica per card: pods of the namespace with the same
    labels, whichever scheduler placed them."""

    rules = (
        Rule(
            cel="[has(self.policy), has(self.order), has(self.weights), has(self.types), has(self.exclusive),"
            " has(self.topology), has(self.numa), has(self.modes), has(self.apartFrom)].exists(set, set)",
            message="set at least one field, or remove devices",
            holds=any_field_is_set,
        ),
        Rule(
            cel=f"!has(self.policy) || self.policy.trim() in {[*STRATEGIES]}"
            f" || self.policy.split(',').all(word, word.trim() in {[*DEVICE_POLICIES]})",
            message="policy must be LeastAllocated, MostAllocated, bestFit, or one or more of binpack, spread, mutex,"
            " numa and topology-aware, separated by commas",
            holds=lambda it: it.policy is None or _is_device_policy(it.policy),
            field="policy",
        ),
        Rule(
            cel="!has(self.policy) || self.policy.split(',').all(word,"
            " self.policy.split(',').exists_one(other, other.trim() == word.trim()))",
            message="policy names a word twice; remove one",
            holds=lambda it: it.policy is None or len(set(policy_words(it.policy))) == len(policy_words(it.policy)),
            field="policy",
        ),
        Rule(
            cel=f"!has(self.weights) || !has(self.policy) || !(self.policy.trim() in {[*STRATEGIES]})",
            message="weights are of HAMi's score, which policies LeastAllocated, MostAllocated and bestFit do not use;"
            " remove weights or choose another policy",
            holds=lambda it: it.weights is None or it.policy not in STRATEGIES,
            field="weights",
        ),
    )


# --------------------------------------------------------------------------------------------------- other sections


class DefaultsSection(Section):
    """Amounts for containers that ask for cards without naming an amount; set at least one of memory and cores."""

    memory: Memory | None = None
    """Memory of each card, as a quantity (4Gi) between 1Mi and 1Pi."""
    cores: Annotated[int, Field(strict=True, ge=0, le=100)] | None = None
    """Compute of each card, in percent; rounded up where a vendor counts in other units. Has no effect where compute
    comes with memory or with whole cards."""

    rules = (
        Rule(
            cel="has(self.memory) || has(self.cores)",
            message="set memory, cores or both",
            holds=any_field_is_set,
        ),
    )


class LimitsSection(Section):
    """Upper limits for a pod, over all its cards; set at least one."""

    memory_per_pod: Memory | None = None
    """Memory, as a quantity (24Gi) between 1Mi and 1Pi. The claimed amount counts, even if the piece of a card that
    holds it is larger. A container that names no memory counts as using all memory of its cards."""
    cores_per_pod: Annotated[int, Field(strict=True, ge=0, le=MOST)] | None = None
    """Compute in percent of one card: two cards with 50 each are 100. A container that asks for no cores may use all of
    a card, and counts 100 for each."""
    devices_per_pod: Annotated[int, Field(strict=True, ge=0, le=MOST)] | None = None
    """Number of cards or shares of cards."""
    exclusive_cards_per_pod: Annotated[int, Field(strict=True, ge=0, le=MOST)] | None = None
    """Number of cards that a pod gets for itself: cards of which it asks for all compute or all memory (as a container
    that names no memory does), and all its cards if a policy says exclusive or the order of cards is mutex. 0 allows
    none."""

    rules = (
        Rule(
            cel="has(self.memoryPerPod) || has(self.coresPerPod) || has(self.devicesPerPod)"
            " || has(self.exclusiveCardsPerPod)",
            message="set at least one of memoryPerPod, coresPerPod, devicesPerPod and exclusiveCardsPerPod",
            holds=any_field_is_set,
        ),
    )


class PodOverrides(Section):
    """The annotations by which pods may override this policy."""

    allow: Annotated[tuple[Override, ...], Field(max_length=7), Unique()]
    """Annotations of a pod that override this policy: nodePolicy (hami.io/node-scheduler-policy), devicePolicy
    (hami.io/gpu-scheduler-policy, metax-tech.com/sgpu-topology-aware), deviceWeights (hami.io/device-scoring-weights),
    deviceTypes and deviceUUIDs (the vendor's use- and nouse- annotations), mode (nvidia.com/vgpu-mode,
    huawei.com/vnpu-mode, metax-tech.com/sgpu-app-class and sgpu-qos-policy), numa (nvidia.com/numa-bind). A pod waits
    if it has an annotation that is not allowed but that its node would follow anyway: those of Huawei and MetaX under
    mode. An empty list allows none. Without podOverrides, all are allowed."""
