"""Repairs of broken nodes after which a waiting pod fits.

No repair disturbs a pod that is being served: a lock in use is awaited, and only a lock without a known owner may be
removed. Locks are judged as the scheduler and the doctor judge them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from vgpu_scheduler.dialects import CodecError, UnsupportedError
from vgpu_scheduler.dialects.volcano import names as volcano
from vgpu_scheduler.engine import (
    ClosedByLock,
    ClosureCause,
    FoundLock,
    find_lock,
    offered_without_cards,
    owner_of,
    vendors_on_node,
)
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import CardReason, counted, rounded_duration
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, Action, HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.objects.controllers import controller_of
from vgpu_scheduler.whatif.world.nodes import in_good_state, states_of, with_annotation, with_offered
from vgpu_scheduler.whatif.world.world import World

_ToRepair = tuple[Remedy, AbstractContextManager[None]]
"""A repair of a node, and a context manager that applies it for the time of a question."""
_PLUGIN: Final = "device-plugin"
"""A part of the names of device plugins' pods."""
_PLUGINS: Final = {volcano.NAME: "Volcano's device plugin"}
_PLUGIN_OF_HAMI: Final = "HAMi's device plugin"
"""The plugins that register the cards of a node, by dialect."""
_ADMINISTRATOR: Final = "have an administrator of the nodes"


@dataclass(frozen=True, slots=True)
class _Repair:
    """A repair of a node.

    Attributes
    ----------
    node, inventory_object
        The repaired node and, if it changes, the object beside it that lists its cards.
    closure
        The closure of the node that the repair ends.
    ended
        The pods that are to be deleted.
    """

    type: RemedyType
    action: Action
    node: Object
    inventory_object: Object | None = None
    closure: ClosedByLock | None = None
    ended: Sequence[Pod] = ()


def repair_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Find repairs of one node's locks, device plugins, cards or state after which the pod fits."""
    for kind in repairs(waiting.world):
        yield from islice(_helping(waiting, islice(kind, waiting.most_nodes)), MOST_OF_A_KIND)


def _helping(waiting: HypotheticalPod, kind: Iterable[_ToRepair]) -> Iterator[Remedy]:
    for remedy, done in kind:
        with done:
            node = waiting.node()
        if node:
            yield replace(remedy, node=node)


def repairs(world: World) -> Iterator[Iterator[_ToRepair]]:
    """Yield, for each kind, the possible repairs of all nodes."""
    for search in _SEARCHES:
        yield _of_a_kind(world, search)


def _of_a_kind(world: World, search: Callable[[World, str], Iterator[_Repair]]) -> Iterator[_ToRepair]:
    for name in sorted(world.nodes):
        yield from _of_node(world, name, search)


def _of_node(world: World, name: str, search: Callable[[World, str], Iterator[_Repair]]) -> Iterator[_ToRepair]:
    for repair in search(world, name):
        objects = (repair.node,) if repair.inventory_object is None else (repair.inventory_object, repair.node)
        ended = tuple(pod.uid for pod in repair.ended if pod.uid in world.bound)
        yield Remedy(repair.type, (repair.action,), "", objects=objects, ended=ended), _done(world, name, repair)


def unreadable_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield repairs of nodes whose list of cards cannot be read; whether the pod fits there is unknown."""
    world = waiting.world
    for name, verdict in sorted(waiting.verdicts().items()):
        error = _unreadable(world, name) if CardReason.NodeUnregistered in verdict.reasons else None
        if error is not None:
            if isinstance(error, UnsupportedError):
                what = (
                    f"change how the cards of node {name} are registered, which are not allocated as they are: {error}"
                )
            else:
                what = f"{_restart(world, name)}: the cards that the node lists cannot be read ({error})"
            yield Remedy(RemedyType.REPAIR_NODE, do(f"{_ADMINISTRATOR} {what}"), "")


def unregistered_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield repairs of nodes that offer what the pod asks for, but have not registered any of these cards."""
    dialects = waiting.world.engine.dialects.owners(waiting.ours)
    asked = {name for name, amount in waiting.ours.spec.requests.items() if amount}
    plugins = " or ".join(dict.fromkeys(_PLUGINS.get(dialect.name, _PLUGIN_OF_HAMI) for dialect in dialects))
    verdicts = waiting.verdicts()
    for name, offered in sorted(offered_without_cards(waiting.world.engine).items()):
        alike, verdict = [each for each in offered if each in asked], verdicts.get(name)
        if alike and verdict is not None and CardReason.NodeUnregistered in verdict.reasons:
            why = (
                f"its kubelet offers {', '.join(alike)}, but none of its cards is registered, as with a vendor's "
                "own plugin"
            )
            yield Remedy(RemedyType.REPAIR_NODE, do(f"{_ADMINISTRATOR} run {plugins} on node {name}: {why}"), "")


