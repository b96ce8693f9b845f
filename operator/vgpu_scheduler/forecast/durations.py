"""Estimate how long pods run, from pods with the same owner or equal requests.

A pod belongs to several classes, from narrow to wide: pods of its owner; pods of its namespace with equal requests;
pods of its namespace; all pods. A narrow class is preferred, with a weight that grows with the number of its pods that
reached the pod's age; the rest of the weight goes to the next wider class. Classes are separate for each kind of
controller: a Deployment's pods run until they are replaced, a Job's until their work is done.
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

HALF_BELIEVED: Final = 5
"""The number of pods of equal age at which a class decides half of the draws, and wider classes the rest."""


class DurationClass(Enum):
    """The classes of known durations, from narrow to wide; the values are used in sentences about pods."""

    OWNER = "of the same owner"
    REQUEST = "of the same namespace that ask for the same"
    NAMESPACE = "of the same namespace"
    ALL = "of the cluster"


@dataclass(frozen=True, slots=True)
class Duration:
    """How much longer a pod runs.

    Attributes
    ----------
    seconds
        The remaining duration; infinity if its end is unknown.
    known_from
        The class from which it was drawn; None if from none.
    """

    seconds: float
    known_from: DurationClass | None


class Durations:
    """The distribution of pod durations.

    Parameters
    ----------
    lifetimes
        The observed durations of ended and of running pods.
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
        """Return the number of ended pods in a class of a pod."""
        known = self._known.get(dict(_classes(pod)).get(of_whom))
        return 0 if known is None else known.ended

    def draw(self, pod: Pod, age: float, rng: np.random.Generator) -> Duration:
        """Draw how much longer a pod runs.

        Parameters
        ----------
        age
            The seconds that it has run; 0 for a waiting pod.
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
    """Yield the classes of a pod, from narrow to wide."""
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
