"""Managed nodes without known cards that seem to have some, of another dialect or of another device plugin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpu_scheduler.dialects import CodecError
from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.kube import Node, Pod


def nodes_of_unlisted_dialects(engine: Engine) -> dict[str, list[str]]:
    """Return the nodes on which device plugins of dialects not in use have registered cards, by dialect."""
    found: dict[str, list[str]] = {}
    for node in _without_cards(engine):
        for dialect in engine.unlisted_dialects.of_node(node):
            found.setdefault(dialect, []).append(node.name)
    return {dialect: sorted(names) for dialect, names in found.items()}


def offered_without_cards(engine: Engine) -> dict[str, list[str]]:
    """Return card resources that kubelets offer on nodes without registered cards, by node.

    Another device plugin than the dialect's offers them. Dialects whose plugins register nothing on nodes are left out,
    as are nodes whose registration cannot be read, and nodes of dialects not in use.
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


def offered_in_vain(engine: Engine, pods: Iterable[Pod]) -> dict[str, list[str]]:
    """Return :func:`offered_without_cards`, limited to resources that pods wait for if any node lists cards.

    Where some nodes list cards, the others may be left to a vendor's own plugin and another scheduler on purpose.
    """
    asked = {name for pod in pods if engine.is_to_place(pod) for name in pod.spec.resource_names}
    is_listed = any(_lists_cards(engine, node) for node in _managed(engine))
    found = {
        node: [name for name in every if name in asked or not is_listed]
        for node, every in sorted(offered_without_cards(engine).items())
    }
    return {node: offered for node, offered in found.items() if offered}


def _without_cards(engine: Engine) -> Iterator[Node]:
    return (node for node in _managed(engine) if not _lists_cards(engine, node))


def _managed(engine: Engine) -> Iterator[Node]:
    return filter(engine.options.defaults.manages, engine.state.all_nodes())


def _lists_cards(engine: Engine, node: Node) -> bool:
    return any(engine.state.devices_by_dialect(node.name).values())


def _has_registered(engine: Engine, node: Node) -> bool:
    """Tell whether the node object itself lists cards, readable or not."""
    for dialect in engine.dialects:
        try:
            if dialect.inventory.devices(node):
                return True
        except CodecError:
            return True
    return False