def _unreadable(world: World, name: str) -> CodecError | None:
    """Return why a node's list of cards cannot be read; None if it can."""
    node = world.engine.state.node(name)
    assert node is not None
    for dialect in world.engine.dialects:
        try:
            dialect.inventory.devices(node, world.inventory_objects.get(name))
        except CodecError as error:
            return error
    return None


def sick_cards(world: World, name: str) -> Iterator[_ToRepair]:
    """Yield the repair of all unhealthy cards of a node; see :func:`repairs`."""
    yield from _of_node(world, name, _sick_cards)


@contextmanager
def _done(world: World, name: str, repair: _Repair) -> Iterator[None]:
    """Apply a repair for the time of a question."""
    before, inventory_object, closed = world.nodes[name], world.inventory_objects.get(name), world.engine.closed_nodes
    for pod in repair.ended:
        closed.unserved_pods.forget(pod.uid)
    if repair.closure is not None:
        closed.open(name, repair.closure)
    elif repair.node is not before:
        world.replace_node(repair.node, repair.inventory_object)
    try:
        with world.engine.state.without([pod.uid for pod in repair.ended]):
            yield
    finally:
        if repair.closure is not None:
            closed.close(name, repair.closure)
        elif repair.node is not before:
            world.replace_node(before, inventory_object if repair.inventory_object is not None else None)
        for pod in repair.ended:
            closed.unserved_pods.observe(pod)


# Locks ---------------------------------------------------------------------------------------------------------------


def _locks(world: World, name: str) -> Iterator[_Repair]:
    """Yield what to do about the locks that close a node."""
    closed, node = world.engine.closed_nodes, world.engine.state.node(name)
    assert node is not None
    for closure in closed.closures(name):
        if not isinstance(closure, ClosedByLock):
            continue
        lock = find_lock(node, closure.lock.kind, closed.judge.node_side)
        advised = None if lock is None else _about_lock(world, lock, closure)
        if lock is not None and advised is not None:
            open_node = with_annotation(world.nodes[name], lock.kind.annotation, "")
            yield _Repair(*advised, open_node, closure=closure)


def _about_lock(world: World, lock: FoundLock, closure: ClosedByLock) -> tuple[RemedyType, Action] | None:
    """Return what to do about a lock; None if it is unknown whether a pod is being served under it."""
    name, annotation = lock.node, lock.kind.annotation
    if lock.parsed is None:
        command = f"kubectl annotate node {name} {annotation}-"
        what = f"which contains neither a time nor a pod ({annotation} is {lock.value!r})"
        return RemedyType.REPAIR_NODE, Action(f"{_ADMINISTRATOR} remove the lock of node {name}, {what}: {command}")
    if world.reviewed_at is None:
        return None
    owner, judge = owner_of(world.engine, world.pods, lock), world.engine.closed_nodes.judge
    if owner is not None and judge.is_being_served(lock, owner):
        if closure.cause is ClosureCause.PLUGIN_SILENT or judge.is_silent(lock, owner, world.reviewed_at):
            silent = rounded_duration((world.reviewed_at - lock.parsed.taken_at).total_seconds())
            why = f"it has not answered pod {owner.key} for {silent}; deleting that pod also frees the node"
            return RemedyType.REPAIR_NODE, Action(f"{_ADMINISTRATOR} {_restart(world, name)}: {why}", is_long=True)
        served = f"the device plugin of node {name} has served pod {owner.key}, for which the node is locked"
        return RemedyType.WAIT, Action(f"wait until {served} ({annotation})")
    by = f"pod {owner.key} of scheduler {owner.scheduler_name}" if owner is not None else "a pod that it does not name"
    expiry = rounded_duration(lock.kind.expiry)
    text = f"wait until the lock of node {name} ({annotation}), which {by} took, is released, or {expiry} old"
    return RemedyType.WAIT, Action(text)


