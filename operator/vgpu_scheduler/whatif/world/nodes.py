"""Select nodes by their labels and state, and derive changed copies of node objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.dialects import CodecError, Inventory, RegistrationError
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import HOSTNAME, LabelSelector, Object, Pod, decode_node
from vgpu_scheduler.model import LAST_ALLOCATED, Device
from vgpu_scheduler.whatif.objects.controllers import controller_of
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError
from vgpu_scheduler.whatif.world.world import World

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_STATES: Final = ("unschedulable", "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure")
TAINTS_OF_STATE: Final = frozenset(f"node.kubernetes.io/{state}" for state in _STATES)
"""Taints that describe the state of a node, not its kind."""
_NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def nodes_with(world: World, labels: LabelSelector) -> set[str]:
    """Return the names of the nodes that match a label selector."""
    return {name for name, node in world.nodes.items() if labels.matches(node["metadata"].get("labels") or {})}


def nodes_for(world: World, pod: Pod) -> list[str]:
    """Return all nodes by name, those with devices of the dialect in which the pod asks first."""
    asked = world.engine.dialects.owners(pod) or tuple(world.engine.dialects)
    with_devices = {name for name in world.nodes if any(world.devices(name, each.name) for each in asked)}
    return sorted(world.nodes, key=lambda name: (name not in with_devices, name))


def is_closed(world: World, name: str) -> bool:
    """Tell whether a node is cordoned or has a taint of its state, so that only pods that tolerate this can use it."""
    known = world.engine.state.node(name)
    taints = () if known is None else known.taints
    keys = {taint.key for taint in taints if taint.repels}
    return is_cordoned(world.nodes[name]) or not TAINTS_OF_STATE.isdisjoint(keys)


def is_cordoned(node: Object) -> bool:
    """Tell whether a node is cordoned."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def uncordoned(node: Object) -> Object:
    """Return a node without its cordon."""
    return _without_taints(node, frozenset({_UNSCHEDULABLE}))


def states_of(node: Object) -> list[str]:
    """Return the taints of a node that report a bad state, other than its cordon."""
    keys = TAINTS_OF_STATE - {_UNSCHEDULABLE}
    taints = (node.get("spec") or {}).get("taints") or ()
    return list(dict.fromkeys(taint["key"] for taint in taints if taint.get("key") in keys))


