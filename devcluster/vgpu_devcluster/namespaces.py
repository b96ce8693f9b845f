"""The namespace controller: removes a deleted namespace once it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .objects import Target
from .registry import DeleteOptions
from .resources import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .registry import Registry
    from .resources import Resource


def end_namespaces(registry: Registry, names: Iterable[str], served: Iterable[Resource]) -> Iterator[str]:
    """Delete the contents of terminating namespaces, remove empty namespaces, and yield those that are not empty yet.

    Objects with finalizers, and pods that run at a kubelet, hold their namespace until they are gone.
    """
    kinds = {row.storage: row for row in served if row.namespaced and "delete" in row.verbs}.values()
    for name in names:
        entry = registry.store.get(NAMESPACES, "", name)
        if entry is None or entry.fields["status.phase"] != "Terminating":
            continue
        held = [row for row in kinds if _remains(registry, row, name)]
        if held or entry.thaw()["metadata"].get("finalizers"):
            yield name
        else:
            registry.store.remove(NAMESPACES, entry)


def _remains(registry: Registry, row: Resource, namespace: str) -> bool:
    """Delete a namespace's objects of a kind; return whether any remains."""
    entries = registry.store.table(row).entries
    for name in [name for where, name in entries if where == namespace]:
        if "deletionTimestamp" not in entries[namespace, name].thaw()["metadata"]:
            registry.delete(Target(row, namespace, name), DeleteOptions())
    return any(where == namespace for where, _ in entries)
