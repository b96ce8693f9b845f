"""Amounts that a container asks for, as written and as numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tests.naive.go_quantity import as_int64
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_wire import INT32
from tests.naive.vendors.model import Obj, go_int32

from vgpu_scheduler.kube import QuantityError


@dataclass(frozen=True)
class Amounts:
    """The amounts of one container under a vendor's resource names; what is not an integer is missing in ``number``."""

    text: Mapping[str, str]
    number: Mapping[str, int]
    in_bytes: str = ""
    """The resource that may be given in bytes, of which there may be more than 32 bits hold."""
    unit: Mapping[str, int] = field(default_factory=dict)
    """What a plain number of a resource is in, of what is counted; 1 where it is not said."""

    @classmethod
    def of(cls, resources: Obj, names: Collection[str], *, limits_only: bool = False) -> Amounts:
        text: dict[str, str] = {}
        for where in ("limits",) if limits_only else ("requests", "limits"):
            text |= {name: str(value) for name, value in (resources.get(where) or {}).items() if name in names and name}
        number = {name: amount for name, value in text.items() if (amount := exact(value)) is not None}
        return cls(text, number)

    def malformed(self) -> set[str]:
        """Name what is not a whole number of 0 or more, and less than makes more than 32 bits hold."""
        found = set()
        for name, text in self.text.items():
            bytes_of_one = 2**20 if name == self.in_bytes and not text.isdigit() else 1
            most = INT32 * bytes_of_one if bytes_of_one > 1 else INT32 // self.unit.get(name, 1)
            number = self.number.get(name, -1)
            if not 0 <= number <= most or 0 < number < bytes_of_one:
                found.add(name)
        return found


def exact(text: str) -> int | None:
    try:
        return as_int64(text)
    except QuantityError:
        return None


def refused(amounts: Amounts, counts: Collection[str], switch: Switches) -> set[str]:
    """Name the amounts that this scheduler refuses: malformed ones, and any without a count."""
    if amounts.text.keys() & counts:
        malformed = amounts.malformed()
        return malformed if malformed and not switch(Quirk.BAD_QUANTITY_DROPPED) else set()
    alone = set(amounts.text)
    return alone if alone and not switch(Quirk.AMOUNT_WITHOUT_COUNT_DROPPED) else set()


def count_of(amounts: Amounts, name: str) -> int:
    """HAMi's number of devices: what 32 bits hold of it; 0 if it is none."""
    return go_int32(amounts.number.get(name, 0))


def in_range(amounts: Amounts, name: str) -> bool:
    """Whether a number, if there is one, is what 32 bits hold; some backends take what is left of it there."""
    return 0 <= amounts.number.get(name, 0) <= INT32


def memory_of(amounts: Amounts, name: str, factor: int) -> int | None:
    """MiB; 0 for what is not a whole number, as for nothing, and None where HAMi gives up on the whole container."""
    amount = amounts.number.get(name, 0)
    return amount * factor if 0 <= amount <= INT32 // factor else None


def cores_of(amounts: Amounts, name: str, default: int) -> int:
    return go_int32(amounts.number[name]) if name in amounts.number else default
