"""The known policies and namespaces: which policies select a pod, their rank, and which conflict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_scheduler.kube import NAMESPACE_NAME, LabelSelector, Namespace, Requirement, VersionedStore
from vgpu_scheduler.model import BoundedCache, PendingEvents, namespaced_name
from vgpu_scheduler.policy.models import ENFORCEABLE, PolicyResource

_MOST_BYTES = 8 * 2**20
"""The most bytes of cached candidates: enough for about 15,000 namespaces."""
_PER_CANDIDATE = 250
"""The approximate bytes per namespace, per policy in it, and per label that these policies test."""

PolicyKey = tuple[str, str, str]
"""Kind, namespace (empty for cluster policies), name."""


def key_of(policy: PolicyResource) -> PolicyKey:
    """Return the key of a policy."""
    return (policy.kind, policy.namespace, policy.name)


def title(policy: PolicyResource) -> str:
    """Return the name of a policy in messages: ``VGPUPolicy team-a/pack``, ``ClusterVGPUPolicy tenants``."""
    return key_title(key_of(policy))


def key_title(key: PolicyKey) -> str:
    """Return the name in messages of the policy with a key; see :func:`title`."""
    kind, namespace, name = key
    return f"{kind} {namespaced_name(namespace, name)}"


@dataclass(frozen=True, slots=True)
class CandidatePolicies:
    """The policies that may select the pods of one namespace.

    Attributes
    ----------
    ranked
        The policies, highest-ranked first: namespaced, then priority, then name.
    label_keys
        The pod label keys that their selectors test, sorted; no other label matters.
    undecided
        A policy that selects namespaces by labels, if the labels of this namespace are not known; else None.
    """

    ranked: tuple[PolicyResource, ...]
    label_keys: tuple[str, ...]
    undecided: PolicyResource | None = None

    def matching(self, labels: Mapping[str, str]) -> list[PolicyResource]:
        """Return the policies that select a pod with these labels, highest-ranked first."""
        return [policy for policy in self.ranked if policy.selects_pod(labels)]


class Catalogue:
    """The known policies and namespaces.

    Parameters
    ----------
    pending_events
        Collects for whose pods other policies may now be in force.

    Attributes
    ----------
    generation
        Rises with every change that can alter a resolution or a report.
    """

    def __init__(self, pending_events: PendingEvents) -> None:
        self.generation = 0
        self._pending_events = pending_events
        self._policies: VersionedStore[PolicyKey, PolicyResource] = VersionedStore()
        self._namespaces: VersionedStore[str, Namespace] = VersionedStore()
        self._cluster: dict[PolicyKey, PolicyResource] = {}
        self._own: dict[str, dict[PolicyKey, PolicyResource]] = {}
        self._candidates: BoundedCache[str, CandidatePolicies] = BoundedCache(_MOST_BYTES)
        self._ties: dict[PolicyKey, set[PolicyKey]] = {}

    def __len__(self) -> int:
        return len(self._policies)

    def all(self) -> Iterable[PolicyResource]:
        """Return all known policies, sorted by key."""
        return sorted(self._policies, key=key_of)

    def get(self, key: PolicyKey) -> PolicyResource | None:
        """Return a policy; None if it is not known."""
        return self._policies.get(key)

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace; None if it is not known."""
        return self._namespaces.get(name)

    def namespaces(self) -> Iterable[Namespace]:
        """Return all known namespaces."""
        return iter(self._namespaces)

    # Changes ---------------------------------------------------------------------------------------------------------

    def put(self, policy: PolicyResource) -> None:
        """Add or update a policy; a version older than the known one is ignored."""
        key = key_of(policy)
        known = self._policies.get(key)
        if not self._policies.put(key, policy):
            return
        if known is not None and known.uid == policy.uid and _has_same_content(known, policy):
            return  # only its status changed
        self._index(key, policy)
        self._drop_ties(key)
        for other in self._peers(policy):
            if key_of(other) != key and _tie(policy, other):
                self._ties.setdefault(key, set()).add(key_of(other))
                self._ties.setdefault(key_of(other), set()).add(key)
        self._changed(policy.namespace or None, [policy, *([known] if known is not None else [])])

    def remove(self, policy: PolicyResource, version: int | None = None) -> None:
        """Remove a policy, as of a resource version (by default the policy's own)."""
        key = key_of(policy)
        if self._policies.remove(key, policy.uid, policy.resource_version if version is None else version):
            peers = self._peers_of(policy)
            peers.pop(key, None)
            if policy.namespace and not peers:
                del self._own[policy.namespace]
            self._drop_ties(key)
            self._changed(policy.namespace or None, [policy])

    def put_namespace(self, namespace: Namespace) -> None:
        """Add or update a namespace; a version older than the known one is ignored."""
        known = self._namespaces.get(namespace.name)
        if self._namespaces.put(namespace.name, namespace) and (known is None or known.labels != namespace.labels):
            self._changed(namespace.name, self._selecting_namespaces())

    def remove_namespace(self, namespace: Namespace, version: int | None = None) -> None:
        """Remove a namespace, as of a resource version (by default the namespace's own)."""
        gone_at = namespace.resource_version if version is None else version
        if self._namespaces.remove(namespace.name, namespace.uid, gone_at):
            self._changed(namespace.name, self._selecting_namespaces())

    def missing(self, listed: Collection[PolicyKey], version: int) -> list[PolicyResource]:
        """Return the policies that are missing in a consistent list of some version."""
        return self._policies.missing(listed, version)

    def missing_namespaces(self, listed: Collection[str], version: int) -> list[Namespace]:
        """Return the namespaces that are missing in a consistent list of some version."""
        return self._namespaces.missing(listed, version)

    def forget_versions(self) -> None:
        """Accept any version from now on, because the API server's store was restored from a backup."""
        self._policies.forget_versions()
        self._namespaces.forget_versions()

    # Questions -------------------------------------------------------------------------------------------------------

    def candidates(self, namespace: str) -> CandidatePolicies:
        """Return the policies that may select pods of a namespace; cached until something changes."""
        found = self._candidates.get(namespace)
        if found is None:
            found = self._find_candidates(namespace)
            self._candidates.put(namespace, found, _PER_CANDIDATE * (1 + len(found.ranked) + len(found.label_keys)))
        return found

    def conflicts(self, key: PolicyKey) -> tuple[PolicyKey, ...]:
        """Return the policies that tie in rank with the given one, so that only names decide.

        They have the same scope and priority, share a section of which only one can win, and have selectors that some
        pod could match both of.
        """
        return tuple(sorted(self._ties.get(key, ())))

    def _find_candidates(self, namespace: str) -> CandidatePolicies:
        known = self._namespaces.get(namespace)
        labels = known.labels if known else {}
        found = [*self._own.get(namespace, {}).values()]
        found += [policy for policy in self._cluster.values() if policy.selects_namespace(namespace, labels)]
        undecided = None
        if known is None:
            waiting = [p for p in self._cluster.values() if not _by_name_only(p.namespace_selector)]
            undecided = min(waiting, key=_rank_key, default=None)
        keys = {
            requirement.key
            for policy in found
            if policy.selector is not None
            for requirement in policy.selector.requirements
        }
        return CandidatePolicies(tuple(sorted(found, key=_rank_key)), tuple(sorted(keys)), undecided)

    def _peers_of(self, policy: PolicyResource) -> dict[PolicyKey, PolicyResource]:
        return self._own.setdefault(policy.namespace, {}) if policy.namespace else self._cluster

    def _index(self, key: PolicyKey, policy: PolicyResource) -> None:
        self._peers_of(policy)[key] = policy

    def _peers(self, policy: PolicyResource) -> Sequence[PolicyResource]:
        return [other for other in self._peers_of(policy).values() if other.priority == policy.priority]

    def _drop_ties(self, key: PolicyKey) -> None:
        for other in self._ties.pop(key, ()):
            self._ties[other].discard(key)
            if not self._ties[other]:
                del self._ties[other]

    def _selecting_namespaces(self) -> list[PolicyResource]:
        return [policy for policy in self._cluster.values() if policy.namespace_selector is not None]

    def _changed(self, namespace: str | None, policies: Iterable[PolicyResource]) -> None:
        """Note that policies changed for the pods of one namespace, or of all namespaces (None)."""
        self.generation += 1
        self._pending_events.victims |= any(
            policy.spec is None or policy.spec.preemption is not None for policy in policies
        )
        if namespace is None:
            self._candidates.clear()
            self._pending_events.every_policy = True
        else:
            self._candidates.pop(namespace)
            self._pending_events.policies.add(namespace)


