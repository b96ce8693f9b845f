"""The policies and namespaces that are known: which policies select a pod, in which rank, and which are in conflict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from vgpu_scheduler.kube import LabelSelector, Requirement
from vgpu_scheduler.policy.models import PolicyResource

_NAMESPACE_NAME = "kubernetes.io/metadata.name"

PolicyKey = tuple[str, str, str]
"""Kind, namespace (empty for cluster policies), name."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace with the labels that cluster policies may select by."""

    name: str
    labels: Mapping[str, str]
    resource_version: int = 0


def key_of(policy: PolicyResource) -> PolicyKey:
    """Return the name that a policy is known by."""
    return (policy.kind, policy.namespace, policy.name)


def title(policy: PolicyResource) -> str:
    """Return what messages call a policy: ``VGPUPolicy team-a/pack``, ``ClusterVGPUPolicy tenants``."""
    name = f"{policy.namespace}/{policy.name}" if policy.namespace else policy.name
    return f"{policy.kind} {name}"


class Catalogue:
    """What is known of policies and namespaces; ``generation`` rises with every change that can alter a resolution."""

    def __init__(self) -> None:
        self.generation = 0
        self._policies: dict[PolicyKey, PolicyResource] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._candidates: dict[str, tuple[PolicyResource, ...]] = {}
        self._label_keys: tuple[str, ...] = ()
        self._conflicts: Mapping[PolicyKey, tuple[PolicyKey, ...]] | None = None

    def __len__(self) -> int:
        return len(self._policies)

    def all(self) -> Iterable[PolicyResource]:
        """Return every known policy, by name."""
        return (self._policies[key] for key in sorted(self._policies))

    def get(self, key: PolicyKey) -> PolicyResource | None:
        """Return a policy, or None."""
        return self._policies.get(key)

    @property
    def label_keys(self) -> tuple[str, ...]:
        """The keys of pod labels that some selector asks about, sorted; no other label can matter."""
        return self._label_keys

    def put(self, policy: PolicyResource) -> bool:
        """Take in a policy; True if that can alter a resolution (a mere change of status cannot)."""
        known = self._policies.get(key_of(policy))
        if known is not None and known.uid == policy.uid and policy.resource_version < known.resource_version:
            return False
        self._policies[key_of(policy)] = policy
        same = known is not None and known.uid == policy.uid and known.generation == policy.generation
        if same and known is not None and known.spec == policy.spec and known.error == policy.error:
            return False
        self._changed()
        return True

    def remove(self, key: PolicyKey) -> bool:
        """Forget a policy; True if it was known."""
        if self._policies.pop(key, None) is None:
            return False
        self._changed()
        return True

    def put_namespace(self, namespace: Namespace) -> bool:
        """Take in a namespace; True if that can alter a resolution."""
        known = self._namespaces.get(namespace.name)
        if known is not None and namespace.resource_version < known.resource_version:
            return False
        self._namespaces[namespace.name] = namespace
        return (known is None or known.labels != namespace.labels) and self._namespace_changed()

    def remove_namespace(self, name: str) -> bool:
        """Forget a namespace; True if that can alter a resolution."""
        return self._namespaces.pop(name, None) is not None and self._namespace_changed()

    def namespaces(self) -> Iterable[Namespace]:
        """Return all known namespaces."""
        return self._namespaces.values()

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[PolicyResource]:
        """Return the policies that select a pod, the highest-ranked first: namespaced, then priority, then name."""
        candidates = self._candidates.get(namespace)
        if candidates is None:
            candidates = self._candidates[namespace] = self._rank(namespace)
        return [policy for policy in candidates if policy.selector is None or policy.selector.matches(labels)]

    def conflicts(self) -> Mapping[PolicyKey, tuple[PolicyKey, ...]]:
        """Return, per policy, those that tie with it in rank, so that only their names decide.

        They have the same scope and priority, a section in common, and selectors that some pod could match both of.
        """
        if self._conflicts is None:
            self._conflicts = _conflicts(list(self.all()))
        return self._conflicts

    def _rank(self, namespace: str) -> tuple[PolicyResource, ...]:
        # Every namespace carries its name as a label, also while it has not been seen.
        known = self._namespaces.get(namespace)
        labels = {**(known.labels if known else {}), _NAMESPACE_NAME: namespace}
        found = [
            policy
            for policy in self._policies.values()
            if (policy.namespace == namespace if policy.namespace else _selects(policy.namespace_selector, labels))
        ]
        return tuple(sorted(found, key=_rank_key))

    def _changed(self) -> None:
        self.generation += 1
        self._candidates.clear()
        self._conflicts = None
        keys = {
            requirement.key
            for policy in self._policies.values()
            if policy.selector is not None
            for requirement in policy.selector.requirements
        }
        self._label_keys = tuple(sorted(keys))

    def _namespace_changed(self) -> bool:
        if not any(policy.namespace_selector is not None for policy in self._policies.values()):
            return False
        self._changed()
        return True


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is None or selector.matches(labels)


def _rank_key(policy: PolicyResource) -> tuple[bool, int, str]:
    return (not policy.namespace, -policy.priority, policy.name)


def _conflicts(policies: Sequence[PolicyResource]) -> dict[PolicyKey, tuple[PolicyKey, ...]]:
    peers: dict[tuple[str, int], list[PolicyResource]] = {}
    for policy in policies:
        peers.setdefault((policy.namespace, policy.priority), []).append(policy)
    found: dict[PolicyKey, list[PolicyKey]] = {}
    for group in peers.values():
        for left, right in combinations(group, 2):
            if left.sections & right.sections and _could_meet(left, right):
                found.setdefault(key_of(left), []).append(key_of(right))
                found.setdefault(key_of(right), []).append(key_of(left))
    return {key: tuple(sorted(others)) for key, others in found.items()}


def _could_meet(left: PolicyResource, right: PolicyResource) -> bool:
    """Tell whether some pod, in some namespace, could match the selectors of both."""
    return satisfiable((left.selector, right.selector)) and satisfiable(
        (left.namespace_selector, right.namespace_selector)
    )


def satisfiable(selectors: Iterable[LabelSelector | None]) -> bool:
    """Tell whether some set of labels matches all of the selectors; None matches everything."""
    by_key: dict[str, list[Requirement]] = {}
    for selector in selectors:
        for requirement in selector.requirements if selector is not None else ():
            by_key.setdefault(requirement.key, []).append(requirement)
    return all(_key_satisfiable(requirements) for requirements in by_key.values())


def _key_satisfiable(requirements: Sequence[Requirement]) -> bool:
    """Tell whether one label, or its absence, satisfies all requirements on it."""
    named = {value for requirement in requirements for value in requirement.values}
    # Absence, every value that is named, and one that nobody names stand for all there is.
    other = "x"
    while other in named:
        other += "x"
    candidates: tuple[str | None, ...] = (None, other, *sorted(named))
    return any(all(requirement.matches(value) for requirement in requirements) for value in candidates)
