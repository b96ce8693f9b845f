"""Cards that a device plugin registers in an annotation of its node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.codec import RegisteredDevice, decode_register
from vgpu_scheduler.dialects.hami.vendors.base import CardSource
from vgpu_scheduler.dialects.inventory import check_number
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import PLAIN_SCHEMA, Device, DimensionRoles, quoted

_SEPARATORS = frozenset(",:;")
_BLANKS = str.maketrans(dict.fromkeys(_SEPARATORS, " "))


def decode_cards(value: str) -> Sequence[RegisteredDevice]:
    """Decode a registration, and check it for plausibility.

    Raises
    ------
    CodecError
        If it is malformed, lists a card twice, a card with a separator in its id, or too many cards.
    """
    return checked(decode_register(value))


def checked(registered: Sequence[RegisteredDevice]) -> Sequence[RegisteredDevice]:
    """Return cards unchanged after checking them; see :func:`decode_cards`."""
    check_number(len(registered))
    seen: set[str] = set()
    for card in registered:
        if _SEPARATORS.intersection(card.id):
            raise CodecError(f"device {quoted(card.id)} has a separator of the assignment format in its id")
        if card.id in seen:
            raise CodecError(f"device {card.id} is listed twice")
        seen.add(card.id)
    return registered


def without_separators(text: str) -> str:
    """Replace the separators of the assignment format in a text by blanks."""
    return text.translate(_BLANKS)


def as_written(
    card: RegisteredDevice,
    vendor: str,
    *,
    schema: DimensionRoles = PLAIN_SCHEMA,
    cordoned: bool = False,
    links: tuple[tuple[str, int], ...] = (),
) -> Device:
    """Return the device of a registered card, with further properties from other sources."""
    return Device(
        uuid=card.id,
        vendor=vendor,
        type=card.type,
        total=(max(card.count, 0), max(card.devmem, 0), max(card.devcore, 0)),
        index=card.index,
        numa=card.numa,
        mode=card.mode,
        healthy=card.health,
        tag=str(card.index),
        schema=schema,
        cordoned=cordoned,
        links=links,
    )


@dataclass(frozen=True, slots=True)
class Registered:
    """Cards that are registered in one annotation.

    Attributes
    ----------
    annotation
        The name of the annotation.
    device
        Makes the device of a registered card of a vendor.
    """

    annotation: str
    device: Callable[[RegisteredDevice, str], Device] = as_written

    cordon = ""
    health = "health"

    @property
    def source(self) -> CardSource:
        """Where nodes list the cards."""
        return CardSource(annotation=self.annotation)

    def facts(self, node: Node) -> Hashable | None:
        """Return the registration."""
        return node.annotations.get(self.annotation)

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards in the order of the annotation; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, str)
        return tuple(self.device(card, vendor) for card in decode_cards(facts))