def _turns(world: World, name: str) -> Iterator[_Repair]:
    """Yield the pods to delete because the device plugin would serve them next although they need nothing from it."""
    unserved, pods = world.engine.closed_nodes.unserved_pods, {pod.uid: pod for pod in world.pods.values()}
    for key in list(unserved.plugin_keys(name)):
        blocking = [pods[uid] for uid in unserved.pods(name, key) if uid in pods]
        keys = ", ".join(pod.key for pod in blocking)
        which, has = ("pod", "has") if len(blocking) == 1 else ("pods", "have")
        text = f"delete {which} {keys}, which {has} not taken the devices that the plugin of node {name} keeps"
        yield _Repair(RemedyType.END_PODS, Action(text), world.nodes[name], ended=blocking)


# Plugins, cards and nodes --------------------------------------------------------------------------------------------


def _plugins(world: World, name: str) -> Iterator[_Repair]:
    """Yield the device plugins to restart: the node lists their cards, but its kubelet offers none."""
    node = world.engine.state.node(name)
    assert node is not None
    for on_node in vendors_on_node(world.engine.dialects, world.engine.state.devices_by_dialect(name)):
        if on_node.offers_none(node):
            resources = sorted(on_node.resources)
            shares = sum(device.total[0] for device in on_node.devices if device.healthy)
            cards = counted(len(on_node.devices), f"{on_node.vendor} card")
            why = f"the node lists {cards}, and its kubelet offers no {' or '.join(resources)}"
            offered = with_offered(world.nodes[name], dict.fromkeys(resources, str(shares)))
            yield _Repair(RemedyType.REPAIR_NODE, Action(f"{_ADMINISTRATOR} {_restart(world, name)}: {why}"), offered)


def _restart(world: World, name: str) -> str:
    """Return the text for a restart of a node's device plugin, with the command if its pod is unambiguous."""
    pods = [pod for pod in world.bound.values() if pod.node_name == name and _PLUGIN in pod.name]
    plugins = [pod for pod in pods if (controller_of(world.written(pod)) or ("",))[0] == "DaemonSet"]
    command = f" (kubectl delete pod -n {plugins[0].namespace} {plugins[0].name})" if len(plugins) == 1 else ""
    return f"restart the device plugin on node {name}{command}"


def _sick_cards(world: World, name: str) -> Iterator[_Repair]:
    """Yield the repair of all cards of a node that their device plugin reports as unhealthy."""
    for dialect in world.engine.dialects:
        sick = [device for device in world.devices(name, dialect.name) if not device.healthy]
        if not sick:
            continue
        inventory, inventory_object = dialect.inventory, world.inventory_objects.get(name)
        cards = ", ".join(card_name(device.vendor, device.uuid) for device in sick)
        are = "is" if len(sick) == 1 else "are"
        text = f"{_ADMINISTRATOR} repair {cards} of node {name}, which {are} unhealthy according to the device plugin"
        healthy = inventory.with_healthy_devices(world.nodes[name])
        whole = None if inventory_object is None else inventory.with_healthy_devices(inventory_object)
        yield _Repair(RemedyType.REPAIR_NODE, Action(text), healthy, whole)


def _states(world: World, name: str) -> Iterator[_Repair]:
    """Yield the repair of a node that is not ready, or under pressure."""
    if states := states_of(world.nodes[name]):
        text = f"{_ADMINISTRATOR} bring node {name} back, which has {counted(len(states), 'taint')} of a bad state"
        action = Action(f"{text}: {', '.join(states)}")
        yield _Repair(RemedyType.REPAIR_NODE, action, in_good_state(world.nodes[name]))


_SEARCHES: Final[tuple[Callable[[World, str], Iterator[_Repair]], ...]] = (
    _locks,
    _turns,
    _plugins,
    _sick_cards,
    _states,
)
