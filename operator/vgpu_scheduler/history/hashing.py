"""Hash names of namespaces and pods with a key, so that equal names stay equal but cannot be read.

Names of nodes are kept, since they break ties; so are labels and names of other objects, to which selectors and pods
refer. A pod with generic ephemeral volumes keeps its name, since its claims are named after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from vgpu_scheduler.history.events import Arrived, Changed, HistoryEvent, Removed
from vgpu_scheduler.kube import (
    NAMESPACE_NAME,
    DisruptionBudget,
    LabelSelector,
    Namespace,
    NodeInventory,
    Pod,
    PodSelector,
    PodSpec,
    PodTerm,
    Versioned,
    Volume,
)
from vgpu_scheduler.policy import PolicyResource

_BYTES: Final = 8
_Value = TypeVar("_Value")


class Hasher:
    """Hashes the names in events.

    Parameters
    ----------
    key
        The secret key, without which hashes cannot be assigned to names.
    kept
        Namespaces whose names are not hashed.
    """

    def __init__(self, key: bytes, kept: Collection[str] = ()) -> None:
        self._key = key[: blake2b.MAX_KEY_SIZE]
        self._kept = frozenset(kept)
        self._known: dict[str, str] = {}
        self._specs: dict[bytes, PodSpec] = {}

    def events(self, events: Iterable[HistoryEvent]) -> Iterator[HistoryEvent]:
        """Yield events with hashed names."""
        for event in events:
            if isinstance(event, Arrived):
                yield replace(event, pod=self._pod(event.pod))
            elif isinstance(event, Changed | Removed):
                yield replace(event, value=self._object(event.value))
            else:
                yield event

    def name(self, name: str) -> str:
        """Return the hash of a name."""
        return blake2b(name.encode(), digest_size=_BYTES, key=self._key).hexdigest()

    def namespace(self, name: str) -> str:
        """Return the hash of a namespace's name; an empty name stays empty."""
        if not name or name in self._kept:
            return name
        if name not in self._known:
            self._known[name] = self.name(name)
        return self._known[name]

    def _object(self, value: Versioned) -> Versioned:
        if isinstance(value, Pod):
            return self._pod(value)
        if isinstance(value, Namespace):
            labels = {
                name: self.namespace(text) if name == NAMESPACE_NAME else text for name, text in value.labels.items()
            }
            return replace(value, name=self.namespace(value.name), labels=labels)
        if isinstance(value, PolicyResource):
            return self._policy(value)
        if isinstance(value, NodeInventory):
            return value
        if isinstance(value, Volume):
            claim = value.claim
            kept = claim and msgspec.structs.replace(claim, namespace=self.namespace(claim.namespace))
            return msgspec.structs.replace(value, claim=kept)
        if isinstance(value, DisruptionBudget):
            value = msgspec.structs.replace(value, disrupted=frozenset(map(self.name, value.disrupted)))
        namespace = getattr(value, "namespace", "")
        return _changed(value, namespace=self.namespace(namespace)) if namespace else value

    def _pod(self, pod: Pod) -> Pod:
        called_by = any(volume.ephemeral for volume in pod.spec.volume_claims)
        return msgspec.structs.replace(
            pod,
            namespace=self.namespace(pod.namespace),
            name=pod.name if called_by else self.name(pod.name),
            spec=self._spec(pod.spec),
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        terms = (*spec.required_pod_affinity, *spec.required_pod_anti_affinity)
        if not terms and not spec.preferred_pods:
            return spec
        known = self._specs.get(spec.fingerprint)
        if known is None:
            known = self._specs[spec.fingerprint] = msgspec.structs.replace(
                spec,
                required_pod_affinity=tuple(map(self._term, spec.required_pod_affinity)),
                required_pod_anti_affinity=tuple(map(self._term, spec.required_pod_anti_affinity)),
                preferred_pods=tuple(
                    msgspec.structs.replace(each, term=self._term(each.term)) for each in spec.preferred_pods
                ),
            )
        return known

    def _term(self, term: PodTerm) -> PodTerm:
        pods = PodSelector(
            term.pods.labels,
            frozenset(map(self.namespace, term.pods.namespaces)),
            self._selector(term.pods.namespace_selector),
        )
        return msgspec.structs.replace(term, pods=pods)

    def _selector(self, selector: LabelSelector | None) -> LabelSelector | None:
        """Return a namespace selector with hashed names."""
        if selector is None:
            return None
        requirements = tuple(
            msgspec.structs.replace(each, values=frozenset(map(self.namespace, each.values)))
            if each.key == NAMESPACE_NAME
            else each
            for each in selector.requirements
        )
        return msgspec.structs.replace(selector, requirements=requirements)

    def _policy(self, policy: PolicyResource) -> PolicyResource:
        evictions = tuple(replace(each, pod=self._key_of(each.pod)) for each in policy.evictions)
        written = {
            name: self._written_selector(value) if name == "namespaceSelector" else value
            for name, value in policy.written.items()
        }
        namespace, selector = self.namespace(policy.namespace), self._selector(policy.namespace_selector)
        return replace(policy, namespace=namespace, evictions=evictions, written=written, namespace_selector=selector)

    def _key_of(self, pod: str) -> str:
        namespace, slash, name = pod.partition("/")
        return f"{self.namespace(namespace)}/{self.name(name)}" if slash else pod

    def _written_selector(self, selector: Any) -> Any:
        if not isinstance(selector, Mapping):
            return selector
        found = {**selector}
        labels, expressions = found.get("matchLabels"), found.get("matchExpressions")
        if isinstance(labels, Mapping) and isinstance(labels.get(NAMESPACE_NAME), str):
            found["matchLabels"] = {**labels, NAMESPACE_NAME: self.namespace(labels[NAMESPACE_NAME])}
        if isinstance(expressions, list):
            found["matchExpressions"] = [self._written_expression(each) for each in expressions]
        return found

    def _written_expression(self, expression: Any) -> Any:
        values = expression.get("values") if isinstance(expression, Mapping) else None
        if not isinstance(values, list) or expression.get("key") != NAMESPACE_NAME:
            return expression
        return {**expression, "values": [self.namespace(str(each)) for each in values]}


def _changed(value: _Value, **fields: Any) -> _Value:
    changed: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else replace
    found: _Value = changed(value, **fields)
    return found
