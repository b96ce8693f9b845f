"""A log of a cluster's changes, reduced to what a replay needs.

A pod has an entry when it is created, announced, placed, and ended; another object when a field changes on which
decisions may depend. The log can be read as a :class:`vgpu_scheduler.history.History`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from vgpu_scheduler.dialects import is_sign_of_life
from vgpu_scheduler.groups import pod_group_kind
from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, History, HistoryEvent, Removed
from vgpu_scheduler.kube import DecodeError, Object, Pod
from vgpu_scheduler.whatif.world.changes import NODE, POD

_Key = tuple[str, str, str]
_OF_STATUS: Final = frozenset({"images", "conditions"})
"""Fields of a node's status that change all the time and do not affect decisions."""
_OF_VERSIONS: Final = frozenset({"resourceVersion", "managedFields", "generation"})


class LogEntry(msgspec.Struct, omit_defaults=True):
    """One change.

    Attributes
    ----------
    object
        The object after the change, or its last state; None at the beginning of a watch, whose objects follow.
    gone
        Whether the object was deleted.
    began
        Whether a watch begins.
    """

    at: float
    object: dict[str, Any] | None = None
    gone: bool = False
    began: bool = False


class ChangeLog:
    """Writes the changes that matter to a log.

    Parameters
    ----------
    write
        Writes an entry.
    strip
        Removes from an object what the log should not contain.
    """

    def __init__(self, write: Callable[[LogEntry], None], strip: Callable[[Object], dict[str, Any]] = dict) -> None:
        self._write = write
        self._strip = strip
        self._known: dict[_Key, int] = {}

    def begin(self, objects: Iterable[Object], now: float) -> None:
        """Begin a watch with all existing objects."""
        self._known.clear()
        self._write(LogEntry(now, began=True))
        for obj in objects:
            self.note(obj, gone=False, now=now)

    def note(self, obj: Object, *, gone: bool, now: float) -> None:
        """Log a change, if it matters."""
        key = _key(obj)
        if gone:
            if self._known.pop(key, None) is not None:
                self._write(LogEntry(now, {"kind": key[0], "metadata": _names(obj)}, gone=True))
            return
        said = obj = _without_signs(obj) if obj["kind"] == NODE else obj
        if obj["kind"] == POD:
            said = _pod(obj)
        mark = hash(msgspec.json.encode(_unversioned(said), order="sorted"))
        if self._known.get(key) != mark:
            self._known[key] = mark
            self._write(LogEntry(now, self._strip(obj)))

    def note_all(self, objects: Iterable[Object], now: float) -> None:
        """Log the differences to the last state, given all existing objects."""
        left = set(self._known)
        for obj in objects:
            left.discard(_key(obj))
            self.note(obj, gone=False, now=now)
        for kind, namespace, name in left:
            self.note({"kind": kind, "metadata": {"namespace": namespace, "name": name}}, gone=True, now=now)


def _without_signs(node: Object) -> dict[str, Any]:
    """Return a node without volatile fields, such as locks, images and conditions."""
    metadata, status = node.get("metadata") or {}, node.get("status") or {}
    annotations = {
        key: text for key, text in (metadata.get("annotations") or {}).items() if not is_sign_of_life(str(key))
    }
    left = {key: value for key, value in status.items() if key not in _OF_STATUS}
    return {**node, "metadata": {**metadata, "annotations": annotations}, "status": left}


