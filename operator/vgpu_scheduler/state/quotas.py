"""What each namespace holds of each vendor's devices: the side of quotas that follows from the reservations."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.model import Amounts, Usage

_NONE: frozenset[str] = frozenset()


class QuotaUsage:
    """The sums of what the pods of a namespace hold, kept as reservations come and go.

    Notes
    -----
    It is charged wherever the ledger is, so it is the same pure function of the bound or assumed, non-terminal pods.
    What pods hold on cards or nodes that are not listed counts as well: they hold it all the same.
    """

    def __init__(self) -> None:
        self._used: dict[str, dict[str, list[int]]] = {}
        self._released: set[str] = set()

    def charge(self, namespace: str, usage: Usage, sign: int) -> None:
        """Add (``sign`` = 1) or give back (-1) what a pod holds."""
        if not usage.charges and not usage.unreadable:
            return
        vendors = self._used.setdefault(namespace, {})
        for vendor, amounts in usage.totals().items():
            used = vendors.setdefault(vendor, [])
            used += [0] * (len(amounts) - len(used))
            for dimension, amount in enumerate(amounts):
                used[dimension] += sign * amount
            if sign < 0 and not any(used):
                del vendors[vendor]
        if not vendors:
            del self._used[namespace]

    def released(self, namespace: str) -> None:
        """Note that a pod of a namespace gave back for good what it held."""
        self._released.add(namespace)

    def take_released(self) -> frozenset[str]:
        """Return the namespaces in which something was given back since this was last asked."""
        if not self._released:
            return _NONE
        released = frozenset(self._released)
        self._released.clear()
        return released

    def used(self, namespace: str, vendor: str, dimension: int) -> int:
        """Return how much a namespace holds of one dimension of a vendor's devices."""
        used = self._used.get(namespace, {}).get(vendor, ())
        return used[dimension] if dimension < len(used) else 0

    def as_values(self) -> Mapping[str, Mapping[str, Amounts]]:
        """Return everything, to be compared: namespace, vendor, amounts without the zeros at the end."""
        everything = {
            namespace: {vendor: _trimmed(used) for vendor, used in vendors.items() if any(used)}
            for namespace, vendors in self._used.items()
        }
        return {namespace: vendors for namespace, vendors in everything.items() if vendors}

    def copy(self) -> QuotaUsage:
        """Return an independent copy, for what-if questions."""
        twin = QuotaUsage()
        twin._used = {
            namespace: {vendor: list(used) for vendor, used in vendors.items()}
            for namespace, vendors in self._used.items()
        }
        return twin


def _trimmed(used: list[int]) -> Amounts:
    end = max((number for number, amount in enumerate(used, start=1) if amount), default=0)
    return tuple(used[:end])