def status_of(node: Object) -> str:
    """Return the status of a node as ``kubectl get nodes`` shows it; without conditions, its taints tell it."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = [each.get("status") == "True" for each in conditions if each.get("type") == "Ready"]
    is_ready = ready[0] if ready else _NOT_READY.isdisjoint(states_of(node))
    status = "Ready" if is_ready else "NotReady"
    return f"{status},SchedulingDisabled" if is_cordoned(node) else status


def in_good_state(node: Object) -> Object:
    """Return a node without the taints of a bad state; a cordon stays."""
    spec, keys = node.get("spec") or {}, states_of(node)
    return {**node, "spec": {**spec, "taints": [t for t in spec.get("taints") or () if t.get("key") not in keys]}}


def with_offered(node: Object, amounts: Mapping[str, str]) -> Object:
    """Return a node with these amounts in its capacity and allocatable resources."""
    status = node.get("status") or {}
    offered = {field: {**(status.get(field) or {}), **amounts} for field in ("capacity", "allocatable")}
    return {**node, "status": {**status, **offered}}


def with_annotation(obj: Object, name: str, value: str) -> Object:
    """Return an object with an annotation set to a value, or removed if the value is empty."""
    metadata = dict(obj.get("metadata") or {})
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != name}
    metadata["annotations"] = {**annotations, name: value} if value else annotations
    return {**obj, "metadata": metadata}


def listed_cards(node: Object, annotation: str) -> list[str]:
    """Return the cards that an annotation of a node lists, separated by commas."""
    text = ((node["metadata"].get("annotations") or {}).get(annotation)) or ""
    return [card.strip() for card in str(text).split(",") if card.strip()]


def copy_of(world: World, name: str, copy: str) -> list[Object]:
    """Return the objects of a new node like an existing one, with cards of its own; the node comes last.

    The new node is healthy: it has no cordon, lock or taint of its state, all of its cards are in service, and its
    device plugins serve. Only DaemonSet pods and static pods run on it.

    Parameters
    ----------
    name
        The node to copy.
    copy
        The name of the new node; it is appended to the names of the cards.

    Raises
    ------
    InvalidObjectsError
        If there is no such node, a node of the new name exists, or it is unknown what a new kubelet would offer.
    """
    if name not in world.nodes:
        raise InvalidObjectsError(f"there is no node {name}")
    if world.has_node(copy):
        raise InvalidObjectsError(f"there is a node {copy} already")
    like, inventory_object = _as_new(world, world.nodes[name]), world.inventory_objects.get(name)
    for dialect in world.engine.dialects:
        like = dialect.inventory.with_healthy_devices(like)
        inventory_object = (
            None if inventory_object is None else dialect.inventory.with_healthy_devices(inventory_object)
        )
    cards = list(_hardware(world, like, inventory_object))
    _check_offered(world, like, inventory_object)
    node = _renamed(like, copy, cards)
    labels = {**(node["metadata"].get("labels") or {}), HOSTNAME: copy}
    node["metadata"] |= {"uid": world.new_uid(), "labels": labels}
    listed = [] if inventory_object is None else [_renamed(inventory_object, copy, cards)]
    return [*_node_bound(world, name, copy, cards), *listed, node]


def _node_bound(world: World, name: str, copy: str, cards: list[str]) -> Iterator[Object]:
    """Yield copies of the DaemonSet and static pods of a node; of each DaemonSet, one pod."""
    made: set[object] = set()
    for pod in sorted(world.bound.values(), key=lambda pod: (pod.deleting, pod.key)):
        if pod.node_name != name or not pod.is_node_bound:
            continue
        written = world.written(pod)
        controller = controller_of(written)
        if pod.is_of_daemon_set and (pod.namespace, controller) in made:
            continue
        made.add((pod.namespace, controller))
        yield _pod_on(written, name, copy, cards)


def _pod_on(written: Object, name: str, copy: str, cards: list[str]) -> Object:
    """Return a copy of a pod for a new node, holding the cards that correspond to those it holds now."""
    made = _renamed(written, copy, cards)
    metadata = {key: value for key, value in made["metadata"].items() if key != "deletionTimestamp"}
    notes = {key: copy if text == name else text for key, text in metadata["annotations"].items()}
    made["metadata"] = {**metadata, "name": f"{written['metadata']['name']}-{copy}", "annotations": notes}
    return {**made, "spec": {**written["spec"], "nodeName": copy}}


def _as_new(world: World, node: Object) -> Object:
    """Return a node without cordon, state taints and locks, whose kubelet offers all devices in its capacity."""
    like: Object = _without_taints(node, TAINTS_OF_STATE)
    locks = [lock.annotation for lock in world.engine.dialects.node_side.locks]
    for key in (*world.engine.dialects.cordon_annotations, *locks, LAST_ALLOCATED):
        like = with_annotation(like, key, "")
    status = node.get("status") or {}
    devices = {key: amount for key, amount in (status.get("capacity") or {}).items() if "/" in key}
    allocatable = {**(status.get("allocatable") or {}), **devices}
    return {**like, "status": {**status, "allocatable": allocatable}} if devices else like


def _check_offered(world: World, node: Object, inventory_object: Object | None) -> None:
    """Refuse a node whose kubelet reports no capacity for devices that the node lists: a copy's would be unknown.

    Raises
    ------
    InvalidObjectsError
        If the capacity of a resource that counts these devices is 0.
    """
    capacity = (node.get("status") or {}).get("capacity") or {}
    for inventory, devices in _devices(world, node, inventory_object):
        vendors = {device.vendor for device in devices}
        for name, resource in inventory.device_resources.items():
            if resource.dimension == SLOTS and resource.vendor in vendors and str(capacity.get(name, "")) == "0":
                text = f"node {node['metadata']['name']} lists cards, and its kubelet offers no {name}"
                raise InvalidObjectsError(f"{text}: its device plugin is gone, so name another node of that kind")


def _hardware(world: World, node: Object, inventory_object: Object | None) -> Iterator[str]:
    """Yield the UUIDs of the devices of a node."""
    for inventory, devices in _devices(world, node, inventory_object):
        yield from map(inventory.hardware, devices)


def _devices(
    world: World, node: Object, inventory_object: Object | None
) -> Iterator[tuple[Inventory, Sequence[Device]]]:
    """Yield the readable devices of a node, by dialect."""
    known = decode_node({**node, "metadata": {"uid": "", **node["metadata"]}})
    for dialect in world.engine.dialects:
        try:
            devices = dialect.inventory.devices(known, inventory_object)
        except RegistrationError as error:
            devices = error.devices
        except CodecError:
            devices = ()
        yield dialect.inventory, devices


def _renamed(obj: Object, name: str, cards: list[str]) -> dict[str, Any]:
    longest_first = sorted(filter(None, cards), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def renamed(text: str) -> str:
        return pattern.sub(lambda card: f"{card[0]}-{name}", text)

    found = dict(obj)
    found["metadata"] = {
        **obj["metadata"],
        "annotations": _with_texts(obj["metadata"].get("annotations") or {}, renamed),
    }
    if obj.get("kind") != "Node":  # the object beside a node that lists its devices
        found["spec"] = _with_texts(obj.get("spec"), renamed)
    found["metadata"] = {key: each for key, each in found["metadata"].items() if key not in {"uid", "resourceVersion"}}
    found["metadata"]["name"] = name
    return found


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy with every string value changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _with_texts(each, change) for key, each in value.items()}
    return [_with_texts(each, change) for each in value] if isinstance(value, list) else value


def _without_taints(node: Object, keys: frozenset[str]) -> dict[str, Any]:
    spec = {key: value for key, value in (node.get("spec") or {}).items() if key != "unschedulable"}
    if spec.get("taints"):
        spec["taints"] = [taint for taint in spec["taints"] if taint.get("key") not in keys]
    return {**node, "spec": spec}
