"""The one decoder: from the API's JSON, as bytes or as an already parsed dict, to values."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, Generic, TypeVar

import msgspec

from vgpu_scheduler.kube.images import node_images
from vgpu_scheduler.kube.nesting import decode_json, shallow
from vgpu_scheduler.kube.objects import Condition, Node, Pod
from vgpu_scheduler.kube.podspecs import intern_pod_spec, resized_requests
from vgpu_scheduler.kube.quantities import QuantityError, to_exact_int, to_int, to_milli
from vgpu_scheduler.kube.rejections import kubelet_rejection
from vgpu_scheduler.kube.resources import CPU, PODS, is_schedulable
from vgpu_scheduler.kube.store import Versioned
from vgpu_scheduler.kube.taints import taint
from vgpu_scheduler.kube.wire import (
    FieldError,
    Quantities,
    WireBookmark,
    WireEvent,
    WireList,
    WireMeta,
    WireNode,
    WirePod,
    WirePodSpec,
    WirePodStatus,
)

__all__ = [
    "DecodeError",
    "WatchEvent",
    "WatchStatus",
    "decode_event",
    "decode_list",
    "decode_node",
    "decode_pod",
]

_Wire = TypeVar("_Wire")
_Value = TypeVar("_Value", bound=Versioned)

_pods: Final = msgspec.json.Decoder(WirePod)
_nodes: Final = msgspec.json.Decoder(WireNode)
_lists: Final = msgspec.json.Decoder(WireList)
_events: Final = msgspec.json.Decoder(WireEvent)
_bookmarks: Final = msgspec.json.Decoder(WireBookmark)


class DecodeError(ValueError):
    """An object that cannot be read.

    Attributes
    ----------
    kind
        What it should have been, such as ``Pod``.
    key
        ``namespace/name`` or ``name``, as far as it can be read; empty if it cannot.
    field
        Path of the field that is wrong; empty if the whole is.
    problem
        What is wrong with it.
    """

    def __init__(self, kind: str, key: str, field: str, problem: str) -> None:
        super().__init__(f"{kind} {key or '(unnamed)'}: {field + ': ' if field else ''}{problem}")
        self.kind = kind
        self.key = key
        self.field = field
        self.problem = problem


Skip = Callable[[DecodeError], None]
Encoded = Mapping[str, Any] | bytes | msgspec.Raw
"""An object as a dict (as kopf hands it out) or as JSON."""
Decode = Callable[[Encoded], _Value]


class WatchStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The error that ends a watch; code 410 means that the resource version is too old."""

    code: int = 0
    reason: str = ""
    message: str = ""


_statuses: Final = msgspec.json.Decoder(WatchStatus)


class WatchEvent(msgspec.Struct, Generic[_Value], frozen=True):
    """A line of a watch.

    Attributes
    ----------
    type
        ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    object
        The object; None for BOOKMARK and ERROR.
    resource_version
        Where to resume the watch after this line; empty for ERROR.
    status
        What went wrong; only for ERROR.
    """

    type: str
    object: _Value | None
    resource_version: str
    status: WatchStatus | None = None


def decode_pod(obj: Encoded) -> Pod:
    """Read a pod.

    Parameters
    ----------
    obj
        The object as a dict (as kopf hands it out) or as JSON.

    Raises
    ------
    DecodeError
        If a field that is read has the wrong type, or a quantity is none.
    """
    return decode_object(obj, "Pod", _pods, _pod)


def decode_node(obj: Encoded) -> Node:
    """Read a node.

    Parameters
    ----------
    obj
        The object as a dict (as kopf hands it out) or as JSON.

    Raises
    ------
    DecodeError
        If a field that is read has the wrong type, or a quantity is none.
    """
    return decode_object(obj, "Node", _nodes, _node)


def decode_list(data: bytes, decode: Decode[_Value], skip: Skip | None = None) -> tuple[list[_Value], str, str]:
    """Read a list.

    Parameters
    ----------
    data
        The list as JSON.
    decode
        Reads one object.
    skip
        Told of each object that cannot be read, which is then left out; without it the first one raises.

    Returns
    -------
    items : list
    resource_version : str
        Where to start a watch that follows the list.
    continue_token : str
        Where the next page starts; empty on the last page.

    Raises
    ------
    DecodeError
        If the list or one of its objects cannot be read.
    """
    page = _wire(data, "List", _lists)
    items = []
    for item in page.items or ():
        try:
            items.append(decode(item))
        except DecodeError as error:
            if skip is None:
                raise
            skip(error)
    return items, page.metadata.resource_version, page.metadata.continue_


def decode_event(line: bytes, decode: Decode[_Value]) -> WatchEvent[_Value]:
    """Read a line of a watch; ``decode`` reads its object.

    Raises
    ------
    DecodeError
        If the line or its object cannot be read.
    """
    event = _wire(line, "WatchEvent", _events)
    if event.type in ("BOOKMARK", "ERROR"):
        return WatchEvent(event.type, None, *_without_object(event))
    found = decode(event.object)
    return WatchEvent(event.type, found, str(found.resource_version))


def _without_object(event: WireEvent) -> tuple[str, WatchStatus | None]:
    if event.type == "ERROR":
        return "", _wire(event.object, "Status", _statuses)
    return _wire(event.object, "Bookmark", _bookmarks).metadata.resource_version, None


