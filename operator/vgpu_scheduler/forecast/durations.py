"""What is known of how long pods run, by who made them and what they ask for.

A pod is of several classes, from the narrow to the wide: pods of its owner; those of its namespace that ask for the
same; those of its namespace; all. The narrow ones know best, where they know enough: each is believed as far as it has
seen pods grow as old as this one, and what it leaves open is up to the next. Pods of one kind of controller say nothing
of those of another: a Deployment's pods last until somebody replaces them, a Job's until their work is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Final

import numpy as np

from vgpu_scheduler.forecast.lifetimes import ObservedLifetime
from vgpu_scheduler.forecast.survival import Survival
from vgpu_scheduler.kube import Pod

__all__ = ["Duration", "DurationClass", "Durations"]

HALF_BELIEVED: Final = 5
"""With so many pods that have grown as old, a class decides half of the draws, and wider ones the others."""


class DurationClass(Enum):
    """Whose lifetimes are known, from the narrow to the wide; the values are how sentences about pods call them."""

    OWNER = "of their owner"
    REQUEST = "of their namespace that ask for the same"
    NAMESPACE = "of their namespace"
    ALL = "of the cluster"


@dataclass(frozen=True, slots=True)
class Duration:
    """How much longer a pod runs.

    Attributes
    ----------
    seconds
        Infinity where nobody can say that it ends.
    known_from
        Whose lifetimes say so; None where none do.
    """

    seconds: float
    known_from: DurationClass | None


class Durations:
    """How long pods run.

    Parameters
    ----------
    lifetimes
        What is known, of pods that have ended as of those that still run.
    """

    def __init__(self, lifetimes: Iterable[ObservedLifetime]) -> None:
        members: defaultdict[Hashable, list[ObservedLifetime]] = defaultdict(list)
        for each in lifetimes:
            for _, key in _classes(each.pod):
                members[key].append(each)
        self._known = {key: _survival(found) for key, found in members.items() if any(each.ended for each in found)}

    def __bool__(self) -> bool:
        return bool(self._known)

    def ended(self, pod: Pod, of_whom: DurationClass) -> int:
        """Return of how many pods of a class of this one it is known how long they ran."""
        known = self._known.get(dict(_classes(pod)).get(of_whom))
        return 0 if known is None else known.ended

    def draw(self, pod: Pod, age: float, rng: np.random.Generator) -> Duration:
        """Draw how much longer a pod runs.

        Parameters
        ----------
        age
            Seconds that it has run; 0 for one that waits.
        """
        chance, believed = rng.random(), rng.random()
        if pod.is_node_bound:
            return Duration(inf, None)
        widest: tuple[DurationClass, Survival] | None = None
        for of_whom, key in _classes(pod):
            known = self._known.get(key)
            outlived = 0 if known is None else known.outlived(age)
            if known is None or not outlived:
                continue
            widest = of_whom, known
            part = outlived / (outlived + HALF_BELIEVED)
            if believed < part:
                break
            believed = (believed - part) / (1.0 - part)
        if widest is None:
            return Duration(inf, None)
        of_whom, known = widest
        return Duration(known.rest(age, chance), of_whom)


def _classes(pod: Pod) -> Iterator[tuple[DurationClass, Hashable]]:
    """Yield the classes of a pod, from the narrow to the wide."""
    kind = pod.owner_kind
    if pod.owner:
        yield DurationClass.OWNER, (kind, pod.namespace, pod.owner)
    yield DurationClass.REQUEST, (kind, pod.namespace, _asked(pod))
    yield DurationClass.NAMESPACE, (kind, pod.namespace)
    yield DurationClass.ALL, (kind,)


def _asked(pod: Pod) -> Hashable:
    return tuple(
        (tuple(sorted(each.limits.items())), tuple(sorted(each.requests.items()))) for each in pod.spec.containers
    )


def _survival(lifetimes: list[ObservedLifetime]) -> Survival:
    return Survival(
        [each.seconds for each in lifetimes],
        [each.ended for each in lifetimes],
        [each.entered for each in lifetimes],
    )
