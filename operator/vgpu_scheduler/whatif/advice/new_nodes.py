"""Remedy for a waiting pod: add an empty node like an existing one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from vgpu_scheduler.kube import HOSTNAME, Node, Object
from vgpu_scheduler.model import counted
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError
from vgpu_scheduler.whatif.world.nodes import TAINTS_OF_STATE, copy_of, nodes_for
from vgpu_scheduler.whatif.world.queue_order import pods_as_old
from vgpu_scheduler.whatif.world.world import World

_MOST_MODELS: Final = 64
"""The most different nodes of which a copy is tried."""
_MOST_NEW_NODES: Final = 8
"""The most new nodes, if pods ahead in the queue take the first ones."""
_OF_EACH_LIKE_IT: Final = frozenset(
    {
        filters.AFFINITY,
        filters.NOT_NAMED,
        filters.POLICY_SELECTOR,
        filters.NOT_MANAGED,
        filters.SPREAD_LABEL,
        filters.FEATURES,
    }
)
"""Reasons that a copy of a rejecting node would usually give, too."""


def add_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Add empty copies of an existing node: one, or more if pods ahead in the queue take the first ones.

    Of equal nodes one is tried, those whose reasons would not apply to a copy first.
    """
    models = (found for name in _models(waiting) if (found := _added(waiting, name)) is not None)
    yield from islice(models, 1)


def _models(waiting: HypotheticalPod) -> list[str]:
    """Return nodes whose copies would differ from each other, those most likely to help first."""
    world, verdicts = waiting.world, waiting.verdicts()
    daemons = _requests_of_daemons(world)
    ranked: list[tuple[bool, bool, str]] = []
    known: set[object] = set()
    for name in nodes_for(world, waiting.ours):
        enough = _is_large_enough(waiting, name, daemons.get(name, {}))
        if (kind := (enough, _kind_of(world, name))) not in known:
            known.add(kind)
            verdict = verdicts.get(name)
            rejects = verdict is not None and not _OF_EACH_LIKE_IT.isdisjoint(verdict.reasons)
            ranked.append((rejects, not enough, name))
    ranked.sort(key=lambda each: each[:2])  # stable: otherwise in the order of nodes_for
    return [name for *_, name in ranked[: min(_MOST_MODELS, waiting.most_nodes or _MOST_MODELS)]]


def _kind_of(world: World, name: str) -> object:
    """Return what distinguishes a copy of this node from copies of others, apart from its size."""
    node = _node(world, name)
    labels = frozenset(each for each in node.labels.items() if each[0] != HOSTNAME)
    taints = frozenset(taint for taint in node.taints if taint.key not in TAINTS_OF_STATE)
    listed = world.listed_devices(nodes=(name,))
    devices = tuple((dialect.name, device.type, device.total) for _, dialect, device in listed)
    forgotten = frozenset(resource for resource, amount in node.capacity.items() if not amount)
    return labels, taints, devices, forgotten, node.declared_features


def _is_large_enough(waiting: HypotheticalPod, name: str, taken: Mapping[str, int]) -> bool:
    """Tell whether a copy of a node would offer what the pod requests, beside its DaemonSet pods."""
    node = _node(waiting.world, name)
    offered = {**node.allocatable, **node.capacity}
    managed = waiting.world.engine.dialects.unknown_to_kubelet
    return all(
        amount + taken.get(resource, 0) <= offered.get(resource, 0)
        for resource, amount in waiting.ours.spec.requests.items()
        if amount and resource not in managed
    )


def _requests_of_daemons(world: World) -> dict[str, dict[str, int]]:
    """Return the requests of DaemonSet and static pods, by node."""
    found: dict[str, dict[str, int]] = {}
    for pod in world.bound.values():
        if pod.is_node_bound and not pod.deleting:
            taken = found.setdefault(pod.node_name, {})
            for resource, amount in pod.spec.requests.items():
                taken[resource] = taken.get(resource, 0) + amount
    return found


def _node(world: World, name: str) -> Node:
    node = world.engine.state.node(name)
    assert node is not None
    return node


def _added(waiting: HypotheticalPod, name: str) -> Remedy | None:
    """Return the fewest copies of a node that help; None if none do, or a copy cannot be predicted."""
    copies: list[str] = []
    objects: list[Object] = []
    as_old = pods_as_old(waiting.world, waiting.pod, waiting.before)
    fewest = 0  # copies with which it fits if it is tried before the pods created in the same second
    try:
        for count in range(1, (_MOST_NEW_NODES if waiting.before or waiting.together else 1) + 1):
            made = _new_node(waiting.world, name)
            if made is None:
                return None
            copy, more = made
            waiting.world.add(more)
            copies.append(copy)
            objects += more
            if not waiting.together and not waiting.node_now():
                return None  # it does not fit a copy, so more copies do not help
            if as_old and not fewest and waiting.node_before(as_old):
                fewest = count
            if node := waiting.node():  # maybe another one, where room was kept for a pod that takes the new one
                text = _node_count_message(name, count, fewest, len(as_old))
                return Remedy(RemedyType.ADD_NODE, do(text), node, objects=tuple(objects))
        return None
    finally:
        for copy in copies:
            waiting.world.remove_node(copy)


def _node_count_message(name: str, count: int, fewest: int, as_old: int) -> str:
    """Say how many nodes to add: a range if the queue order of some pods is unknown."""
    text = f"add a node like {name}" if count == 1 else f"add {count} nodes like {name}"
    if not 0 < fewest < count:
        return text
    others = f"{counted(as_old, 'other pod')} that {'waits' if as_old == 1 else 'wait'}"
    return (
        f"{text}, or fewer, but at least {fewest}: it is not known which is served first of this pod and {others} and"
        f" {'was' if as_old == 1 else 'were'} created in the same second"
    )


def _new_node(world: World, name: str) -> tuple[str, list[Object]] | None:
    """Return the name and objects of one more copy of a node; None if a copy cannot be predicted."""
    copy = next(f"{name}-{n}" for n in range(2, 10**9) if not world.has_node(f"{name}-{n}"))
    try:
        return copy, copy_of(world, name, copy)
    except InvalidObjectsError:
        return None
