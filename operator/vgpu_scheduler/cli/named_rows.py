"""Selects the rows of a table that the command line names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vgpu_scheduler.model import did_you_mean, names_model
from vgpu_scheduler.reading import CardPlace
from vgpu_scheduler.whatif import InvalidObjectsError
from vgpu_scheduler.whatif.world.usage_rows import CardUsage


def named_rows(subject: str, rows: Sequence[Any], names: Sequence[str], among: str = "") -> list[Any]:
    """Return the named rows of nodes, models or namespaces, or all rows if none is named.

    Parameters
    ----------
    among
        How the error calls the rows if they are only some of the cluster's.

    Raises
    ------
    InvalidObjectsError
        If no row has a name.
    """
    if not names:
        return list(rows)
    kind, matches = subject[:-1], names_model if subject == "models" else str.__eq__
    known = [str(getattr(row, kind)) for row in rows]
    for name in names:
        if not any(matches(name, each) for each in known):
            what = f"there is no {kind} {name} with cards{among}"
            raise InvalidObjectsError(f"{subject}: {what}{did_you_mean(name, known)}")
    return [row for row, own in zip(rows, known, strict=True) if any(matches(name, own) for name in names)]


def named_cards(
    cards: Sequence[CardUsage], names: Sequence[str], find: Callable[[str], CardPlace]
) -> Sequence[CardUsage]:
    """Return the named cards, or all if none is named.

    Parameters
    ----------
    find
        Finds the card of a name.
    """
    places = {(place.node, place.name) for place in map(find, names)}
    return [card for card in cards if (card.node, card.card) in places] if names else cards
