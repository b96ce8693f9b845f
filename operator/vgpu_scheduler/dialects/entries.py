"""Entries of allocation annotations, one per container, as HAMi's and Volcano's plugins write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_Entry = TypeVar("_Entry")


def realign(entries: Sequence[tuple[_Entry, ...]], claimants: Sequence[bool]) -> list[tuple[_Entry, ...]] | None:
    """Give each container of a pod its entry, whatever padding the writer left out.

    HAMi 2.10.0 writes no entry for containers without devices, 2.4 leaves out leading ones, and plugins append empty
    entries. When the entries do not stand at the containers that claim devices, the n-th entry with devices belongs
    to the n-th claimant.

    Parameters
    ----------
    entries
        The decoded annotation.
    claimants
        Whether each container claims devices of the vendor, init containers first.

    Returns
    -------
    list or None
        One entry per container; None when there are more entries with devices than claimants.
    """
    filled = [entry for entry in entries if entry]
    if len(filled) > sum(claimants):
        return None
    in_place = len(entries) >= len(claimants) or not entries
    if in_place and all(claims or not entry for entry, claims in zip(entries, claimants, strict=False)):
        padded = [*entries[: len(claimants)], *[()] * (len(claimants) - len(entries))]
        if sum(map(bool, padded)) == len(filled):
            return padded
    rest = iter(filled)
    return [next(rest, ()) if claims else () for claims in claimants]
