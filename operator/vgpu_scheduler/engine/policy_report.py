"""The policies in effect for pods, and reports on policies: validity, conflicts, and unknown names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.kube import Namespace, Pod
from vgpu_scheduler.model import first_of, names_model
from vgpu_scheduler.policy import Policies, PolicyConditionType, PolicyKey, PolicyResource, key_of, translate
from vgpu_scheduler.policy.preemption import describe_preemption
from vgpu_scheduler.scorers import ReadBinpackArguments
from vgpu_scheduler.state import State

_ELSEWHERE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_MOST_NAMED = 5
"""Maximum number of names in a message."""
_LONGEST = 4096
"""Maximum length of a message in characters; policies may quote long texts."""


class PolicyReason(StrEnum):
    """The reasons of the conditions of policies; ``docs/runbook.md`` has a section for each."""

    ACCEPTED = "Accepted"
    INVALID = "Invalid"
    NO_CONFLICT = "NoConflict"
    SAME_RANK = "SameRank"
    NO_WARNINGS = "NoWarnings"
    UNKNOWN_RESOURCE = "UnknownResource"
    SCORER_OFF = "ScorerOff"
    IGNORED_ARGUMENT = "IgnoredArgument"
    LEFT_BY_LABELS = "LeftByLabels"
    UNKNOWN_CARD_TYPE = "UnknownCardType"
    SEVERAL = "Several"


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """One condition, without its times.

    Attributes
    ----------
    type
        ``Ready``, ``Conflicted`` or ``Warnings``.
    """

    type: str
    reason: PolicyReason
    message: str
    status: bool


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The report on one policy.

    Attributes
    ----------
    pods
        Number of pods, waiting or running, for which some section of it is in effect.
    nodes, devices, preemption
        Summaries for the printer columns.
    """

    policy: PolicyResource
    conditions: tuple[ConditionReport, ...]
    pods: int
    nodes: str
    devices: str
    preemption: str = ""


def report_policies(policies: Policies, state: State, dialects: Dialects, ours: frozenset[str]) -> list[PolicyReport]:
    """Report on every known policy.

    Parameters
    ----------
    policies, state, dialects
        The cluster's policies, state and dialects.
    ours
        The scheduler names whose pods count.
    """
    catalogue, read = policies.catalogue, policies.read_arguments
    counts = _count(policies, (pod for pod in state.pods() if pod.scheduler_name in ours and not pod.terminal))
    known = _Known.of(state, dialects)
    return [
        PolicyReport(
            policy=policy,
            conditions=(
                _ready(policy),
                _conflicted(catalogue.conflicts(key_of(policy))),
                _warnings(policy, known, read),
            ),
            pods=counts[key_of(policy)],
            nodes=translate.describe_nodes(policy.spec.nodes, read) if policy.spec and policy.spec.nodes else "",
            devices=translate.describe_devices(policy.spec.devices) if policy.spec and policy.spec.devices else "",
            preemption=describe_preemption(policy.spec.preemption) if policy.spec and policy.spec.preemption else "",
        )
        for policy in catalogue.all()
    ]


@dataclass(frozen=True, slots=True)
class _Known:
    """What policies may name: resources, and card models."""

    resources: frozenset[str]
    models: tuple[str, ...]

    @classmethod
    def of(cls, state: State, dialects: Dialects) -> _Known:
        counted = frozenset(name for dialect in dialects for name in dialect.inventory.device_resources)
        models = {model for matrix in state.matrices.values() for model in matrix.live_models()}
        return cls(frozenset(state.nodes.offered()) | counted | _ELSEWHERE, tuple(sorted(models)))


def _count(policies: Policies, pods: Iterable[Pod]) -> Counter[PolicyKey]:
    counts: Counter[PolicyKey] = Counter()
    by_resolution = Counter(policies.resolve(pod).policies for pod in pods)
    for keys, number in by_resolution.items():
        for key in keys:
            counts[key] += number
    return counts


def _ready(policy: PolicyResource) -> ConditionReport:
    if policy.error:
        return ConditionReport(
            PolicyConditionType.READY,
            PolicyReason.INVALID,
            f"{policy.error}. Pods to which it would apply wait.",
            status=False,
        )
    return ConditionReport(PolicyConditionType.READY, PolicyReason.ACCEPTED, "the policy is understood", status=True)


def _conflicted(others: Sequence[PolicyKey]) -> ConditionReport:
    if not others:
        return ConditionReport(
            PolicyConditionType.CONFLICTED,
            PolicyReason.NO_CONFLICT,
            "no other policy has both the same priority and a section in common",
            status=False,
        )
    names = first_of([name for _, _, name in others], _MOST_NAMED)
    message = f"same priority and a section in common with {names}: the names decide which one wins; set priorities"
    return ConditionReport(PolicyConditionType.CONFLICTED, PolicyReason.SAME_RANK, message, status=True)


