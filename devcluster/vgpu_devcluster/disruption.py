"""The disruption controller: maintains the status of disruption budgets, on which evictions are decided.

There are no workload controllers here. A controller that owns pods is assumed to want as many as it ever had at once;
pods without a controller count only for budgets in absolute numbers, as in Kubernetes.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from .evictions import allow, is_ready, selects
from .resources import BUDGETS, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .store import Entry, Object, Store

_DELETION_TIMEOUT = timedelta(minutes=2)
"""How long a pod whose eviction was allowed counts as being evicted."""


class DisruptionController:
    """Updates budgets from the pods that they select."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: dict[str, int] = {}  # by the UID of the controller

    def sync(self, namespace: str) -> None:
        """Update the budgets of a namespace, or all budgets if it is empty."""
        budgets = self._store.table(BUDGETS).entries
        for key in [key for key in sorted(budgets) if namespace in {"", key[0]}]:
            self._sync(budgets[key])

    def _sync(self, entry: Entry) -> None:
        budget, old = entry.thaw(), entry.thaw()
        table = self._store.table(PODS).entries
        selector = budget["spec"].get("selector")
        selected = [pod for key, pod in table.items() if key[0] == entry.namespace and selects(selector, pod.labels)]
        pods = [pod.thaw() for pod in selected]
        expected, desired = self._counts(budget["spec"], pods)
        state = budget["status"]
        disrupted = _on_their_way(state.get("disruptedPods") or {}, pods)
        leaving = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]} | disrupted.keys()
        healthy = sum(is_ready(pod) and pod["metadata"]["name"] not in leaving for pod in pods)
        state |= {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(healthy - desired, 0) if expected > 0 else 0,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        state.pop("disruptedPods", None)
        if disrupted:
            state["disruptedPods"] = disrupted
        allow(budget)
        if budget != old:
            self._store.put(BUDGETS, budget, entry)

    def _counts(self, spec: Object, pods: list[Object]) -> tuple[int, int]:
        """Return the number of expected pods, and of pods that have to be healthy."""
        most_unavailable, least_available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if most_unavailable is not None:
            expected = self._scale(pods)
            return expected, max(expected - _scaled(most_unavailable, expected), 0)
        if isinstance(least_available, str):
            expected = self._scale(pods)
            return expected, _scaled(least_available, expected)
        return (len(pods), least_available) if least_available is not None else (0, 0)

    def _scale(self, pods: Iterable[Object]) -> int:
        """Return how many pods the controllers of the given pods want."""
        owned: dict[str, int] = {}
        for pod in pods:
            for owner in pod["metadata"].get("ownerReferences") or ():
                if owner.get("controller"):
                    owned[owner["uid"]] = owned.get(owner["uid"], 0) + 1
        for uid, count in owned.items():
            self._wanted[uid] = max(count, self._wanted.get(uid, 0))
        return sum(self._wanted[uid] for uid in owned)


def _scaled(value: int | str, total: int) -> int:
    """Return a number, or a percentage of a total, rounded up."""
    if isinstance(value, int):
        return value
    return math.ceil(int(value.removesuffix("%")) * total / 100)


def _on_their_way(disrupted: dict[str, str], pods: Iterable[Object]) -> dict[str, str]:
    """Return the pods whose eviction was allowed recently and that are not being deleted yet."""
    present = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    limit = datetime.now(UTC) - _DELETION_TIMEOUT
    return {name: at for name, at in disrupted.items() if name in present and datetime.fromisoformat(at) >= limit}