def _has_same_content(one: PolicyResource, other: PolicyResource) -> bool:
    return (
        one.generation == other.generation
        and one.spec == other.spec
        and one.error == other.error
        and one.sections == other.sections
        and one.enforced == other.enforced
    )


def _by_name_only(selector: LabelSelector | None) -> bool:
    """Tell whether a selector tests only the name of a namespace."""
    return selector is None or all(requirement.key == NAMESPACE_NAME for requirement in selector.requirements)


def _rank_key(policy: PolicyResource) -> tuple[bool, int, str]:
    return (not policy.namespace, -policy.priority, policy.name)


def _tie(left: PolicyResource, right: PolicyResource) -> bool:
    """Tell whether, for some pod, only names decide between two policies of the same scope and priority."""
    common = left.sections & right.sections
    if left.namespace:
        common -= {"preemption"}  # namespaced policies all tighten it, so none wins
    else:
        # Other sections add up. Of two policies, one that alone enforces a section wins it whatever the names.
        common &= (ENFORCEABLE - (left.enforced ^ right.enforced)) | {"preemption", "groups"}
    return bool(common) and (
        satisfiable((left.selector, right.selector))
        and satisfiable((left.namespace_selector, right.namespace_selector))
    )


def satisfiable(selectors: Iterable[LabelSelector | None]) -> bool:
    """Tell whether some set of labels matches all selectors; None matches everything."""
    by_key: dict[str, list[Requirement]] = {}
    for selector in selectors:
        for requirement in selector.requirements if selector is not None else ():
            by_key.setdefault(requirement.key, []).append(requirement)
    return all(_key_satisfiable(requirements) for requirements in by_key.values())


def _key_satisfiable(requirements: Sequence[Requirement]) -> bool:
    """Tell whether some value of a label, or its absence, satisfies all requirements on it."""
    named = {value for requirement in requirements for value in requirement.values}
    # Absence, every named value, and one unnamed value represent all possible cases.
    other = "x"
    while other in named:
        other += "x"
    candidates: tuple[str | None, ...] = (None, other, *sorted(named))
    return any(all(requirement.matches(value) for requirement in requirements) for value in candidates)