def _warnings(policy: PolicyResource, known: _Known, read: ReadBinpackArguments) -> ConditionReport:
    found = _found(policy, known, read)
    if not found:
        return ConditionReport(
            PolicyConditionType.WARNINGS, PolicyReason.NO_WARNINGS, "everything that it names is known", status=False
        )
    reasons = sorted({reason for reason, _ in found})
    message = first_of([text for _, text in found], _MOST_NAMED, "; ")[:_LONGEST]
    return ConditionReport(
        PolicyConditionType.WARNINGS, reasons[0] if len(reasons) == 1 else PolicyReason.SEVERAL, message, status=True
    )


def _found(policy: PolicyResource, known: _Known, read: ReadBinpackArguments) -> list[tuple[PolicyReason, str]]:
    """Return the warnings as (reason, text)."""
    found: list[tuple[PolicyReason, str]] = []
    spec = policy.spec
    if spec is None:
        return found
    if policy.enforced and spec.selector is not None and spec.selector.requirements:
        left = (
            "spec.selector: pods can escape the enforced sections by changing their labels: select namespaces by "
            "spec.namespaceSelector"
        )
        found.append((PolicyReason.LEFT_BY_LABELS, left))
    if spec.nodes is not None:
        rule = translate.node_rule(spec.nodes, read)
        unknown = [name for name in translate.weighed_resources(spec.nodes, read) if name not in known.resources]
        if unknown:
            named = first_of(unknown, _MOST_NAMED)
            found.append((PolicyReason.UNKNOWN_RESOURCE, f"spec.nodes: no node offers {named}"))
        off = [entry.scorer.name for entry in rule.scorers if entry.weight == 0]
        if off:
            found.append((PolicyReason.SCORER_OFF, f"spec.nodes: weight 0 switches off {first_of(off, _MOST_NAMED)}"))
        found += [(PolicyReason.IGNORED_ARGUMENT, f"spec.nodes: {warning}") for warning in rule.warnings]
    if spec.devices is not None and spec.devices.types is not None:
        for field, parts in (("allow", spec.devices.types.allow), ("deny", spec.devices.types.deny)):
            unknown = [part for part in parts or () if not any(names_model(part, model) for model in known.models)]
            if unknown:
                named = first_of(unknown, _MOST_NAMED)
                found.append((PolicyReason.UNKNOWN_CARD_TYPE, f"spec.devices.types.{field}: no node has {named}"))
    return found


DecisionBasis = tuple[int | str | None, ...]
"""What a decision depends on beside the pod's spec and annotations: its policy, and the labels that claims read."""


class PolicyTracker:
    """Keeps policies and namespaces, and tells for which pods the effective policy changed since their decision.

    Parameters
    ----------
    classes
        Reads what pods claim, and under which policy.
    """

    def __init__(self, classes: EquivalenceClasses) -> None:
        self._classes = classes
        self._catalogue = classes.policies.catalogue
        self._state = classes.state
        self._dialects = classes.dialects
        self._decided_under: dict[str, DecisionBasis] = {}

    def observe(self, policy: PolicyResource) -> None:
        """Take in a policy resource; the next decision follows it."""
        self._catalogue.put(policy)

    def remove(self, policy: PolicyResource, version: int | None = None) -> None:
        """Note that a policy resource is gone, as of a version (by default its own)."""
        self._catalogue.remove(policy, version)

    def observe_namespace(self, namespace: Namespace) -> None:
        """Take in a namespace; cluster policies and inter-pod terms may select by its labels."""
        self._catalogue.put_namespace(namespace)
        self._count_in(namespace.name)

    def remove_namespace(self, namespace: Namespace, version: int | None = None) -> None:
        """Note that a namespace is gone, as of a version (by default its own)."""
        self._catalogue.remove_namespace(namespace, version)
        self._count_in(namespace.name)

    def _count_in(self, namespace: str) -> None:
        """Update the counts of a namespace's pods to its current labels."""
        known = self._catalogue.namespace(namespace)
        self._state.pending_events.events |= self._state.observe_namespace(namespace, known.labels if known else None)

    def report(self, ours: frozenset[str]) -> list[PolicyReport]:
        """Report on each policy resource; ``ours`` are the scheduler names whose pods count."""
        return report_policies(self._classes.policies, self._state, self._dialects, ours)

    @property
    def generation(self) -> int:
        """A number that changes with every change that may alter a report."""
        return self._catalogue.generation

    # Decisions -------------------------------------------------------------------------------------------------------

    def decided(self, pod: Pod) -> None:
        """Record the policy under which a pod is decided now, and its claims under that policy."""
        self._classes.note(pod)
        self._decided_under[pod.uid] = self._basis_of(pod)

    def policy_unchanged_since_decision(self, pod: Pod) -> bool:
        """Tell whether the same policy is in effect for a pod as when it was decided."""
        return self._basis_of(pod) == self._decided_under.get(pod.uid)

    def forget(self, uid: str) -> None:
        """Forget a pod that no longer waits."""
        self._decided_under.pop(uid, None)
        self._classes.forget(uid)

    def _basis_of(self, pod: Pod) -> DecisionBasis:
        return (self._classes.policy(pod).number, *map(pod.labels.get, self._dialects.pod_labels))