def _unversioned(obj: Object) -> dict[str, Any]:
    """Return an object without the metadata that changes with every write."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _OF_VERSIONS}
    return {**obj, "metadata": metadata}


def _key(obj: Object) -> _Key:
    """Return the key of an object; its kind is named as in the engine, since several API groups have PodGroups."""
    metadata, kind = obj.get("metadata") or {}, str(obj["kind"])
    if kind == "PodGroup" and (found := pod_group_kind(str(obj.get("apiVersion", "")))) is not None:
        kind = found.name
    return kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _names(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata") or {}
    return {key: metadata[key] for key in ("namespace", "name", "uid") if metadata.get(key)}


def _pod(obj: Object) -> dict[str, Any]:
    """Return the fields of a pod whose changes are logged."""
    metadata, spec, status = (obj.get(part) or {} for part in ("metadata", "spec", "status"))
    return {
        "uid": metadata.get("uid"),
        "node": spec.get("nodeName"),
        "gates": spec.get("schedulingGates"),
        "announced": None if spec.get("nodeName") else metadata.get("annotations"),
        "over": status.get("phase") in {"Succeeded", "Failed"},
    }


def objects_at(lines: Iterable[LogEntry], at: float) -> list[dict[str, Any]]:
    """Return the objects that existed at a time, according to a log; none before the first watch."""
    there: dict[_Key, dict[str, Any]] = {}
    for line in lines:
        if line.at > at:
            break
        if line.began:
            there.clear()
        elif line.object is not None and line.gone:
            there.pop(_key(line.object), None)
        elif line.object is not None:
            there[_key(line.object)] = line.object
    return list(there.values())


Decoders = Mapping[str, Callable[[Any], Any]]
"""Decoders of objects by the name of their kind in the engine."""


def histories(lines: Iterable[LogEntry], ended: float, decode: Decoders, other_scheduler: str) -> Iterator[History]:
    """Yield the history of each watch in a log.

    Parameters
    ----------
    ended
        The end of the last watch.
    decode
        The decoders, by the names of the kinds in the engine; objects of other kinds, and malformed ones, are left out.
    other_scheduler
        The scheduler whose pods arrive in the histories; other pods are part of the cluster.
    """
    reader: _Reader | None = None
    for line in lines:
        if line.began:
            if reader is not None:
                yield reader.history(reader.last)
            reader = _Reader(line.at, decode, other_scheduler)
        elif reader is not None and line.object is not None:
            reader.read(line.at, line.object, gone=line.gone)
    if reader is not None:
        yield reader.history(max(ended, reader.last))


class _Reader:
    """Makes a history from log entries."""

    def __init__(self, began: float, decode: Decoders, other_scheduler: str) -> None:
        self._began = self.last = began
        self._decode = decode
        self._other_scheduler = other_scheduler
        self._first: list[Changed | Arrived] = []
        self._events: list[HistoryEvent] = []
        self._values: dict[_Key, Any] = {}

    def history(self, ended: float) -> History:
        """Return the history of the entries read."""
        return History(self._began, ended, tuple(self._first), tuple(self._events))

    def read(self, at: float, obj: dict[str, Any], *, gone: bool) -> None:
        """Read one entry."""
        self.last = max(self.last, at)
        key = _key(obj)
        decode = self._decode.get(key[0])
        if decode is None:
            return
        if gone:
            self._gone(at, key)
            return
        try:
            value = decode(obj)
        except DecodeError:
            return
        if isinstance(value, Pod):
            self._pod(at, key, value)
        else:
            self._values[key] = value
            self._add(Changed(at, key[0], value))

    def _gone(self, at: float, key: _Key) -> None:
        value = self._values.pop(key, None)
        if isinstance(value, Pod):
            self._add(Departed(at, value.uid))
        elif value is not None:
            self._add(Removed(at, key[0], value))

    def _pod(self, at: float, key: _Key, pod: Pod) -> None:
        before = self._values.get(key)
        if before is not None and before.uid != pod.uid:
            self._gone(at, key)
            before = None
        if before is not None:
            pod = _sharing(pod, before)
        if pod.terminal:
            self._gone(at, key)
            return
        self._values[key] = pod
        if pod.scheduler_name != self._other_scheduler or (before is None and pod.node_name and at == self._began):
            self._add(Changed(at, POD, pod))
            return
        if before is None:
            self._add(Arrived(at, msgspec.structs.replace(pod, node_name="")))
        elif not pod.node_name:
            self._add(Changed(at, POD, pod))
        if pod.node_name and (before is None or not before.node_name):
            self._events.append(Decided(at, pod.uid, pod.node_name, pod.annotations, self._other_scheduler))

    def _add(self, event: HistoryEvent) -> None:
        if event.at == self._began and isinstance(event, Changed | Arrived):
            self._first.append(event)
        else:
            self._events.append(event)


_RARELY_CHANGED: Final = ("uid", "namespace", "name", "labels", "annotations", "creation_timestamp", "owner")


def _sharing(pod: Pod, before: Pod) -> Pod:
    """Return a pod that shares unchanged values with its earlier version, to save memory."""
    same = {name: getattr(before, name) for name in _RARELY_CHANGED if getattr(before, name) == getattr(pod, name)}
    return msgspec.structs.replace(pod, **same)
