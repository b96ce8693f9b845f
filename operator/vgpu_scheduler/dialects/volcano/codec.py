"""Volcano's wire formats: the card list that nodes register and the assignments that pods carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_scheduler.dialects.errors import CodecError

# Both plugins come from one root: the cards of a container are written alike, and so are Go's booleans.
from vgpu_scheduler.dialects.hami.codec import AssignedDevice, decode_assignments, go_bool
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.model import quoted

__all__ = ["AssignedDevice", "all_healthy", "decode_assignments", "decode_register", "encode_assignments"]

_FIELDS = 6
_MOST_DIGITS = 10


@dataclass(frozen=True, slots=True)
class RegisteredCard:
    """One card of a registration, as written there; memory is in the units that claims are in."""

    uuid: str
    count: int
    memory: int
    type: str
    health: bool
    mode: str


def decode_register(value: str) -> list[RegisteredCard]:
    """Decode ``uuid,count,memory,type,health,mode:`` per card; fields beyond the sixth are ignored.

    Volcano reads numbers that are none as 0, and breaks over items without fields. Here the former make the
    registration undecodable and the latter, if they are empty, are skipped.

    Raises
    ------
    CodecError
        If any part of it cannot be read: a registration counts as a whole or not at all.
    """
    if ":" not in value:
        raise CodecError("registration has no card separator ':'")
    return [_card(item) for item in value.split(":") if item]


def _card(item: str) -> RegisteredCard:
    fields = item.split(",")
    if len(fields) < _FIELDS:
        raise CodecError(f"registration item {quoted(item)} has {len(fields)} fields, not {_FIELDS}")
    # A card is unhealthy unless the plugin says otherwise in a word that Go reads.
    health = bool(go_bool(fields[4]))
    return RegisteredCard(
        fields[0], _number(fields[1], "count", item), _number(fields[2], "memory", item), fields[3], health, fields[5]
    )


def all_healthy(value: str) -> str:
    """Return a registration with all of its cards healthy; items that cannot be read stay as they are."""
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

    The plugin takes the position of an entry for the position of the container. Volcano writes none for
    containers that claim nothing, so that those behind them are taken for others; here their entry is empty.
    """
    return ";".join(
        "".join(f"{card.uuid},{card.type},{card.memory},{card.cores}:" for card in container)
        for container in containers
    )
