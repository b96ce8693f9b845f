"""Managed nodes that have no card here, and look as if they had some: of another dialect, or of another plugin."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.dialects import CodecError
from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.kube import Node

__all__ = ["nodes_of_unlisted_dialects", "offered_without_cards"]


def nodes_of_unlisted_dialects(engine: Engine) -> dict[str, list[str]]:
    """Return the nodes on which device plugins of dialects that are not in use have registered cards, by dialect."""
    found: dict[str, list[str]] = {}
    for node in _without_cards(engine):
        for dialect in engine.unlisted_dialects.of_node(node):
            found.setdefault(dialect, []).append(node.name)
    return {dialect: sorted(names) for dialect, names in found.items()}


def offered_without_cards(engine: Engine) -> dict[str, list[str]]:
    """Return the resources that stand for cards and that kubelets of nodes offer which have registered none, by node.

    The device plugin that offers them is another one than that of the dialect; of dialects in which no plugin registers
    anything on nodes, nobody can say that. Of nodes whose registration cannot be
    read nothing is said here, and of those of dialects that are not in use neither.
    """
    counts = {
        name
        for dialect in engine.dialects
        for name in dialect.claims.resources
        if dialect.inventory.kind is None and name not in dialect.inventory.unknown_to_kubelet
    }
    found = {}
    for node in _without_cards(engine):
        offered = sorted(name for name, amount in node.allocatable.items() if amount and name in counts)
        if offered and not _has_registered(engine, node) and not engine.unlisted_dialects.of_node(node):
            found[node.name] = offered
    return found


def _without_cards(engine: Engine) -> Iterator[Node]:
    managed = engine.options.defaults.managed
    for node in engine.state.all_nodes():
        listed = engine.state.devices_by_dialect(node.name)
        if not any(listed.values()) and (managed is None or managed.matches(node.labels)):
            yield node


def _has_registered(engine: Engine, node: Node) -> bool:
    """Tell whether a node itself lists cards, readable or not."""
    for dialect in engine.dialects:
        try:
            if dialect.inventory.devices(node):
                return True
        except CodecError:
            return True
    return False
