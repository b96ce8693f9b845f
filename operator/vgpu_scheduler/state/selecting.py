"""The Services that select pods and the controllers that own them, for default spread constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vgpu_scheduler.kube import (
    SELECTING_KINDS,
    SERVICE,
    LabelSelector,
    Pod,
    Requirement,
    SelectingObject,
    VersionedStore,
)
from vgpu_scheduler.state.resident_terms import LabelIndex


class _Entry(NamedTuple):
    """The indexed fields of an object, without its resource version."""

    name: str
    selector: LabelSelector


class DefaultSpreadSelectors:
    """The selectors of default spread constraints: those of Services, by pod labels, and of controllers, by UID.

    Attributes
    ----------
    stores
        The newest version of each object, by kind, then by ``namespace/name``.
    """

    def __init__(self) -> None:
        self.stores: Mapping[str, VersionedStore[str, SelectingObject]] = {
            kind: VersionedStore() for kind in SELECTING_KINDS
        }
        self._services: dict[str, LabelIndex[_Entry]] = {}
        self._controllers: dict[str, LabelSelector] = {}

    def selector_of(self, pod: Pod) -> LabelSelector | None:
        """Return the merged selectors of a pod's Services and of its controller; None if there is no requirement.

        Source: kube-scheduler's ``helper.DefaultSelector``.
        """
        merged: set[Requirement] = set()
        services = self._services.get(pod.namespace)
        if services is not None:
            for _, selector in services.candidates(pod.labels):
                if selector.matches(pod.labels):
                    merged.update(selector.requirements)
        if pod.owner in self._controllers:
            merged.update(self._controllers[pod.owner].requirements)
        return LabelSelector(tuple(sorted(merged, key=_rank))) if merged else None

    def observe(self, found: SelectingObject) -> None:
        """Take in an object; an older version, or one that was removed, is ignored."""
        store = self.stores[found.kind]
        before = store.get(found.key)
        if store.put(found.key, found):
            self._change(before, found)

    def forget(self, found: SelectingObject, version: int) -> None:
        """Take in that an object is gone, as of a resource version."""
        store = self.stores[found.kind]
        before = store.get(found.key)
        if store.remove(found.key, found.uid, version):
            self._change(before, None)

    def _change(self, before: SelectingObject | None, after: SelectingObject | None) -> None:
        if before is not None and before.selector is not None:
            self._discard(before, before.selector)
        if after is not None and after.selector is not None:
            self._add(after, after.selector)

    def _add(self, found: SelectingObject, selector: LabelSelector) -> None:
        if found.kind == SERVICE:
            self._services.setdefault(found.namespace, LabelIndex()).add(_Entry(found.name, selector), selector)
        else:
            self._controllers[found.uid] = selector

    def _discard(self, found: SelectingObject, selector: LabelSelector) -> None:
        if found.kind != SERVICE:
            del self._controllers[found.uid]
            return
        index = self._services[found.namespace]
        index.discard(_Entry(found.name, selector), selector)
        if not index:
            del self._services[found.namespace]


def _rank(requirement: Requirement) -> tuple[str, str, list[str]]:
    """Return a sort key, so that merged selectors of the same requirements are equal."""
    return requirement.key, requirement.operator.name, sorted(requirement.values)
