"""What an administrator does about a node that is broken, so that a pod that waits fits there.

Nothing is suggested that would disturb a pod that is being served: a lock in use is waited for, and only one of which
nobody can say whose it is may be removed. That is judged as the scheduler and the doctor judge it.
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
    ClosureCause,
    FoundLock,
    NodeClosure,
    find_lock,
    offered_without_cards,
    owner_of,
    vendors_on_node,
)
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import CardReason, counted, rounded_duration
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, Action, HypotheticalPod, Remedy, RemedyKind, do
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.objects.controllers import controller_of
from vgpu_scheduler.whatif.world.nodes import in_good_state, states_of, with_annotation, with_offered
from vgpu_scheduler.whatif.world.world import World

__all__ = ["repair_nodes", "repairs", "sick_cards", "unreadable_nodes", "unregistered_nodes"]


_ToRepair = tuple[Remedy, AbstractContextManager[None]]
"""What could be done about a node, and what has it done for the time of a question."""
_PLUGIN: Final = "device-plugin"
"""What the pods of device plugins have in their names."""
_PLUGINS: Final = {volcano.NAME: "Volcano's device plugin"}
_PLUGIN_OF_HAMI: Final = "HAMi's device plugin"
"""Who registers the cards of a node, by dialect."""
_ADMINISTRATOR: Final = "have an administrator of the nodes"


@dataclass(frozen=True, slots=True)
class _Repair:
    """Something that somebody does about a node.

    Attributes
    ----------
    node, inventory_object
        The node as it is then, and the object beside it that has its cards, where that is another one.
    closure
        What closes the node, and then does not.
    ended
        The pods that are deleted.
    """

    kind: RemedyKind
    action: Action
    node: Object
    inventory_object: Object | None = None
    closure: NodeClosure | None = None
    ended: Sequence[Pod] = ()


def repair_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Search what makes the pod fit if it is done about the locks, plugins, cards or state of one node."""
    for kind in repairs(waiting.world):
        yield from islice(_helping(waiting, islice(kind, waiting.most_nodes)), MOST_OF_A_KIND)


def _helping(waiting: HypotheticalPod, kind: Iterable[_ToRepair]) -> Iterator[Remedy]:
    for remedy, done in kind:
        with done:
            node = waiting.node()
        if node:
            yield replace(remedy, node=node)


def repairs(world: World) -> Iterator[Iterator[_ToRepair]]:
    """Yield, kind by kind, what could be done about each node, and what has it done for the time of a question."""
    for search in _SEARCHES:
        yield _of_a_kind(world, search)


def _of_a_kind(world: World, search: Callable[[World, str], Iterator[_Repair]]) -> Iterator[_ToRepair]:
    for name in sorted(world.nodes):
        yield from _of_node(world, name, search)


def _of_node(world: World, name: str, search: Callable[[World, str], Iterator[_Repair]]) -> Iterator[_ToRepair]:
    for repair in search(world, name):
        objects = (repair.node,) if repair.inventory_object is None else (repair.inventory_object, repair.node)
        ended = tuple(pod.uid for pod in repair.ended if pod.uid in world.bound)
        yield Remedy(repair.kind, (repair.action,), "", objects=objects, ended=ended), _done(world, name, repair)


