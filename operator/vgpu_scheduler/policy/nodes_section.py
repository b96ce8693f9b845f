"""The section ``nodes`` of a policy: how nodes are scored.

The docstrings of the fields are printed by ``kubectl explain``, and the reference in ``docs`` is generated from them.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from vgpu_scheduler.policy.rules import (
    MOST,
    Rule,
    Scalar,
    Section,
    Unique,
    Weight,
    frozen_map,
    qualified_keys,
    qualified_name,
)

Policy = Literal["binpack", "spread"]
ScorerName = Literal[
    "hami",
    "binpack",
    "deviceshare",
    "fragmentation",
    "leastAllocated",
    "mostAllocated",
    "requestedToCapacityRatio",
    "balancedAllocation",
    "imageLocality",
]
BY_RESOURCES: Final = (
    "binpack",
    "leastAllocated",
    "mostAllocated",
    "requestedToCapacityRatio",
    "balancedAllocation",
)
"""The scorers with a weight per resource."""
Prices = Literal["None", "Auto"]
Strategy = Literal["LeastAllocated", "MostAllocated"]
TogetherMode = Literal["Required", "Preferred"]


class StrategyResource(Section):
    """A device resource and its weight."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=317),
        qualified_name("must be the name of a resource, such as koordinator.sh/gpu-core"),
    ]
    """The resource, for example koordinator.sh/gpu-memory-ratio or koordinator.sh/gpu-core."""
    weight: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    """Weight of the resource relative to the others."""


class ScoringStrategy(Section):
    """Koordinator's scoringStrategy."""

    type: Strategy = "LeastAllocated"
    """LeastAllocated prefers nodes and cards with much left, MostAllocated those with little left."""
    resources: Annotated[tuple[StrategyResource, ...], Field(min_length=1, max_length=16), Unique("name")] | None = None
    """The device resources that count, with their weights. Resources that are not listed do not count."""


class ShapePoint(Section):
    """A point of the function of requestedToCapacityRatio."""

    utilization: Annotated[int, Field(strict=True, ge=0, le=100)]
    """Allocated share of a resource once the pod is placed, in percent."""
    score: Annotated[int, Field(strict=True, ge=0, le=10)]
    """Score at this utilization, 0 to 10."""


