"""Dialects that are known but not listed in the settings: their nodes and pods look as if they had no cards.

A node of such a dialect has no cards here, and its resource names in pods are plain resources, for which no card is
chosen. Neither is an error by itself, so it needs a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vgpu_scheduler.dialects import CodecError, Dialect
from vgpu_scheduler.engine.device_names import domain_of
from vgpu_scheduler.kube import Node


class UnlistedDialects:
    """Knows nodes and resource names of dialects that are not in use.

    Parameters
    ----------
    listed
        The dialects in use.
    unlisted
        The other known dialects.
    """

    def __init__(self, listed: Iterable[Dialect], unlisted: Sequence[Dialect]) -> None:
        everyone = (*listed, *unlisted)
        self._unlisted = tuple(unlisted)
        self._names = {name: dialect.name for dialect in unlisted for name in _own_names(dialect, everyone)}

    def of_requests(self, names: Iterable[str]) -> Mapping[str, list[str]]:
        """Return the resource names that only unlisted dialects know, by dialect."""
        found: dict[str, list[str]] = {}
        for name in names:
            if dialect := self._names.get(name):
                found.setdefault(dialect, []).append(name)
        return found

    def of_node(self, node: Node) -> tuple[str, ...]:
        """Return the unlisted dialects whose device plugins have registered cards on a node."""
        return tuple(dialect.name for dialect in self._unlisted if self._registers(dialect, node))

    def _registers(self, dialect: Dialect, node: Node) -> bool:
        """Tell whether a node has cards of a dialect; if another object lists them, by the kubelet's resources."""
        if dialect.inventory.kind is not None:
            return any(amount and self._names.get(name) == dialect.name for name, amount in node.allocatable.items())
        try:
            return bool(dialect.inventory.devices(node))
        except CodecError:
            return True


def _own_names(dialect: Dialect, everyone: Iterable[Dialect]) -> set[str]:
    """Return the names that no other dialect knows, without those of vendors' own device plugins."""
    domains = {domain_of(name) for name in dialect.inventory.device_resources}
    of_others = {name for other in everyone if other.name != dialect.name for name in other.claims.resources}
    return {name for name in dialect.claims.resources - of_others if domain_of(name) in domains}