def _wire(obj: Encoded, kind: str, decoder: msgspec.json.Decoder[_Wire]) -> _Wire:
    """Typed form of an object as the API writes it."""
    try:
        if isinstance(obj, bytes | msgspec.Raw):
            return _decoded(obj, decoder)
        return msgspec.convert(obj, decoder.type)
    except OverflowError as error:  # an integer of more than 64 bits, which only files can hold
        raise DecodeError(kind, _key_of(obj), "", "an integer is out of range") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        problem, _, path = str(error).partition(" - at `$")
        raise DecodeError(kind, _key_of(obj), path.lstrip(".").rstrip("`"), problem) from error


def _decoded(obj: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[_Wire]) -> _Wire:
    try:
        return decoder.decode(obj)
    except RecursionError:
        return decoder.decode(shallow(bytes(obj)))


def decode_object(
    obj: Encoded,
    kind: str,
    decoder: msgspec.json.Decoder[_Wire],
    build: Callable[[_Wire], _Value],
) -> _Value:
    """Read an object of a kind.

    Parameters
    ----------
    decoder
        Reads its typed form.
    build
        Makes the value from that; may raise :class:`FieldError`.

    Raises
    ------
    DecodeError
        If a field that is read has the wrong type or value; the message names the object and the field.
    """
    typed = _wire(obj, kind, decoder)
    try:
        return build(typed)
    except FieldError as error:
        raise DecodeError(kind, _key_of(obj), error.field, error.problem) from error
    except (UnicodeEncodeError, OverflowError) as error:  # which only JSON that Python decoded can hold
        raise DecodeError(kind, _key_of(obj), "", f"a text or an integer is none of the API's: {error}") from error


def _key_of(obj: object) -> str:
    """``namespace/name`` of an object that could not be read as a whole, as far as it can be."""
    try:
        if isinstance(obj, bytes | msgspec.Raw):
            obj = decode_json(obj)
        metadata = obj["metadata"]  # type: ignore[index]
        name, namespace = metadata.get("name"), metadata.get("namespace")
    except (ValueError, AttributeError, LookupError, TypeError):
        return ""
    key = f"{namespace}/{name}" if namespace else str(name or "")
    return key.encode(errors="backslashreplace").decode()


def _pod(wire: WirePod) -> Pod:
    meta, pod, status = wire.metadata, wire.spec, wire.status
    spec = intern_pod_spec(pod)
    reported = bool(status.container_statuses or status.init_container_statuses)
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.version,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        scheduler_name=pod.scheduler_name,
        node_name=pod.node_name,
        nominated_node_name=status.nominated_node_name,
        phase=status.phase,
        priority=pod.priority or 0,
        preemption_policy=pod.preemption_policy or "PreemptLowerPriority",
        creation_timestamp=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        started=reported,
        init_finished=_init_finished(pod, status),
        scheduled_condition=_scheduled(status),
        spec=spec,
        resized_requests=resized_requests(pod, status, spec) if reported else None,
        generation=meta.generation,
        owner=_owner(meta),
        rejection=kubelet_rejection(status) if status.reason else "",
    )


def _owner(meta: WireMeta) -> str:
    """Return the UID of the controller: one text for all the pods that it owns."""
    return next((intern(owner.uid) for owner in meta.owner_references or () if owner.controller), "")


def _init_finished(pod: WirePodSpec, status: WirePodStatus) -> bool:
    expected = {c.name for c in pod.init_containers or () if c.restart_policy != "Always"}
    if not expected:
        return True
    for entry in status.init_container_statuses or ():
        ended = entry.state.terminated if entry.state else None
        if ended is not None and ended.exit_code == 0:
            expected.discard(entry.name)
    return not expected


def _scheduled(status: WirePodStatus) -> Condition | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            return Condition(condition.status, condition.reason or "", condition.message or "")
    return None


def _node(wire: WireNode) -> Node:
    meta = wire.metadata
    ready = next((c.status for c in wire.status.conditions or () if c.type == "Ready"), "")
    return Node(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.version,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        unschedulable=wire.spec.unschedulable,
        taints=tuple(taint(t.key, t.value, t.effect) for t in wire.spec.taints or ()),
        allocatable=_allocatable(wire.status.allocatable),
        capacity=_capacity(wire.status.capacity),
        ready={"True": True, "False": False}.get(ready),
        deleting=meta.deletion_timestamp is not None,
        declared_features=_features(tuple(wire.status.declared_features or ())),
        images=node_images(wire.status.images or ()),
    )


@lru_cache(maxsize=1024)
def _features(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the features of a node: one object for all nodes that declare the same."""
    return tuple(sorted(names))


def _capacity(quantities: Quantities | None) -> dict[str, int]:
    """Return whole amounts of extended resources; a part of a device is none."""
    amounts: dict[str, int] = {}
    for name, text in (quantities or {}).items():
        if "/" not in name:
            continue
        try:
            amount = to_exact_int(text)
        except QuantityError as error:
            raise FieldError(f"status.capacity[{name}]", str(error)) from error
        if amount is not None:
            amounts[name] = amount
    return amounts


def _allocatable(quantities: Quantities | None) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, text in (quantities or {}).items():
        if name != PODS and not is_schedulable(name):
            continue
        try:
            amounts[name] = to_milli(text) if name == CPU else to_int(text)
        except QuantityError as error:
            raise FieldError(f"status.allocatable[{name}]", str(error)) from error
    return amounts
