"""What each namespace holds of cards, may hold, and waits for."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.ui.sight import EVERYTHING, Sight
from vgpu_scheduler.whatif import World, usage

_HEAD: Final = ("namespace", "pods", "waiting", "cards", "memory_mib", "compute_percent", "quotas")


@dataclass(frozen=True, slots=True)
class NamespacesPage:
    """The namespaces whose pods hold something of a card or wait for one, or that have a quota."""

    rows: Sequence[usage.NamespaceUsage]

    def as_json(self) -> list[dict[str, Any]]:
        """Return it as plain values, as ``top namespaces -o json`` does."""
        return [usage.as_json(row) for row in self.rows]

    def as_csv(self) -> str:
        """Return it as a table for a spreadsheet."""
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow(_HEAD)
        for row in self.rows:
            quotas = "; ".join(map(str, row.quotas))
            table.writerow((row.namespace, row.pods, row.waiting, row.cards, row.memory, row.cores, quotas))
        return text.getvalue()


def namespaces_page(world: World, namespace: str = "", sight: Sight = EVERYTHING) -> NamespacesPage:
    """Return the namespaces.

    Parameters
    ----------
    namespace
        A part of their names; empty for all.
    sight
        Which are seen.
    """
    rows = usage.namespaces(world)
    return NamespacesPage([row for row in rows if namespace in row.namespace and sight.sees(row.namespace)])
