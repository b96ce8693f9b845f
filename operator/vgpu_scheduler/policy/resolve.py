"""Resolves the policy of a pod, from its annotations, the policy resources that select it, and the settings.

Each section comes from the highest-ranked policy that sets it: cluster policies that enforce it come first, then
namespaced policies, then priority, then name. An enforced section also overrides the pod's annotations. The limits,
types, ``exclusive``, ``apartFrom``, node selector and overrides of matching *cluster* policies hold in addition: the
tightest wins, so a tenant can tighten restrictions but never lift them. Preemption comes from cluster policies alone;
a tenant can only tighten it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from vgpu_scheduler.allocators import CardChoice, CardLimits
from vgpu_scheduler.kube import LabelSelector, Pod
from vgpu_scheduler.model import (
    NO_DEFAULTS,
    BoundedCache,
    ClaimDefaults,
    PendingEvents,
    TopologyConstraint,
    bytes_of,
    internal_error,
)
from vgpu_scheduler.policy.annotations import OVERRIDES, PolicyError, pod_annotation_policy
from vgpu_scheduler.policy.catalogue import CandidatePolicies, Catalogue, PolicyKey, key_of, title
from vgpu_scheduler.policy.defaults import PolicyDefaults
from vgpu_scheduler.policy.groups import NO_GROUP_RULES, GroupRules, group_rules
from vgpu_scheduler.policy.models import ENFORCEABLE, PolicyResource
from vgpu_scheduler.policy.not_ready import PolicyNotReady, PolicyNotReadyType
from vgpu_scheduler.policy.preemption import PROTECTED, preemption_rules
from vgpu_scheduler.policy.resolved import (
    NO_POD_LIMITS,
    POD,
    SETTINGS,
    EffectivePolicy,
    PodLimits,
    UpperBound,
    overruled_by,
    shown_titles,
)
from vgpu_scheduler.policy.translate import NodeRule, card_choice, node_rule, together
from vgpu_scheduler.scorers import HamiScorer, ImageLocalityScorer, NodePolicy, WeightedScorer

_MOST_BYTES = 8 * 2**20
"""The most memory for cached resolutions of all namespaces, and as much again for their numbers."""

_TIGHTENING = frozenset({"devices", "nodeSelector", "limits", "podOverrides"})
"""Sections whose values in cluster policies always hold, even if another policy ranks higher."""


@dataclass(slots=True)
class _Draft:
    """A resolution under construction; the sources of a section are in order of importance."""

    nodes: NodeRule
    choice: CardChoice
    sources: dict[str, list[str]]
    order_by: str
    """The source of the order of cards."""
    restricted_by: list[str] = field(default_factory=list)
    """The policies that restrict the cards, whichever policy orders them."""
    warnings: list[str] = field(default_factory=list)
    defaults: ClaimDefaults = NO_DEFAULTS
    apart: tuple[tuple[str, ...], ...] = ()
    limits: PodLimits = NO_POD_LIMITS
    together: TopologyConstraint | None = None
    groups: GroupRules = NO_GROUP_RULES
    node_selectors: list[LabelSelector] = field(default_factory=list)
    overrides: frozenset[str] | None = None
    enforced: dict[str, str] = field(default_factory=dict)
    """The policy that enforces each section."""

    def came_from(self, section: str, source: str) -> None:
        """Note a source of a section."""
        known = self.sources.setdefault(section, [])
        if source not in known:
            known.append(source)


class _Memo(NamedTuple):
    """A cached resolution, valid as long as the candidates of its namespace stay the same."""

    candidates: CandidatePolicies
    resolved: EffectivePolicy


class Policies:
    """Resolves the policy of a pod.

    Parameters
    ----------
    defaults
        The part of the settings.
    pending_events
        Collects for whose pods other policies may now be in force; None to collect nothing.

    Attributes
    ----------
    catalogue
        The policy resources and namespaces; later resolutions follow its changes.
    read_arguments
        Parses the arguments of Volcano's binpack plugin in a policy.
    """

    pod_annotations = tuple(OVERRIDES.values())
    """The annotations of a pod that its policy depends on."""

    def __init__(self, defaults: PolicyDefaults, pending_events: PendingEvents | None = None) -> None:
        self.catalogue = Catalogue(PendingEvents() if pending_events is None else pending_events)
        self.read_arguments = defaults.read_arguments
        self._defaults = defaults
        self._memos: BoundedCache[tuple[str | None, ...], _Memo] = BoundedCache(_MOST_BYTES)
        self._numbers: BoundedCache[EffectivePolicy, tuple[int, int]] = BoundedCache(_MOST_BYTES)
        self._last_number = 0

    def resolve(self, pod: Pod) -> EffectivePolicy:
        """Return the policy in force for a pod.

        Pods of a namespace share a resolution if they agree in their policy annotations and in the labels that a
        selector tests.
        """
        candidates = self.catalogue.candidates(pod.namespace)
        labels, annotations = pod.labels, pod.annotations
        key = (pod.namespace, *map(labels.get, candidates.label_keys), *map(annotations.get, self.pod_annotations))
        memo = self._memos.get(key)
        if memo is not None and memo.candidates is candidates:
            return memo.resolved
        resolved, size = self._numbered(self._resolve_safely(candidates, labels, annotations))
        self._memos.put(key, _Memo(candidates, resolved), bytes_of(key) + size)
        return resolved

    def claim_defaults(self, pod: Pod) -> ClaimDefaults | None:
        """Return what policies add to the pod's claims; None if it cannot be known yet."""
        found = self.resolve(pod)
        return None if found.refusal else found.defaults

    def _resolve_safely(
        self, candidates: CandidatePolicies, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> EffectivePolicy:
        """Resolve a policy; an error becomes a refusal, so that one bad policy does not stop other pods."""
        try:
            return self._resolve(candidates, labels, annotations)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is these pods'
            refusal = PolicyNotReady(PolicyNotReadyType.INTERNAL_ERROR, why=internal_error(error))
            return EffectivePolicy(refusal=refusal, preemption=PROTECTED)

    def _numbered(self, resolved: EffectivePolicy) -> tuple[EffectivePolicy, int]:
        """Give equal resolutions equal numbers, so that equivalence classes survive changes that do not affect them.

        Numbers stay unique: a resolution that was dropped from the cache gets a new number.

        Returns
        -------
        tuple
            The resolution with its number, and its approximate size in bytes.
        """
        known = self._numbers.get(resolved)
        if known is None:
            self._last_number += 1
            known = self._last_number, bytes_of(resolved)
            self._numbers.put(resolved, known, known[1])
        number, size = known
        return replace(resolved, number=number), size

    def _resolve(
        self, candidates: CandidatePolicies, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> EffectivePolicy:
        if candidates.undecided is not None:
            refusal = PolicyNotReady(PolicyNotReadyType.NAMESPACE_UNKNOWN, title(candidates.undecided))
            return EffectivePolicy(refusal=refusal, preemption=PROTECTED)
        matching = candidates.matching(labels)
        preemption, preemption_by = preemption_rules(matching)
        blocker = _blocker(matching)
        if blocker is not None:
            refusal = PolicyNotReady(PolicyNotReadyType.NOT_UNDERSTOOD, title(blocker), blocker.error)
            return EffectivePolicy(refusal=refusal, preemption=preemption)
        matching = [policy for policy in matching if policy.spec is not None]
        draft = self._from_policies(matching)
        for policy in preemption_by:
            draft.came_from("preemption", title(policy))
        try:
            self._apply_annotations(draft, annotations)
        except PolicyError as error:
            refusal = PolicyNotReady(PolicyNotReadyType.ANNOTATIONS, why=str(error))
            return EffectivePolicy(refusal=refusal, preemption=preemption)
        draft.sources["devices"] = list(dict.fromkeys([draft.order_by, *draft.restricted_by]))
        return EffectivePolicy(
            scorers=draft.nodes.scorers,
            choice=draft.choice,
            defaults=draft.defaults,
            apart=draft.apart,
            limits=draft.limits,
            node_selectors=tuple(draft.node_selectors),
            managed=self._defaults.managed,
            reads_images=any(isinstance(entry.scorer, ImageLocalityScorer) for entry in draft.nodes.scorers),
            device_weight=self._defaults.device_weight,
            together=draft.together,
            groups=draft.groups,
            preemption=preemption,
            overrides=draft.overrides,
            enforced=tuple(sorted(draft.enforced.items())),
            sources=tuple((section, tuple(sources)) for section, sources in sorted(draft.sources.items())),
            warnings=tuple(draft.warnings),
            policies=_named(matching, draft.sources),
            strict=self._defaults.strict_annotations,
        )

    # Policies --------------------------------------------------------------------------------------------------------

    def _from_policies(self, matching: Sequence[PolicyResource]) -> _Draft:
        nodes, nodes_by = self._nodes(matching)
        enforced = {section: title(policy) for section in ENFORCEABLE for policy in _enforcing(matching, section)[:1]}
        # A namespaced policy's node scorers must not imply an order of cards in an enforced devices section.
        implying = [p for p in matching if not p.namespace] if "devices" in enforced else matching
        choice, devices_by = self._cards(matching, *(self._nodes(implying)))
        draft = _Draft(nodes, choice, {"nodes": [nodes_by]}, devices_by, enforced=enforced)
        for policy, section in holding(matching, "nodes")[:1]:
            draft.together = together(section, title(policy))
        for policy, section in holding(matching, "defaults")[:1]:
            draft.defaults = ClaimDefaults(section.memory, section.cores)
            draft.came_from("defaults", title(policy))
        for policy, section in holding(matching, "groups")[:1]:
            draft.groups = group_rules(section)
            draft.came_from("groups", title(policy))
        _restrict_cards(matching, draft)
        for policy, section in holding(matching, "node_selector"):
            if section not in draft.node_selectors:
                draft.node_selectors.append(section)
            draft.came_from("nodeSelector", title(policy))
        _limit_pods(matching, draft)
        for policy, section in holding(matching, "pod_overrides"):
            allowed = frozenset(section.allow)
            draft.overrides = allowed if draft.overrides is None else draft.overrides & allowed
            draft.came_from("podOverrides", title(policy))
        return draft

    def _nodes(self, matching: Sequence[PolicyResource]) -> tuple[NodeRule, str]:
        for policy, section in holding(matching, "nodes")[:1]:
            return node_rule(section, self.read_arguments), title(policy)
        return NodeRule((WeightedScorer(HamiScorer(NodePolicy(self._defaults.node_policy))),)), SETTINGS

    def _cards(self, matching: Sequence[PolicyResource], nodes: NodeRule, nodes_by: str) -> tuple[CardChoice, str]:
        """Return the order of cards with its source: the devices section, else the node scorers, else the settings."""
        default, default_by = CardChoice(self._defaults.device_policy, self._defaults.order), SETTINGS
        implied = replace(default, device_share_order=nodes.device_share_order, best_fit=nodes.best_fit)
        if implied != default:
            default_by = nodes_by
        for policy, section in holding(matching, "devices")[:1]:
            orders = section.policy is not None or section.order is not None or section.weights is not None
            return card_choice(section, default, implied, nodes), title(policy) if orders else default_by
        return implied, default_by

    # Annotations -----------------------------------------------------------------------------------------------------

    def _apply_annotations(self, draft: _Draft, annotations: Mapping[str, str]) -> None:
        given = {key: annotations[key] for key in self.pod_annotations if key in annotations}
        overrides_of, enforced = shown_titles(draft.sources.get("podOverrides", ())), tuple(draft.enforced.items())
        denied = {
            key: why
            for word, key in OVERRIDES.items()
            if (why := overruled_by(word, draft.overrides, enforced, overrides_of))
        }
        draft.warnings += [overruled(key, denied[key]) for key in given if key in denied]
        followed = {key: value for key, value in given.items() if key not in denied}
        words = pod_annotation_policy(followed, strict=self._defaults.strict_annotations)
        if words.node_policy is not None:
            draft.nodes = NodeRule((WeightedScorer(HamiScorer(words.node_policy)),))
            draft.sources["nodes"] = [POD]
        if words.device_policy is not None:
            draft.choice = replace(draft.choice, policy=words.device_policy, device_share_order=None, best_fit=False)
            draft.order_by = POD
        if words.device_weights is not None:
            draft.choice = replace(draft.choice, weights=words.device_weights)
        draft.warnings += words.warnings


def overruled(annotation: str, why: str) -> str:
    """Return the warning about an annotation that policies overrule."""
    return f"annotation {annotation} is not followed: {why}"


def holding(matching: Sequence[PolicyResource], section: str) -> list[tuple[PolicyResource, Any]]:
    """Return the values of a section that hold: the winner's first, then those of all further cluster policies.

    Only the restrictions of the further policies count; the caller knows which fields these are. If a policy enforces
    the section, the policy that would win otherwise is among the further ones.
    """
    found = [(policy, value) for policy in matching if (value := getattr(policy.spec, section)) is not None]
    held = found[:1] + [(policy, value) for policy, value in found[1:] if not policy.namespace]
    for policy in _enforcing(matching, section)[:1]:
        held.sort(key=lambda entry: entry[0] is not policy)  # stable: the others keep their order
    return held


def _enforcing(matching: Sequence[PolicyResource], section: str) -> list[PolicyResource]:
    """Return the policies that enforce a section, highest-ranked first."""
    return [policy for policy in matching if section in policy.enforced]


def _blocker(matching: Sequence[PolicyResource]) -> PolicyResource | None:
    """Return a policy with errors that would win a section or always holds in one; None if there is none."""
    return next((policy for policy in matching if policy.spec is None and _matters(policy, matching)), None)


def _matters(policy: PolicyResource, matching: Sequence[PolicyResource]) -> bool:
    if not policy.namespace and policy.sections & _TIGHTENING:
        return True
    for section in policy.sections:
        before = matching[: matching.index(policy)]
        if section == "preemption":  # namespaced policies only tighten it, whatever their rank
            before = [other for other in before if not other.namespace]
        first = _enforcing(before, section)
        if section not in policy.enforced:
            first = _enforcing(matching, section) or [other for other in before if section in other.sections]
        if not first:
            return True
    return False


def _restrict_cards(matching: Sequence[PolicyResource], draft: _Draft) -> None:
    limits, holders = CardLimits(), holding(matching, "devices")
    for number, (policy, section) in enumerate(holders):
        restricting = section.types is not None or bool(section.exclusive) or section.apart_from is not None
        if section.apart_from is not None:
            draft.apart = tuple(sorted({*draft.apart, tuple(sorted(section.apart_from.match_label_keys))}))
        if section.types is not None:
            allow = (*limits.allow, section.types.allow) if section.types.allow else limits.allow
            deny = tuple(sorted({*limits.deny, *section.types.deny}))
            limits = replace(limits, allow=tuple(sorted(set(allow))), deny=deny)
        if section.exclusive:
            limits = replace(limits, exclusive=True)
            draft.defaults = replace(draft.defaults, exclusive=True)
        if number == 0:
            if section.modes:
                limits = replace(limits, modes=(tuple(section.modes),))
            draft.choice = replace(
                draft.choice, numa_bind=section.numa == "Required", topology=section.topology == "Preferred"
            )
            restricting = restricting or bool(section.modes) or section.numa == "Required"
        if restricting:
            draft.restricted_by.append(title(policy))
    draft.choice = replace(draft.choice, limits=limits, idle_only=limits.exclusive)


def _limit_pods(matching: Sequence[PolicyResource], draft: _Draft) -> None:
    bounds: dict[str, UpperBound] = {}
    for policy, section in holding(matching, "limits"):
        asked = {
            "memory": section.memory_per_pod,
            "cores": section.cores_per_pod,
            "devices": section.devices_per_pod,
            "exclusive_cards": section.exclusive_cards_per_pod,
        }
        for name, most in asked.items():
            if most is not None and (name not in bounds or most < bounds[name].most):
                bounds[name] = UpperBound(most, title(policy))
    draft.limits = PodLimits(**bounds)
    for bound in bounds.values():
        draft.came_from("limits", bound.source)


def _named(matching: Sequence[PolicyResource], sources: Mapping[str, Sequence[str]]) -> tuple[PolicyKey, ...]:
    """Return the policies that are a source of some section."""
    named = {source for section in sources.values() for source in section}
    return tuple(key_of(policy) for policy in matching if title(policy) in named)
