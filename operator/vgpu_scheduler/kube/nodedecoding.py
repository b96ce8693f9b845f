"""Decoding of nodes, and of the objects that list their devices."""

from functools import lru_cache
from typing import Any, Final

import msgspec

from vgpu_scheduler.kube.decoding import Decode, DecodeError, Encoded, decode_object, decoder_of
from vgpu_scheduler.kube.nesting import decode_json
from vgpu_scheduler.kube.objects import Node, NodeInventory, node_images
from vgpu_scheduler.kube.quantities import CPU, PODS, QuantityError, is_schedulable, to_exact_int, to_int, to_milli
from vgpu_scheduler.kube.taints import taint
from vgpu_scheduler.kube.wire import FieldError, Quantities, WireNode, WirePartial


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


decode_node: Final[Decode[Node]] = decoder_of("Node", WireNode, _node)
"""Reads a node."""

_partial: Final = msgspec.json.Decoder(WirePartial)


def decode_inventory(kind: str, obj: Encoded) -> NodeInventory:
    """Decode the metadata of an object that lists the devices of a node; the dialect reads the devices.

    Raises
    ------
    DecodeError
        If its metadata cannot be read; the message names the field.
    """
    try:
        content: Any = decode_json(obj) if isinstance(obj, bytes | msgspec.Raw) else obj
    except ValueError as error:
        raise DecodeError(kind, "", "", str(error)) from error

    def build(wire: WirePartial) -> NodeInventory:
        meta = wire.metadata
        if not meta.name:
            raise FieldError("metadata.name", "is missing")
        return NodeInventory(meta.name, content, meta.uid, meta.version)

    return decode_object(content, kind, _partial, build)


@lru_cache(maxsize=1024)
def _features(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the features of a node, sorted and interned."""
    return tuple(sorted(names))


def _capacity(quantities: Quantities | None) -> dict[str, int]:
    """Return the capacity of extended resources; fractional quantities are left out."""
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
