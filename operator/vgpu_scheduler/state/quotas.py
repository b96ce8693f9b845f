"""Quota usage: what each namespace holds of each vendor's devices, derived from the reservations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_scheduler.model import Amounts, Usage, Uses, VendorKey

_NO_CARDS: Mapping[tuple[str, str], int] = {}


class QuotaUsage:
    """Sums of what the pods of each namespace hold, updated as reservations are booked and released.

    Notes
    -----
    It is charged wherever the ledger is, so it is the same pure function of the bound or assumed, non-terminal pods.
    Reservations on cards or nodes that are not listed count as well.

    Parameters
    ----------
    by_card
        Pairs of vendor and dimension whose usage is also kept per card, because its quota value depends on the card.
    """

    def __init__(self, by_card: Iterable[tuple[VendorKey, int]] = ()) -> None:
        self.version = 0
        """Rises whenever anything is added or given back."""
        self._used: dict[str, dict[VendorKey, list[int]]] = {}
        self._by_card: dict[tuple[VendorKey, int], dict[str, dict[tuple[str, str], int]]] = {of: {} for of in by_card}
        self._dimensions: dict[VendorKey, list[int]] = {}
        for vendor, dimension in sorted(self._by_card):
            self._dimensions.setdefault(vendor, []).append(dimension)

    @property
    def by_card(self) -> tuple[tuple[VendorKey, int], ...]:
        """The vendors and dimensions that are kept per card."""
        return tuple(self._by_card)

    def charge(self, namespace: str, uses: Uses, sign: int, node: str = "") -> None:
        """Add (``sign`` = 1) or give back (-1) what a pod holds on a node."""
        for dialect, usage in uses.items():
            if usage.charges or usage.unreadable:
                self.version += 1
                self._charge(namespace, dialect, usage, sign, node)

    def _charge(self, namespace: str, dialect: str, usage: Usage, sign: int, node: str) -> None:
        if self._by_card:
            self._charge_cards(namespace, dialect, usage, sign, node)
        vendors = self._used.setdefault(namespace, {})
        for word, amounts in usage.totals().items():
            vendor = (dialect, word)
            used = vendors.setdefault(vendor, [])
            used += [0] * (len(amounts) - len(used))
            for dimension, amount in enumerate(amounts):
                used[dimension] += sign * amount
            if sign < 0 and not any(used):
                del vendors[vendor]
        if not vendors:
            del self._used[namespace]

    def _charge_cards(self, namespace: str, dialect: str, usage: Usage, sign: int, node: str) -> None:
        for uuid, amounts in usage.charges.items():
            vendor = (dialect, usage.vendors.get(uuid, ""))
            for dimension in self._dimensions.get(vendor, ()):
                if not any(amounts[dimension : dimension + 1]):
                    continue
                namespaces = self._by_card[vendor, dimension]
                cards = namespaces.setdefault(namespace, {})
                cards[node, uuid] = cards.get((node, uuid), 0) + sign * amounts[dimension]
                if not cards[node, uuid]:
                    del cards[node, uuid]
                if not cards:
                    del namespaces[namespace]

    def used(self, namespace: str, vendor: VendorKey, dimension: int) -> int:
        """Return how much a namespace holds of one dimension of a vendor's devices."""
        used = self._used.get(namespace, {}).get(vendor, ())
        return used[dimension] if dimension < len(used) else 0

    def on_cards(self, namespace: str, vendor: VendorKey, dimension: int) -> Mapping[tuple[str, str], int]:
        """Return how much of a per-card dimension a namespace holds: node and UUID to amount."""
        return self._by_card.get((vendor, dimension), {}).get(namespace, _NO_CARDS)

    def as_values(self) -> Mapping[str, Mapping[VendorKey, Amounts]]:
        """Return everything for comparison: namespace, vendor, amounts without trailing zeros."""
        everything = {
            namespace: {vendor: _trimmed(used) for vendor, used in vendors.items() if any(used)}
            for namespace, vendors in self._used.items()
        }
        return {namespace: vendors for namespace, vendors in everything.items() if vendors}


def _trimmed(used: list[int]) -> Amounts:
    end = max((number for number, amount in enumerate(used, start=1) if amount), default=0)
    return tuple(used[:end])
