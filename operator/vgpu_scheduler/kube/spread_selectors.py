"""Services and controllers, of which only the pod selectors are read."""

from __future__ import annotations

from typing import Final

import msgspec

from vgpu_scheduler.kube.decoding import Encoded, decode_object
from vgpu_scheduler.kube.selectors import LabelSelector
from vgpu_scheduler.kube.storagedecoding import label_selector
from vgpu_scheduler.kube.wire import Wire, WireLabelSelector, WireMeta

SERVICE: Final = "Service"
SELECTING_KINDS: Final = (SERVICE, "ReplicationController", "ReplicaSet", "StatefulSet")
"""The kinds whose selectors kube-scheduler uses for default spread constraints."""
_PLAIN: Final = (SERVICE, "ReplicationController")
"""The kinds whose selectors are plain label maps."""


class SelectingObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that selects pods of its namespace.

    Attributes
    ----------
    kind
        One of :data:`SELECTING_KINDS`.
    resource_version
        Version of the object; 0 if it has none (a file).
    selector
        Selects the pods; None if it selects none, such as a Service with manually managed endpoints.
    """

    kind: str
    uid: str
    namespace: str
    name: str
    resource_version: int
    selector: LabelSelector | None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class _WirePlainSpec(Wire):
    """The spec of a kind with a plain label map."""

    selector: dict[str, str] | None = None


class _WirePlain(Wire):
    """A Service or a ReplicationController."""

    metadata: WireMeta
    spec: _WirePlainSpec = msgspec.field(default_factory=_WirePlainSpec)


class _WireSpec(Wire):
    """The spec of a kind with a label selector."""

    selector: WireLabelSelector | None = None


class _WireSelecting(Wire):
    """A ReplicaSet or a StatefulSet."""

    metadata: WireMeta
    spec: _WireSpec = msgspec.field(default_factory=_WireSpec)


_plain = msgspec.json.Decoder(_WirePlain)
_selecting = msgspec.json.Decoder(_WireSelecting)


def decode_selecting(kind: str, obj: Encoded) -> SelectingObject:
    """Decode an object of one of the kinds that select pods.

    Raises
    ------
    DecodeError
        If a field has the wrong type or the selector is invalid; the message names the object and the field.
    """

    def build(wire: _WirePlain | _WireSelecting) -> SelectingObject:
        selector = wire.spec.selector
        if isinstance(selector, dict):
            selector = WireLabelSelector(match_labels=selector)
        meta = wire.metadata
        return SelectingObject(
            kind=kind,
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            resource_version=meta.version,
            selector=label_selector(selector, "spec.selector"),
        )

    if kind in _PLAIN:
        return decode_object(obj, kind, _plain, build)
    return decode_object(obj, kind, _selecting, build)
