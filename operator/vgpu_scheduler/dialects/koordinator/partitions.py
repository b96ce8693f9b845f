"""Partitions, GPUs of a node that are given out together: the tables of nodes, and the requirements of pods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.dialects.errors import ClaimError, CodecError
from vgpu_scheduler.dialects.inventory import InventoryObject
from vgpu_scheduler.dialects.koordinator.names import (
    MODEL_LABEL,
    PARTITION_ANNOTATION,
    PARTITION_POLICY_LABEL,
    PARTITIONS_ANNOTATION,
)
from vgpu_scheduler.dialects.koordinator.parts import integer_of, list_of, object_of
from vgpu_scheduler.dialects.koordinator.pod_annotations import annotation_fields, word_of
from vgpu_scheduler.kernels import MOST_MEMBERS
from vgpu_scheduler.kube import Node, QuantityError, to_int
from vgpu_scheduler.model import MOST_BANDWIDTH, Partition, PartitionTable, quoted

_ONLY: Final = "Honor"
_RESTRICTED, _BEST_EFFORT = "Restricted", "BestEffort"
_MOST_PARTITIONS: Final = 1024
"""The maximum number of partitions of a node, because every claim tries all of them."""
_MOST_SCORE: Final = 2**20
_HOPPERS: Final = frozenset({"H100", "H800", "H20"})
_OF_HOPPERS: Final = tuple(
    Partition(tuple(range(first, first + size)), 1) for size in (1, 2, 4, 8) for first in range(0, 8, size)
)
"""Koordinator's built-in table for these models: eight joined GPUs, given out in aligned blocks of 1, 2, 4 and 8."""


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """A pod's requirements on its partition.

    Attributes
    ----------
    restricted
        Only partitions of the lowest score are accepted.
    bandwidth
        The minimum bandwidth of its bus, in bytes a second; None for no requirement.
    """

    restricted: bool = False
    bandwidth: int | None = None


def read_partition_spec(annotations: Mapping[str, str]) -> PartitionSpec | None:
    """Return a pod's requirements on its partition; None if it has no such annotation.

    Raises
    ------
    ClaimError
        If the annotation is malformed or asks for something unsupported.
    """
    if PARTITION_ANNOTATION not in annotations:
        return None
    fields = annotation_fields(annotations, PARTITION_ANNOTATION, ("allocatePolicy", "ringBusBandwidth"))
    words = (_RESTRICTED, _BEST_EFFORT)
    policy = word_of(fields.get("allocatePolicy"), words, PARTITION_ANNOTATION, "'allocatePolicy'")
    try:
        bandwidth = _bandwidth(fields.get("ringBusBandwidth"), "'ringBusBandwidth'")
    except CodecError as error:
        raise ClaimError(f"annotation {PARTITION_ANNOTATION}: {error}") from None
    return PartitionSpec(policy == _RESTRICTED, bandwidth)


def decode_partitions(inventory: InventoryObject, node: Node) -> PartitionTable | None:
    """Return the partition table of a node's GPUs; None if there is none.

    The table of the Device object, with the policy of that object, takes precedence over the built-in table of the
    model, with the policy of the node.

    Raises
    ------
    CodecError
        If the table is malformed.
    """
    metadata = object_of(inventory.get("metadata"), "metadata")
    text = object_of(metadata.get("annotations"), "metadata.annotations").get(PARTITIONS_ANNOTATION)
    if text:
        labels = object_of(metadata.get("labels"), "metadata.labels")
        try:
            return PartitionTable(tuple(_table(text)), only=labels.get(PARTITION_POLICY_LABEL) == _ONLY)
        except CodecError as error:
            raise CodecError(f"annotation {PARTITIONS_ANNOTATION}: {error}") from None
    only = node.labels.get(PARTITION_POLICY_LABEL) == _ONLY
    if node.labels.get(MODEL_LABEL) in _HOPPERS:
        return PartitionTable(_OF_HOPPERS, only=only)
    return PartitionTable(only=True) if only else None


def _table(text: object) -> Iterator[Partition]:
    try:
        by_size = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from None
    if not isinstance(by_size, Mapping):
        raise CodecError("it is not an object")
    if sum(len(list_of(listed, quoted(size))) for size, listed in by_size.items()) > _MOST_PARTITIONS:
        raise CodecError(f"more than {_MOST_PARTITIONS} partitions are more than a node has")
    for size, listed in by_size.items():
        for number, entry in enumerate(list_of(listed, quoted(size))):
            where = f"{quoted(size)}[{number}]"
            partition = _partition(object_of(entry, where), where)
            if str(len(partition.members)) != size:
                raise CodecError(f"{where}.minors: there are not {size}")
            yield partition


def _partition(fields: Mapping[str, Any], where: str) -> Partition:
    minors = [integer_of(each, f"{where}.minors", least=0) for each in list_of(fields.get("minors"), f"{where}.minors")]
    if len({*minors}) < len(minors) or max(minors, default=0) >= MOST_MEMBERS:
        raise CodecError(f"{where}.minors: {minors} are not different minors below {MOST_MEMBERS}")
    score = integer_of(fields.get("allocationScore"), f"{where}.allocationScore")
    if abs(score) > _MOST_SCORE:
        raise CodecError(f"{where}.allocationScore: {score} is more than a partition can have")
    bandwidth = _bandwidth(fields.get("ringBusBandwidth"), f"{where}.ringBusBandwidth")
    return Partition(tuple(sorted(minors)), score, bandwidth)


def _bandwidth(value: object, where: str) -> int | None:
    if value is None:
        return None
    try:
        amount = to_int(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1
    except QuantityError as error:
        raise CodecError(f"{where}: {error}") from None
    if not 0 <= amount <= MOST_BANDWIDTH:
        raise CodecError(f"{where}: {quoted(value)} is not a bandwidth")
    return amount
