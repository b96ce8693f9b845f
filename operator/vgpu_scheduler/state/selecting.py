"""Which pods belong together, as the Services and controllers say that select them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vgpu_scheduler.kube import SELECTING_KINDS, LabelSelector, Pod, Requirement, SelectingObject, VersionedStore
from vgpu_scheduler.state.counts import LabelIndex

__all__ = ["SelectingObjects"]


class _Entry(NamedTuple):
    """What is indexed of an object: nothing that a new version alone would change."""

    kind: str
    name: str
    selector: LabelSelector


class SelectingObjects:
    """The objects that select pods, found by the labels of a pod without asking all of them.

    Attributes
    ----------
    stores
        The newest version of each object, by kind, then by ``namespace/name``.
    """

    def __init__(self) -> None:
        self.stores: Mapping[str, VersionedStore[str, SelectingObject]] = {
            kind: VersionedStore() for kind in SELECTING_KINDS
        }
        self._by_namespace: dict[str, LabelIndex[_Entry]] = {}

    def selector_of(self, pod: Pod) -> LabelSelector | None:
        """Return the selectors of all objects that select a pod, merged into one; None if none does, or by nothing."""
        index = self._by_namespace.get(pod.namespace)
        if index is None:
            return None
        merged: set[Requirement] = set()
        for _, _, selector in index.candidates(pod.labels):
            if selector.matches(pod.labels):
                merged.update(selector.requirements)
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
        old = None if before is None else before.selector
        new = None if after is None else after.selector
        if old == new:
            return
        if before is not None and old is not None:
            index = self._by_namespace[before.namespace]
            index.discard(_Entry(before.kind, before.name, old), old)
            if not index:
                del self._by_namespace[before.namespace]
        if after is not None and new is not None:
            index = self._by_namespace.setdefault(after.namespace, LabelIndex())
            index.add(_Entry(after.kind, after.name, new), new)


def _rank(requirement: Requirement) -> tuple[str, str, list[str]]:
    """Return what orders requirements: two merged selectors of the same are equal."""
    return requirement.key, requirement.operator.name, sorted(requirement.values)
