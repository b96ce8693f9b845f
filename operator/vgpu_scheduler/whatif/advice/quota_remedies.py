"""Remedies for a pod that quotas of its namespace keep waiting: raise one limit, or several together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from vgpu_scheduler.kube import Object, QuantityError, to_milli
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, do

_LARGEST: Final = 2**40
"""The largest limit that is tried."""
_MOST_ROUNDS: Final = 32
"""The most rounds in which limits are raised for what pods ahead in the queue take."""


class _Limit(NamedTuple):
    """One limit of a quota: the quota's name, the resource, and the limit as written."""

    quota: str
    resource: str
    now: str

    @property
    def shown(self) -> str:
        """The limit as a plain number like the proposed one: the API server writes 10000 as 10k."""
        return str(self.steps) if self.now.endswith(("k", "M", "G")) else self.now

    @property
    def steps(self) -> int:
        """The limit, rounded down since fractions let in no pod; 0 if malformed."""
        try:
            return to_milli(self.now) // 1000
        except QuantityError:
            return 0


def raise_quotas(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Find, for each limit of the pod's namespace, the smallest value that lets the pod in with all others unchanged.

    If no single limit suffices, find the smallest values of all limits that have to be raised together.
    """
    raising = _Raising(waiting)
    limits = raising.limits()
    found = False
    try:
        for limit in limits:
            if raising.raise_least([limit]):
                found = True
                yield raising.remedy()
        if not found and len(limits) > 1 and raising.raise_least(limits):
            yield raising.remedy()
    finally:
        raising.values = {}
        raising.fits()


def unlimited_quota(quota: Object) -> Object:
    """Return a quota that limits nothing."""
    return {**quota, "spec": {**(quota.get("spec") or {}), "hard": {}}}


class _Raising:
    """Tries other values of quota limits.

    Attributes
    ----------
    values
        The raised limits with their values; all others are as written.
    """

    def __init__(self, waiting: HypotheticalPod) -> None:
        self._waiting = waiting
        self._written = waiting.world.quotas_of(waiting.pod.namespace)
        self.values: dict[_Limit, int] = {}

    def limits(self) -> list[_Limit]:
        """Return the limits of the quotas of the pod's namespace."""
        return [
            _Limit(quota["metadata"]["name"], resource, str(limit))
            for quota in self._written
            for resource, limit in _hard(quota).items()
        ]

    def fits(self) -> str:
        """Return the pod's node with these values; empty if it fits nowhere."""
        self._put()
        return self._waiting.node()

    def _fits_now(self) -> str:
        """Return the pod's node with these values, with all other pods where they are now."""
        self._put()
        return self._waiting.node_now()

    def _put(self) -> None:
        for quota in self._raised():
            self._waiting.world.replace_quota(quota)

    def raise_least(self, limits: Sequence[_Limit]) -> bool:
        """Raise the necessary limits, each to the smallest value with which the pod fits; tell whether it fits.

        Pods ahead in the queue take part of a raised limit. So the limits are raised for what these leave, then for
        what they take of the raised limits, until the pod fits.
        """
        if not self._raise_by_turns(limits):
            self.values = dict.fromkeys(limits, _LARGEST)
            if not self.fits():
                return False
        for limit in list(self.values):
            self._lower(limit, self.fits)
        return True

    def _raise_by_turns(self, limits: Sequence[_Limit]) -> bool:
        self.values = {}
        for _ in range(_MOST_ROUNDS):
            before = self.values
            self._put()
            with self._waiting.before_placed():
                needed = self._needed(limits)
            if needed is None:
                return False
            self.values = {limit: max(value, before.get(limit, 0)) for limit, value in (before | needed).items()}
            if self.values == before:
                return bool(before)
        return False

    def _needed(self, limits: Sequence[_Limit]) -> dict[_Limit, int] | None:
        """Return the smallest necessary values of the limits with all other pods in place; None if none suffice."""
        self.values = dict.fromkeys(limits, _LARGEST)
        if not self._fits_now():
            return None
        for limit in limits:
            self._lower(limit, self._fits_now)
        return self.values

    def _lower(self, limit: _Limit, fits: Callable[[], str]) -> None:
        """Lower a limit to the smallest value with which the pod fits, or leave it as written."""
        others = {other: value for other, value in self.values.items() if other != limit}
        low, high = limit.steps, self.values[limit]

        def fits_with(value: int) -> str:
            self.values = others if value <= low else {**others, limit: value}
            return fits()

        if fits_with(low):
            return
        if high == _LARGEST or fits_with(high - 1):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if fits_with(middle) else (middle, high)
        self.values = {**others, limit: high}

    def remedy(self) -> Remedy:
        """Return the remedy for the present values."""
        node = self.fits()
        title = f"ResourceQuota {self._waiting.pod.namespace}"
        worded = [
            f"{limit.resource} of {title}/{limit.quota} to {value} (it is {limit.shown})"
            for limit, value in self.values.items()
        ]
        changed = {limit.quota for limit in self.values}
        objects = tuple(quota for quota in self._raised() if quota["metadata"]["name"] in changed)
        return Remedy(RemedyType.RAISE_QUOTA, do(f"raise {' and '.join(worded)}"), node, objects=objects)

    def _raised(self) -> Iterator[Object]:
        """Yield the quotas of the namespace with these values."""
        for quota in self._written:
            name = quota["metadata"]["name"]
            hard = {
                resource: str(self.values.get(_Limit(name, resource, str(limit)), limit))
                for resource, limit in _hard(quota).items()
            }
            yield {**quota, "spec": {**(quota.get("spec") or {}), "hard": hard}}


def _hard(quota: Object) -> Object:
    return (quota.get("spec") or {}).get("hard") or {}
