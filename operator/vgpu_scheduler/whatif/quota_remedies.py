"""What would help a pod that quotas of its namespace keep waiting: to raise them, one limit or several together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod

__all__ = ["raise_quotas"]

Object = Mapping[str, Any]

_DIGITS: Final = 12
_LARGEST: Final = 2**40
"""The most that a limit is searched up to, in steps."""


class _Limit(NamedTuple):
    """One limit of a quota: its name, the resource, and what the limit is, as written."""

    quota: str
    resource: str
    now: str


def raise_quotas(waiting: WaitingPod) -> Iterator[Remedy]:
    """Search, of each limit of the pod's namespace, the smallest that lets it in while all others stay.

    Where no single one does, the smallest of each that do together, of those that have to be raised at all.
    """
    raising = _Raising(waiting)
    limits = raising.limits()
    found = False
    try:
        for limit in limits:
            value = _smallest(limit, raising.try_value(limit))
            if value is not None:
                raising.values = {limit: value}
                found = True
                yield raising.remedy()
            raising.values = {}
        if not found and len(limits) > 1:
            yield from _together(raising, limits)
    finally:
        raising.values = {}
        raising.fits()


def _together(raising: _Raising, limits: list[_Limit]) -> Iterator[Remedy]:
    """Raise several limits, of which none could stay as it is, each as little as does."""
    raising.values = dict.fromkeys(limits, _LARGEST)
    if not raising.fits():
        return
    for limit in limits:
        del raising.values[limit]
        if not raising.fits():
            raising.values[limit] = _LARGEST
    for limit in list(raising.values):
        value = _smallest(limit, raising.try_value(limit))
        assert value is not None, "a pod that fits with the largest limit fits with some"
        raising.values[limit] = value
    yield raising.remedy()


class _Raising:
    """Tries limits of quotas with other values.

    Attributes
    ----------
    values
        The limits that are raised, with their values; all others are as they were written.
    """

    def __init__(self, waiting: WaitingPod) -> None:
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
        """Return where the pod goes with the values; empty where it fits nowhere."""
        for quota in self._raised():
            self._waiting.world.replace_quota(quota)
        return self._waiting.node()

    def try_value(self, limit: _Limit) -> Callable[[int], bool]:
        """Return what tells whether the pod fits with a value of one limit, while the others stay."""

        def fits(value: int) -> bool:
            before = self.values
            self.values = {**before, limit: value}
            try:
                return bool(self.fits())
            finally:
                self.values = before

        return fits

    def remedy(self) -> Remedy:
        """Return what is to be done, with the values that there are."""
        node = self.fits()
        title = f"ResourceQuota {self._waiting.pod.namespace}"
        worded = [
            f"{limit.resource} of {title}/{limit.quota} to {value} (it is {limit.now})"
            for limit, value in self.values.items()
        ]
        changed = {limit.quota for limit in self.values}
        objects = tuple(quota for quota in self._raised() if quota["metadata"]["name"] in changed)
        return Remedy(RemedyKind.RAISE_QUOTA, f"raise {' and '.join(worded)}", node, objects=objects)

    def _raised(self) -> Iterator[Object]:
        """Yield the quotas of the namespace with the values."""
        for quota in self._written:
            name = quota["metadata"]["name"]
            hard = {
                resource: str(self.values.get(_Limit(name, resource, str(limit)), limit))
                for resource, limit in _hard(quota).items()
            }
            yield {**quota, "spec": {**(quota.get("spec") or {}), "hard": hard}}


def _hard(quota: Object) -> Object:
    return (quota.get("spec") or {}).get("hard") or {}


def _smallest(limit: _Limit, fits: Callable[[int], bool]) -> int | None:
    """Return the smallest value of a limit with which the pod fits; None if it fits with none."""
    now = limit.now
    low, high = int(now) if now.isdecimal() and len(now) < _DIGITS else 0, _LARGEST
    if not fits(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