def unreadable_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield the nodes whose list of cards cannot be read; whether the pod fits there nobody knows."""
    world = waiting.world
    for name, verdict in sorted(waiting.verdicts().items()):
        error = _unreadable(world, name) if CardReason.NodeUnregistered.text in verdict.reasons else None
        if error is not None:
            if isinstance(error, UnsupportedError):
                what = f"have the cards of node {name} listed otherwise, which are not given out as they are: {error}"
            else:
                what = f"{_restart(world, name)}: the cards that the node lists cannot be read ({error})"
            yield Remedy(RemedyKind.REPAIR_NODE, do(f"{_ADMINISTRATOR} {what}"), "")


def unregistered_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield the nodes that offer what the pod asks for, and have registered no card by which it could be placed."""
    dialects = waiting.world.engine.dialects.owners(waiting.ours)
    asked = {name for name, amount in waiting.ours.spec.requests.items() if amount}
    plugins = " or ".join(dict.fromkeys(_PLUGINS.get(dialect.name, _PLUGIN_OF_HAMI) for dialect in dialects))
    verdicts = waiting.verdicts()
    for name, offered in sorted(offered_without_cards(waiting.world.engine).items()):
        alike, verdict = [each for each in offered if each in asked], verdicts.get(name)
        if alike and verdict is not None and CardReason.NodeUnregistered.text in verdict.reasons:
            why = f"its kubelet offers {', '.join(alike)}, and no card of it is registered, as by a vendor's own plugin"
            yield Remedy(RemedyKind.REPAIR_NODE, do(f"{_ADMINISTRATOR} run {plugins} on node {name}: {why}"), "")


def _unreadable(world: World, name: str) -> CodecError | None:
    """Return why the cards that a node lists cannot be read; None if they can."""
    node = world.engine.state.node(name)
    assert node is not None
    for dialect in world.engine.dialects:
        try:
            dialect.inventory.devices(node, world.inventory_objects.get(name))
        except CodecError as error:
            return error
    return None


def sick_cards(world: World, name: str) -> Iterator[_ToRepair]:
    """Yield the repair of all cards of a node that are unhealthy; see :func:`repairs`."""
    yield from _of_node(world, name, _sick_cards)


@contextmanager
def _done(world: World, name: str, repair: _Repair) -> Iterator[None]:
    """Have a node be repaired for the time of a question."""
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
    """Yield what is to be done about the locks that close a node."""
    closed, node = world.engine.closed_nodes, world.engine.state.node(name)
    assert node is not None
    side = closed.judge.node_side
    for closure in closed.closures(name):
        kind = next((each for each in side.locks if each.annotation == closure.lock), None)
        lock = None if kind is None else find_lock(node, kind, side)
        advised = None if lock is None else _about_lock(world, lock, closure)
        if lock is not None and advised is not None:
            open_node = with_annotation(world.nodes[name], lock.kind.annotation, "")
            yield _Repair(*advised, open_node, closure=closure)


def _about_lock(world: World, lock: FoundLock, closure: NodeClosure) -> tuple[RemedyKind, Action] | None:
    """Return what has to become of a lock; None where nobody can tell whether somebody is being served under it."""
    name, annotation = lock.node, lock.kind.annotation
    if lock.parsed is None:
        command = f"kubectl annotate node {name} {annotation}-"
        what = f"which says neither when it was taken nor by which pod ({annotation} is {lock.value!r})"
        return RemedyKind.REPAIR_NODE, Action(f"{_ADMINISTRATOR} remove the lock of node {name}, {what}: {command}")
    if world.reviewed_at is None:
        return None
    owner, age = owner_of(world.engine, world.pods, lock), world.reviewed_at - lock.parsed.taken_at
    if owner is not None and world.engine.closed_nodes.judge.is_being_served(lock, owner):
        if closure.cause is ClosureCause.PLUGIN_SILENT or age.total_seconds() > world.engine.options.node_side_timeout:
            silent = rounded_duration(age.total_seconds())
            why = f"it has not answered pod {owner.key} for {silent}; deleting that pod opens the node, too"
            return RemedyKind.REPAIR_NODE, Action(f"{_ADMINISTRATOR} {_restart(world, name)}: {why}", is_long=True)
        served = f"the device plugin of node {name} has served pod {owner.key}, for which the node is locked"
        return RemedyKind.WAIT, Action(f"wait until {served} ({annotation})")
    by = f"pod {owner.key} of scheduler {owner.scheduler_name}" if owner is not None else "a pod that it does not name"
    expiry = rounded_duration(lock.kind.expiry)
    text = f"wait until the lock of node {name} ({annotation}), which {by} took, is released, or {expiry} old"
    return RemedyKind.WAIT, Action(text)


