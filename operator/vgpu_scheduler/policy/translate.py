"""Translates the sections of a policy resource into the values that other rooms use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vgpu_scheduler.allocators import CardChoice, ShareOrder, Strategy, Weights
from vgpu_scheduler.model import OrderKind, TopologyConstraint
from vgpu_scheduler.policy.nodes_section import NodesSection, ScorerEntry
from vgpu_scheduler.policy.spec import DevicesSection
from vgpu_scheduler.scorers import (
    BIN_PACKING,
    DEFAULT_WEIGHTS,
    DOCUMENTED_SHARE_WEIGHTS,
    AllocationRule,
    AllocationScorer,
    BinpackArguments,
    BinpackScorer,
    DeviceShareScorer,
    FragmentationScorer,
    HamiScorer,
    ImageLocalityScorer,
    NodePolicy,
    NodeScorer,
    ReadBinpackArguments,
    WeightedScorer,
)

_STRATEGIES = {strategy.value: strategy for strategy in Strategy}


@dataclass(frozen=True, slots=True)
class NodeRule:
    """How nodes are scored, and the order of cards that this implies.

    Attributes
    ----------
    device_share_order
        The order of cards of ``deviceshare``, which has one strategy for nodes and cards.
    best_fit
        Whether ``fragmentation`` is in force, which implies best fit for cards.
    warnings
        Warnings about arguments that Volcano would ignore, too.
    """

    scorers: tuple[WeightedScorer, ...]
    device_share_order: ShareOrder | None = None
    best_fit: bool = False
    warnings: tuple[str, ...] = ()


def unread(arguments: Mapping[str, object]) -> BinpackArguments:
    """Return the default weights, with a warning: used where plugin arguments cannot be parsed."""
    given = ", ".join(sorted(arguments))
    return BinpackArguments(1, DEFAULT_WEIGHTS, (f"{given}: arguments of plugins are ignored here",))


def node_rule(section: NodesSection, read: ReadBinpackArguments) -> NodeRule:
    """Translate ``nodes``; ``read`` parses plugin arguments."""
    if section.scorers is None:
        return NodeRule((WeightedScorer(HamiScorer(NodePolicy(section.policy))),))
    rule = NodeRule(())
    for entry in section.scorers:
        rule = _with_scorer(rule, entry, read)
    return rule


def _with_scorer(rule: NodeRule, entry: ScorerEntry, read: ReadBinpackArguments) -> NodeRule:
    weight = 1 if entry.weight is None else entry.weight
    if entry.name == "binpack":
        if entry.arguments is None:
            scorer = BinpackScorer(tuple(entry.resources or ()))
        else:
            parsed = read(dict(entry.arguments))
            scorer = BinpackScorer(parsed.weights)
            weight = parsed.weight if entry.weight is None else entry.weight
            rule = replace(rule, warnings=(*rule.warnings, *parsed.warnings))
        return replace(rule, scorers=(*rule.scorers, WeightedScorer(scorer, weight)))
    if entry.name == "deviceshare":
        order = device_share_order(entry)
        scorers = (*rule.scorers, WeightedScorer(DeviceShareScorer(order.strategy, order.weights), weight))
        return replace(rule, scorers=scorers, device_share_order=order if weight else rule.device_share_order)
    if entry.name == "fragmentation":
        scorers = (*rule.scorers, WeightedScorer(FragmentationScorer(learned=entry.prices == "Auto"), weight))
        return replace(rule, scorers=scorers, best_fit=rule.best_fit or weight != 0)
    return replace(rule, scorers=(*rule.scorers, WeightedScorer(_plain_scorer(entry), weight)))


def _plain_scorer(entry: ScorerEntry) -> NodeScorer:
    """Return a scorer that implies no order of cards."""
    if entry.name == "hami":
        return HamiScorer(NodePolicy(entry.policy or NodePolicy.BINPACK.value))
    if entry.name == "imageLocality":
        return ImageLocalityScorer()
    shape = BIN_PACKING if entry.shape is None else tuple((point.utilization, point.score) for point in entry.shape)
    return AllocationScorer(AllocationRule(entry.name), tuple(entry.resources or ()), shape)


def device_share_order(entry: ScorerEntry) -> ShareOrder:
    """Return the strategy and weights of a ``deviceshare`` entry, with documented defaults."""
    strategy = entry.scoring_strategy
    if strategy is None:
        return ShareOrder(Strategy.LEAST_ALLOCATED, DOCUMENTED_SHARE_WEIGHTS)
    weights: Weights = DOCUMENTED_SHARE_WEIGHTS
    if strategy.resources is not None:
        weights = tuple(sorted((resource.name, resource.weight) for resource in strategy.resources))
    return ShareOrder(_STRATEGIES[strategy.type], weights)


def card_choice(section: DevicesSection, default: CardChoice, implied: CardChoice, nodes: NodeRule) -> CardChoice:
    """Translate the order of cards in ``devices``.

    Parameters
    ----------
    section
        The section.
    default
        The settings' choice.
    implied
        The choice implied by the node scorers; used if the section sets neither a policy nor weights, which belong to
        HAMi's score.
    nodes
        The node scorers.
    """
    choice = implied if section.policy is None and section.weights is None else default
    if section.policy in _STRATEGIES:
        weights = nodes.device_share_order.weights if nodes.device_share_order is not None else DOCUMENTED_SHARE_WEIGHTS
        choice = replace(choice, device_share_order=ShareOrder(_STRATEGIES[section.policy], weights))
    elif section.policy is not None:
        choice = replace(choice, policy=section.policy)
    if section.order is not None:
        choice = replace(choice, order=OrderKind(section.order))
    if section.weights is not None:
        weights_of = section.weights
        choice = replace(choice, weights=(float(weights_of.slots), float(weights_of.memory), float(weights_of.cores)))
    return choice


def weighed_resources(section: NodesSection, read: ReadBinpackArguments) -> tuple[str, ...]:
    """Return the resources that the section weighs explicitly, sorted."""
    names: set[str] = set()
    for entry in section.scorers or ():
        names.update(name for name, _ in entry.resources or ())
        if entry.arguments is not None:
            names.update(name for name, _ in read(dict(entry.arguments)).weights)
        if entry.scoring_strategy is not None:
            names.update(resource.name for resource in entry.scoring_strategy.resources or ())
    return tuple(sorted(names))


def together(section: NodesSection, policy: str) -> TopologyConstraint | None:
    """Return a policy's topology constraint for the pods of a group; None if it has none."""
    said = section.together
    return (
        None if said is None else TopologyConstraint(said.key, said.mode == "Required", f"nodes.together of {policy}")
    )


def describe_nodes(section: NodesSection, read: ReadBinpackArguments) -> str:
    """Summarise the section in a few words: ``binpack``, ``fragmentation x3 + binpack``."""
    near = "" if section.together is None else f", together by {section.together.key}"
    if section.scorers is None:
        return (section.policy or "") + near
    rule = node_rule(section, read)
    parts = [entry.scorer.name + (f" x{entry.weight}" if entry.weight != 1 else "") for entry in rule.scorers]
    return " + ".join(parts) + near


def describe_devices(section: DevicesSection) -> str:
    """Summarise the section in a few words: ``spread``, ``bestFit exclusive types``."""
    words = [section.policy or "", section.order or ""]
    words += ["exclusive"] if section.exclusive else []
    words += ["types"] if section.types is not None else []
    words += ["numa"] if section.numa == "Required" else []
    words += list(section.modes or ())
    words += [f"apart by {','.join(section.apart_from.match_label_keys)}"] if section.apart_from is not None else []
    return " ".join(word for word in words if word)
