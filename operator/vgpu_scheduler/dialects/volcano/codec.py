"""Volcano's wire formats: the card list that nodes register and the assignments that pods carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_scheduler.dialects.errors import CodecError

# Volcano's and HAMi's plugins have a common origin: cards of containers and booleans are written alike.
from vgpu_scheduler.dialects.hami.codec import AssignedDevice
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.kube import go_bool
from vgpu_scheduler.model import quoted

_FIELDS = 6
_MOST_DIGITS = 10


@dataclass(frozen=True, slots=True)
class RegisteredCard:
    """One card of a registration, as written; memory is in the unit of claims."""

    uuid: str
    count: int
    memory: int
    type: str
    health: bool
    mode: str


def decode_register(value: str) -> list[RegisteredCard]:
    """Decode ``uuid,count,memory,type,health,mode:`` per card; fields beyond the sixth are ignored.

    Volcano reads invalid numbers as 0, and crashes on items without fields. Here invalid numbers are errors, and empty
    items are skipped.

    Raises
    ------
    CodecError
        If any part of it is invalid; no card is then used.
    """
    if ":" not in value:
        raise CodecError("registration has no card separator ':'")
    return [_card(item) for item in value.split(":") if item]


def _card(item: str) -> RegisteredCard:
    fields = item.split(",")
    if len(fields) < _FIELDS:
        raise CodecError(f"registration item {quoted(item)} has {len(fields)} fields, not {_FIELDS}")
    # A card is unhealthy unless the field is true by Go's ParseBool.
    health = bool(go_bool(fields[4]))
    return RegisteredCard(
        fields[0], _number(fields[1], "count", item), _number(fields[2], "memory", item), fields[3], health, fields[5]
    )


def all_healthy(value: str) -> str:
    """Return a registration with all cards healthy; malformed items are kept unchanged."""
    return ":".join(map(_healthy_item, value.split(":")))


def _healthy_item(item: str) -> str:
    fields = item.split(",")
    return ",".join([*fields[:4], "true", *fields[5:]]) if len(fields) >= _FIELDS else item


def _number(text: str, name: str, item: str) -> int:
    digits = text.lstrip("0") or "0"
    if not (text.isascii() and text.isdigit()) or len(digits) > _MOST_DIGITS or int(digits) > INT32:
        raise CodecError(f"registration item {quoted(item)}: {name} {quoted(text)} is not an integer in range")
    return int(digits)


def encode_assignments(containers: Sequence[Sequence[AssignedDevice]]) -> str:
    """Encode one entry per regular container, joined by ``;``, each card terminated by ``:``.

    The plugin matches entries with containers by position. Volcano writes no entry for containers without claims, so
    that later containers are confused; here they get an empty entry.
    """
    return ";".join(
        "".join(f"{card.uuid},{card.type},{card.memory},{card.cores}:" for card in container)
        for container in containers
    )