def _turns(world: World, name: str) -> Iterator[_Repair]:
    """Yield the pods that have to be deleted: the device plugin would serve them next, and they do not need it."""
    unserved, pods = world.engine.closed_nodes.unserved_pods, {pod.uid: pod for pod in world.pods.values()}
    for key in list(unserved.plugin_keys(name)):
        blocking = [pods[uid] for uid in unserved.pods(name, key) if uid in pods]
        keys = ", ".join(pod.key for pod in blocking)
        which, has = ("pod", "has") if len(blocking) == 1 else ("pods", "have")
        text = f"delete {which} {keys}, which {has} not taken the devices that the plugin of node {name} keeps"
        yield _Repair(RemedyKind.END_PODS, Action(text), world.nodes[name], ended=blocking)


# Plugins, cards and nodes --------------------------------------------------------------------------------------------


def _plugins(world: World, name: str) -> Iterator[_Repair]:
    """Yield the device plugins that have to be restarted: the node lists their cards, and its kubelet offers none."""
    node = world.engine.state.node(name)
    assert node is not None
    for on_node in vendors_on_node(world.engine.dialects, world.engine.state.devices_by_dialect(name)):
        if on_node.offers_none(node):
            resources = sorted(on_node.resources)
            shares = sum(device.total[0] for device in on_node.devices if device.healthy)
            cards = counted(len(on_node.devices), f"{on_node.vendor} card")
            why = f"the node lists {cards}, and its kubelet offers no {' or '.join(resources)}"
            offered = with_offered(world.nodes[name], dict.fromkeys(resources, str(shares)))
            yield _Repair(RemedyKind.REPAIR_NODE, Action(f"{_ADMINISTRATOR} {_restart(world, name)}: {why}"), offered)


def _restart(world: World, name: str) -> str:
    """Return the words for a restart of the device plugin of a node, with the command where one pod must be it."""
    pods = [pod for pod in world.bound.values() if pod.node_name == name and _PLUGIN in pod.name]
    plugins = [pod for pod in pods if (controller_of(world.written(pod)) or ("",))[0] == "DaemonSet"]
    command = f" (kubectl delete pod -n {plugins[0].namespace} {plugins[0].name})" if len(plugins) == 1 else ""
    return f"restart the device plugin on node {name}{command}"


def _sick_cards(world: World, name: str) -> Iterator[_Repair]:
    """Yield the repair of all cards of a node that their device plugin calls unhealthy."""
    for dialect in world.engine.dialects:
        sick = [device for device in world.devices(name, dialect.name) if not device.healthy]
        if not sick:
            continue
        inventory, inventory_object = dialect.inventory, world.inventory_objects.get(name)
        cards = ", ".join(card_name(device.vendor, device.uuid) for device in sick)
        are = "is" if len(sick) == 1 else "are"
        text = f"{_ADMINISTRATOR} repair {cards} of node {name}, which {are} unhealthy by what the device plugin says"
        healthy = inventory.with_healthy_devices(world.nodes[name])
        whole = None if inventory_object is None else inventory.with_healthy_devices(inventory_object)
        yield _Repair(RemedyKind.REPAIR_NODE, Action(text), healthy, whole)


def _states(world: World, name: str) -> Iterator[_Repair]:
    """Yield that a node has to be ready, and without pressure, again."""
    if states := states_of(world.nodes[name]):
        text = f"{_ADMINISTRATOR} bring node {name} back, which has {counted(len(states), 'taint')} of a bad state"
        action = Action(f"{text}: {', '.join(states)}")
        yield _Repair(RemedyKind.REPAIR_NODE, action, in_good_state(world.nodes[name]))


_SEARCHES: Final[tuple[Callable[[World, str], Iterator[_Repair]], ...]] = (
    _locks,
    _turns,
    _plugins,
    _sick_cards,
    _states,
)