class ScorerEntry(Section):
    """A scorer and its weight."""

    name: ScorerName
    """The scorer: hami (the load of the node's cards, as HAMi scores nodes), binpack (Volcano's plugin of this name),
    deviceshare (Koordinator's), fragmentation (prefers nodes whose remainder stays most usable); or one of
    kube-scheduler's: leastAllocated, mostAllocated and requestedToCapacityRatio (strategies of NodeResourcesFit),
    balancedAllocation (NodeResourcesBalancedAllocation), imageLocality (nodes that have the pod's images)."""
    weight: Annotated[int, Field(strict=True, ge=-MOST, le=MOST)] | None = None
    """Weight of this scorer relative to the others. 1 if absent; 0 switches the scorer off; a value below 0 is for
    binpack only and inverts its order, as Volcano's binpack.weight does."""
    policy: Policy | None = None
    """For hami only: binpack fills the fullest node first, spread takes the emptiest. binpack if absent."""
    resources: (
        Annotated[
            tuple[tuple[str, int], ...],
            frozen_map(Weight, most=32),
            qualified_keys("keys must be resource names, such as cpu or nvidia.com/gpumem"),
        ]
        | None
    ) = None
    """For binpack, leastAllocated, mostAllocated, requestedToCapacityRatio and balancedAllocation: the resources that
    count and their weights (for balancedAllocation all count the same). cpu and memory have weight 1 if absent; 0
    leaves a resource out."""
    arguments: Annotated[tuple[tuple[str, int | str], ...], frozen_map(Scalar, most=40)] | None = None
    """For binpack only, instead of resources: the arguments of Volcano's plugin as in its configuration, with
    the keys binpack.weight, binpack.cpu, binpack.memory, binpack.resources (names separated by commas) and
    binpack.resources.<name>. As in Volcano, values of the wrong type are ignored with a warning."""
    scoring_strategy: ScoringStrategy | None = None
    """For deviceshare only: whether much or little left is preferred, and which resources count. Also orders cards."""
    shape: Annotated[tuple[ShapePoint, ...], Field(min_length=1, max_length=16), Unique("utilization")] | None = None
    """For requestedToCapacityRatio only: the score of an allocated share, as points with linear interpolation between
    them. If absent, 0 percent scores 0 and 100 percent scores 10, which packs pods."""

    prices: Prices | None = None
    """For fragmentation only. Auto learns prices of card remainders, rare models and nodes with several idle cards from
    the bound pods, and prefers the node where the pod costs least; until enough bound pods use a vendor's cards, its
    cards are scored as with None. None scores nodes by their own remainders. None if absent."""

    rules = (
        Rule(
            cel="self.name == 'fragmentation' || !has(self.prices)",
            message="prices belongs to the scorer fragmentation; remove it, or name the scorer fragmentation",
            holds=lambda it: it.name == "fragmentation" or it.prices is None,
            field="prices",
        ),
        Rule(
            cel="self.name == 'hami' || !has(self.policy)",
            message="policy belongs to the scorer hami; remove it, or name the scorer hami",
            holds=lambda it: it.name == "hami" or it.policy is None,
            field="policy",
        ),
        Rule(
            cel=f"self.name in {list(BY_RESOURCES)} || !has(self.resources)",
            message="resources belongs to the scorers that weigh resources, such as binpack; remove it (deviceshare has"
            " scoringStrategy.resources)",
            holds=lambda it: it.name in BY_RESOURCES or it.resources is None,
            field="resources",
        ),
        Rule(
            cel="self.name == 'requestedToCapacityRatio' || !has(self.shape)",
            message="shape belongs to the scorer requestedToCapacityRatio; remove it",
            holds=lambda it: it.name == "requestedToCapacityRatio" or it.shape is None,
            field="shape",
        ),
        Rule(
            cel="self.name == 'binpack' || !has(self.arguments)",
            message="arguments belongs to the scorer binpack; remove it",
            holds=lambda it: it.name == "binpack" or it.arguments is None,
            field="arguments",
        ),
        Rule(
            cel="self.name == 'deviceshare' || !has(self.scoringStrategy)",
            message="scoringStrategy belongs to the scorer deviceshare; remove it",
            holds=lambda it: it.name == "deviceshare" or it.scoring_strategy is None,
            field="scoringStrategy",
        ),
        Rule(
            cel="!has(self.arguments) || !has(self.resources)",
            message="set resources or arguments, not both: arguments has its own weights of resources",
            holds=lambda it: it.arguments is None or it.resources is None,
            field="arguments",
        ),
        Rule(
            cel="!has(self.weight) || self.weight >= 0 || self.name == 'binpack'",
            message="a weight below 0 is for the scorer binpack only; to turn the order around, use policy (hami)"
            " or scoringStrategy.type (deviceshare)",
            holds=lambda it: it.weight is None or it.weight >= 0 or it.name == "binpack",
            field="weight",
        ),
        Rule(
            cel="!has(self.weight) || !has(self.arguments) || !('binpack.weight' in self.arguments)",
            message="set weight or arguments['binpack.weight'], not both",
            holds=lambda it: it.weight is None or "binpack.weight" not in dict(it.arguments or ()),
            field="weight",
        ),
        Rule(
            cel="!has(self.arguments) || self.arguments.all(key, key.startsWith('binpack.') && key.size() <= 512)",
            message="keys of arguments must start with binpack., as in Volcano's configuration, and have at most 512"
            " characters",
            holds=lambda it: all(key.startswith("binpack.") and len(key) <= 512 for key, _ in it.arguments or ()),
            field="arguments",
        ),
        Rule(
            cel="!has(self.arguments) || self.arguments.all(key, type(self.arguments[key]) != int"
            f" || (self.arguments[key] >= -{MOST} && self.arguments[key] <= {MOST}))",
            message=f"weights in arguments must be between -{MOST} and {MOST}",
            holds=lambda it: all(isinstance(value, str) or abs(value) <= MOST for _, value in it.arguments or ()),
            field="arguments",
        ),
    )


class Together(Section):
    """How close to each other the pods of a group are placed."""

    key: Annotated[
        str,
        Field(min_length=1, max_length=317),
        qualified_name("must be the key of a label of nodes, such as topology.kubernetes.io/zone"),
    ]
    """The label of nodes whose equal values mark nodes close to each other, for example nvidia.com/gpu.clique."""
    mode: TogetherMode = "Preferred"
    """What happens to a group if the nodes of no single label value have room for it: Preferred places it elsewhere,
    Required makes it wait."""


class NodesSection(Section):
    """How the node is chosen; set exactly one of policy and scorers."""

    policy: Policy | None = None
    """The short form: binpack fills one node before the next, spread takes the emptiest node. It is the same as the
    scorer hami alone with this policy."""
    scorers: Annotated[tuple[ScorerEntry, ...], Field(min_length=1, max_length=8), Unique("name")] | None = None
    """The long form: the scorers whose weighted scores are added; the node with the highest sum wins."""
    together: Together | None = None
    """How close to each other the pods of a group are placed; no effect on pods without a group. A group's own
    constraint applies as well."""

    rules = (
        Rule(
            cel="has(self.policy) != has(self.scorers)",
            message="set exactly one of policy (the short form) and scorers (the long form)",
            holds=lambda it: (it.policy is None) != (it.scorers is None),
        ),
    )
