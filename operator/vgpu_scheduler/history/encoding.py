"""Encode events as table rows: columns for queries, and the object as MessagePack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.history.events import (
    Arrived,
    Changed,
    Decided,
    Departed,
    HistoryEvent,
    MissedEvents,
    Removed,
    Withdrawn,
)
from vgpu_scheduler.kube import (
    SELECTING_KINDS,
    DisruptionBudget,
    Namespace,
    Node,
    NodeInventory,
    Pod,
    PodGroup,
    PodSpec,
    ResourceQuota,
    SelectingObject,
    Versioned,
    rfc3339,
)
from vgpu_scheduler.model import namespaced_name
from vgpu_scheduler.policy import GROUP, POLICY_KINDS, VERSION, PolicyResource, decode_policy
from vgpu_scheduler.state import STORAGE_KINDS

FIRST: Final = frozenset({"first", "waiting"})
"""The event names of rows about the initial state."""
_END_OF_TIME: Final = 253_402_300_800.0
"""The beginning of the year 10000."""
FORMAT: Final = 1
"""The version of the row format; it increases with each change that older readers would misunderstand."""

KINDS: Final[Mapping[str, type[Any]]] = {
    "Pod": Pod,
    "Node": Node,
    "Namespace": Namespace,
    "ResourceQuota": ResourceQuota,
    "PodDisruptionBudget": DisruptionBudget,
    **{kind.name: PodGroup for kind in POD_GROUP_KINDS},
    **STORAGE_KINDS,
    **dict.fromkeys(SELECTING_KINDS, SelectingObject),
}
"""The types of objects by kind; policies are stored as written, and other kinds list the devices of nodes."""


class LogError(ValueError):
    """A log that cannot be read; the message names the file and, if possible, the row and field."""


class Row(NamedTuple):
    """An event as a row.

    Attributes
    ----------
    at
        Seconds since the epoch.
    event
        The event: ``arrived``, ``departed``, ``changed``, ``removed``, ``decided``, ``withdrawn``, ``missed``; or
        ``waiting`` for a pod that is pending initially, ``first`` for any other initial object, and ``seen`` for no
        event: it says that the log is complete up to this time.
    kind, name
        The object's kind, and its ``namespace/name`` or, if cluster-scoped, its name.
    uid
        The UID of the pod.
    node
        The node where a pod was placed, or is.
    body
        The object, or further data, as MessagePack.
    """

    at: float
    event: str
    kind: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    body: bytes = b""


class _Decision(msgspec.Struct, array_like=True):
    """The body of a row about a decision."""

    annotations: dict[str, str]
    by: str
    evicted: tuple[str, ...]


class _Gap(msgspec.Struct, array_like=True):
    """The body of a row about missing events."""

    events: int
    why: str


_encode: Final[Callable[[Any], bytes]] = msgspec.msgpack.Encoder().encode
_decisions: Final = msgspec.msgpack.Decoder(_Decision)
_gaps: Final = msgspec.msgpack.Decoder(_Gap)
_policies: Final = msgspec.msgpack.Decoder(dict[str, Any])


def is_time(at: float) -> bool:
    """Tell whether a number is a time before the year 10000, in seconds since the epoch."""
    return 0.0 <= at < _END_OF_TIME


def title_of(value: Versioned) -> str:
    """Return the ``namespace/name`` of an object, or the name of a cluster-scoped one."""
    return namespaced_name(getattr(value, "namespace", ""), str(getattr(value, "name", "")))


def rows_of(events: Iterable[HistoryEvent], *, first: bool = False) -> Iterator[Row]:
    """Yield events as rows.

    Parameters
    ----------
    first
        The events describe the initial state.
    """
    for event in events:
        yield _row(event, first=first)


def _row(event: HistoryEvent, *, first: bool) -> Row:
    if isinstance(event, Arrived):
        name = "waiting" if first else "arrived"
        return Row(event.at, name, "Pod", event.pod.key, event.pod.uid, "", _encode(event.pod))
    if isinstance(event, Departed | Withdrawn):
        return Row(event.at, "departed" if isinstance(event, Departed) else "withdrawn", "Pod", uid=event.uid)
    if isinstance(event, Decided):
        body = _encode(_Decision({**event.annotations}, event.by, event.evicted))
        return Row(event.at, "decided", "Pod", uid=event.uid, node=event.node, body=body)
    if isinstance(event, MissedEvents):
        return Row(event.at, "missed", body=_encode(_Gap(event.events, event.why)))
    name = "removed" if isinstance(event, Removed) else "first" if first else "changed"
    value = event.value
    where = value.node_name if isinstance(value, Pod) else ""
    body = _encode(_policy(value) if isinstance(value, PolicyResource) else value)
    return Row(event.at, name, event.kind, title_of(value), value.uid, where, body)


def _policy(policy: PolicyResource) -> dict[str, Any]:
    evictions = [
        {"time": rfc3339(each.time), "pod": each.pod, "uid": each.uid, "node": each.node} for each in policy.evictions
    ]
    metadata = {
        "name": policy.name,
        **({"namespace": policy.namespace} if policy.namespace else {}),
        "uid": policy.uid,
        "generation": policy.generation,
        "resourceVersion": str(policy.resource_version),
    }
    spec, status = {**policy.written}, {"evictions": evictions}
    return {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": policy.kind, "metadata": metadata, "spec": spec, "status": status
    }  # fmt: skip


class RowReader:
    """Decodes rows; pods with equal specs share one, as when they were observed."""

    def __init__(self) -> None:
        self._specs: dict[bytes, PodSpec] = {}
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {}

    def event(self, row: Row) -> HistoryEvent | None:
        """Return the event of a row; None for a ``seen`` row.

        Raises
        ------
        LogError
            If the row cannot be decoded.
        """
        try:
            return self._event(row)
        except (msgspec.DecodeError, ValueError, OverflowError) as error:
            what = f"{row.event} {row.kind} {row.name or row.uid}".strip()
            raise LogError(f"{what}: {error}") from None

    def _event(self, row: Row) -> HistoryEvent | None:
        event, at = row.event, row.at
        if not is_time(at):
            raise ValueError(f"at: {at} is not a time")
        if event == "seen":
            return None
        if event in {"departed", "withdrawn"}:
            return Departed(at, row.uid) if event == "departed" else Withdrawn(at, row.uid)
        if event == "decided":
            said = _decisions.decode(row.body)
            return Decided(at, row.uid, row.node, said.annotations, said.by, said.evicted)
        if event == "missed":
            gap = _gaps.decode(row.body)
            return MissedEvents(at, gap.events, gap.why)
        if event not in {"arrived", "waiting", "first", "changed", "removed"}:
            raise LogError(f"there is no event {event!r}")
        value = self._value(row.kind, row.body)
        if isinstance(value, Pod) and event in {"arrived", "waiting"}:
            return Arrived(at, value)
        return Removed(at, row.kind, value) if event == "removed" else Changed(at, row.kind, value)

    def _value(self, kind: str, body: bytes) -> Versioned:
        if kind in POLICY_KINDS:
            return decode_policy(_policies.decode(body))
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.msgpack.Decoder(KINDS.get(kind, NodeInventory))
        value: Versioned = decoder.decode(body)
        if isinstance(value, Pod):
            spec = self._specs.setdefault(value.spec.fingerprint, value.spec)
            return value if spec is value.spec else msgspec.structs.replace(value, spec=spec)
        return value
