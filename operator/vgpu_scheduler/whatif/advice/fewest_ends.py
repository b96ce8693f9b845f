"""The fewest pods without which a pod that waits would fit.

These are pods of one node, those near it that anti-affinity keeps apart from the pod, and those of its namespace where
quotas count.

Sets of pods are tried by their size, and of one size those of low priority first. A set of which more would have to be
gone than those that hold the most of everything is left out untried.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations, islice, product
from typing import Final, NamedTuple

from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod
from vgpu_scheduler.whatif.moves.occupants import (
    Occupant,
    OutOfQuestionsError,
    largest_of,
    needed_of,
    occupant_of,
    of_quotas,
)
from vgpu_scheduler.whatif.moves.repelling import repelling_pods

__all__ = ["PodsToEnd", "fewest_ends", "may_end"]

_MOST_NEAR: Final = 600
"""Questions at most about a pod that has to be near others, where that of the fewest was too much."""
_MOST_QUESTIONS: Final = 600
_MOST_IN_A_HURRY: Final = 200
_FEW: Final = 2
"""Pods from which on it is worth to find out first where the end of all would help."""
_MOST_FOUND: Final = 16
"""Sets that are given back."""
_MOST_PLACES: Final = 4
"""Places of which it is worked out which pods would have to end, where the fewest are too many to be searched."""
_MOST_CHOICES: Final = 64
"""Choices of pods whose budgets do not allow the end of all, that are tried on a node."""


class PodsToEnd(NamedTuple):
    """Pods that would have to end.

    Attributes
    ----------
    node
        Where the pod would have its place then; empty where that is not theirs alone to say.
    pods
        Those that would have to end, and those that are ending already and have to be waited for.
    """

    node: str
    pods: list[Pod]

    @property
    def ended(self) -> list[Pod]:
        """Those of which it has to be asked."""
        return [pod for pod in self.pods if not pod.deleting]

    @property
    def priority(self) -> int:
        """That of the most important one of which it has to be asked."""
        return max((pod.priority for pod in self.ended), default=0)

    def is_worse_than(self, other: PodsToEnd) -> bool:
        """Tell whether fewer others would do of which none is more important."""
        return len(other.ended) < len(self.ended) and other.priority <= self.priority

    @property
    def rank(self) -> tuple[int, int, str]:
        """The fewest first."""
        return len(self.ended), self.priority, self.node


def fewest_ends(waiting: HypotheticalPod, among: Callable[[Pod], bool] | None = None) -> list[PodsToEnd]:
    """Return sets of pods without which the pod would fit: the fewest, then more that are of lower priority.

    Where that would take too many questions, sets of which none could stay.

    Parameters
    ----------
    among
        Tells whether a pod is one of those that may end; they all may without it. With it, nothing is returned where
        that would take too many questions.
    """
    search = _Search(waiting, among or (lambda _: True))
    return list(search.sets()) or ([] if among else search.without_reprieved_pods())


class _Place:
    """Where a pod may go once others are gone, and which these are.

    Parameters
    ----------
    node
        The node; empty for any.
    own
        Pods that hold something there, and those near it whose anti-affinity, or that of the pod, keeps the pod away.
    beside
        Pods elsewhere that hold what a quota leaves too little of.
    """

    def __init__(self, waiting: HypotheticalPod, node: str, own: Sequence[Pod], beside: Sequence[Pod]) -> None:
        self._waiting = waiting
        self.node = node
        self.own = own
        self.beside = beside

    def fits(self, gone: Sequence[Pod]) -> bool:
        """Tell whether the pod fits there once some pods are gone and those before it have their places."""
        if self.node:
            return self._waiting.fits_on(self.node, gone)
        with self._waiting.world.engine.state.without(pod.uid for pod in gone):
            return bool(self._waiting.node())

    def may_fit(self, gone: Iterable[Pod]) -> bool:
        """Tell whether the pod fits there once some pods are gone if nobody was served before it."""
        with self._waiting.world.engine.state.without(pod.uid for pod in gone):
            if self.node:
                return self._waiting.fits_now_on(self.node)
            return bool(self._waiting.node_now())


class _Search:
    """Searches sets of pods.

    Parameters
    ----------
    waiting
        The pod that waits.
    among
        Tells whether a pod is one of those that may end.
    """

    def __init__(self, waiting: HypotheticalPod, among: Callable[[Pod], bool]) -> None:
        self._waiting = waiting
        self._budgets = waiting.world.engine.budgets.all()
        self._left_near = _MOST_NEAR
        self._left = _MOST_QUESTIONS if waiting.most_nodes is None else _MOST_IN_A_HURRY
        # What these count is no amount that a pod holds.
        self._counts_amounts = (
            not waiting.ours.spec.volume_claims and waiting.algorithm.classes.cluster_part(waiting.ours) is None
        )
        # Where nobody has such a term, more that end are taken never to hurt.
        self._may_miss_others = any(each.spec.required_pod_affinity for each in (waiting.ours, *waiting.at_once))
        self._occupants: dict[tuple[str, bool], Occupant] = {}
        self._places = list(self._all_places(among))

    def _all_places(self, among: Callable[[Pod], bool]) -> Iterator[_Place]:
        waiting, state = self._waiting, self._waiting.world.engine.state
        needed = waiting.world.engine.preemptions.evaluator.disruption.is_needed
        by_node: dict[str, list[Pod]] = {}
        holding: list[Pod] = []
        for pod in waiting.world.bound.values():
            if among(pod) and may_end(self._budgets, pod) and not needed(waiting.pod, (pod,)):
                by_node.setdefault(pod.node_name, []).append(pod)
                held = state.reservation(pod.uid)
                if waiting.limited and pod.namespace == waiting.pod.namespace and held and held.uses_devices:
                    holding.append(pod)
        known = {pod.uid for pods in by_node.values() for pod in pods}
        for node, near in repelling_pods(waiting.world, waiting.ours).items():
            by_node[node] = [*by_node.get(node, ()), *(pod for pod in near if pod.uid in known)]
        for pods in by_node.values():
            pods.sort(key=self._ending_order)
        holding.sort(key=self._ending_order)
        if holding:
            yield _Place(waiting, "", holding, ())
        for node, pods in islice(by_node.items(), waiting.most_nodes):
            own = {pod.uid for pod in pods}
            yield _Place(waiting, node, pods, [pod for pod in holding if pod.uid not in own])

    def _ending_order(self, pod: Pod) -> tuple[bool, int, int, str]:
        """Rank pods: those that end anyway first, then by priority, and of the same those that hold the most."""
        held = self._waiting.world.engine.state.reservation(pod.uid)
        charges = (usage.charges.values() for usage in held.uses.values()) if held is not None else ()
        return not pod.deleting, pod.priority, -sum(map(sum, chain.from_iterable(charges))), pod.key

    # The fewest -------------------------------------------------------------------------------------------------------

    def sets(self) -> Iterator[PodsToEnd]:
        """Yield sets of the fewest pods, then those of more that are of lower priority, for as long as it may ask."""
        with suppress(OutOfQuestionsError):
            yield from self._sets()

    def _sets(self) -> Iterator[PodsToEnd]:
        priorities = sorted({pod.priority for place in self._places for pod in (*place.own, *place.beside)})
        most = max((len(place.own) + len(place.beside) for place in self._places), default=0)
        seen: set[frozenset[str]] = set()
        for size in range(most + 1):
            if size == _FEW and not self._may_miss_others:
                self._places = [each for each in self._places if each.may_fit((*each.own, *each.beside))]
            if not priorities or not any(True for _ in self._of_size(size, priorities[-1])):
                continue
            for number, priority in enumerate(priorities):
                found = list(islice(self._of_size(size, priority), _MOST_FOUND))
                for each in found:
                    if (uids := frozenset(pod.uid for pod in each.pods)) not in seen:
                        seen.add(uids)
                        yield each
                if found:
                    priorities = priorities[:number]
                    break

    def _of_size(self, size: int, priority: int) -> Iterator[PodsToEnd]:
        """Yield a set of so many pods of each place that has one, of which none is more important than that."""
        for place in self._places:
            own, beside = (
                [self._occupant(pod, own=mine) for pod in pods if not pod.deleting and pod.priority <= priority]
                for pods, mine in ((place.own, bool(place.node)), (place.beside, False))
            )
            going = [pod for pod in (*place.own, *place.beside) if pod.deleting]
            if size == 0 and not going:
                continue
            for chosen in self._chosen(place, size, (own, beside), going):
                yield PodsToEnd(place.node, _all_are_needed([*going, *chosen], place.fits))
                break

    def _chosen(
        self,
        place: _Place,
        left: int,
        rest: tuple[Sequence[Occupant], Sequence[Occupant]],
        going: Sequence[Pod],
        chosen: tuple[Occupant, ...] = (),
    ) -> Iterator[list[Pod]]:
        """Yield sets of so many more pods of a place, at least one of them there, without which the pod fits there."""
        own, beside = rest
        ending = [occupant.pod for occupant in chosen]
        if not left:
            if _allowed(self._budgets, ending) and self._ask(place.fits, [*going, *ending]):
                yield ending
            return
        elsewhere = beside if chosen or left > 1 else ()
        if len(own) + len(elsewhere) < left or (not chosen and not own):
            return
        if not self._may_miss_others:
            largest = (*self._largest(own, left), *self._largest(elsewhere, left if chosen else left - 1))
            if not self._ask(place.may_fit, [*going, *ending, *(occupant.pod for occupant in largest)]):
                return
        tried: set[object] = set()
        for number, occupant in enumerate((*own, *beside) if chosen else own):
            alike = (occupant.alike, occupant.pod.priority, occupant.pod.node_name)
            if alike not in tried:
                tried.add(alike)
                after = own[number + 1 :], beside[max(number + 1 - len(own), 0) :]
                yield from self._chosen(place, left - 1, after, going, (*chosen, occupant))

    def _occupant(self, pod: Pod, *, own: bool) -> Occupant:
        """Return a pod with what it holds that matters: of those elsewhere that is what quotas count."""
        key = pod.uid, own
        if key not in self._occupants:
            world, occupant = self._waiting.world, occupant_of(self._waiting.world, pod)
            quotas = of_quotas(world, pod) if self._waiting.limited else {}
            self._occupants[key] = replace(occupant, held={**(occupant.held if own else {}), **quotas})
        return self._occupants[key]

    def _largest(self, occupants: Sequence[Occupant], most: int) -> Sequence[Occupant]:
        return largest_of(occupants, most) if self._counts_amounts else occupants

    def _ask(self, question: Callable[[Sequence[Pod]], bool], gone: Sequence[Pod]) -> bool:
        self._left -= 1
        if self._left < 0:
            raise OutOfQuestionsError
        return question(gone)

    # None that could stay ---------------------------------------------------------------------------------------------

    def without_reprieved_pods(self) -> list[PodsToEnd]:
        """Return sets of which none could stay, of the places with the fewest pods; of those elsewhere only if need be.

        Those that hold the most end first, so that they are few.
        """
        for beside in (False, True):
            found: list[PodsToEnd] = []
            places = [(place, (*place.own, *(place.beside if beside else ()))) for place in self._places]
            for place, pods in sorted(places, key=lambda each: len(each[1])):
                if len(found) == _MOST_PLACES:
                    break
                few, ordered = self._first_that_fit, sorted(pods, key=self._ending_order)
                if ending := _few_pods(self._budgets, few(place, ordered), ordered, place.fits):
                    found.append(PodsToEnd(place.node, ending))
            if found:
                return [each for each in found if not any(map(each.is_worse_than, found))]
        return []

    def _first_that_fit(self, place: _Place, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return the fewest of the first of some pods without which the pod fits; empty if no number is enough.

        For a pod that has to be near others more is not always better: each number is asked about, then all but one,
        for as long as it may ask.
        """
        counts = range(1, len(pods) + 1)
        if not self._may_miss_others:
            if not place.may_fit(pods):
                return ()
            return pods[: 1 + bisect_left(counts, x=True, key=lambda count: place.fits(pods[:count]))]
        first = (pods[:count] for count in counts)
        but_one = ([*pods[:number], *pods[number + 1 :]] for number in range(len(pods)))
        few = next(filter(place.fits, islice(chain(first, but_one), self._left_near)), None)
        self._left_near -= min(self._left_near, 2 * len(pods))
        return few or ()


def may_end(budgets: Sequence[DisruptionBudget], pod: Pod) -> bool:
    """Tell whether a pod may end by itself: its node does not bring it back, and budgets allow it."""
    return not pod.is_node_bound and _allowed(budgets, [pod])


def _allowed(budgets: Sequence[DisruptionBudget], pods: Sequence[Pod]) -> bool:
    """Tell whether budgets allow some pods to end together; of those that end anyway nobody asks."""
    ended = [pod for pod in pods if not pod.deleting]
    return all(budget.allows(ended) for budget in budgets)


def _few_pods(
    budgets: Sequence[DisruptionBudget],
    few: Sequence[Pod],
    pods: Sequence[Pod],
    fits_without: Callable[[Sequence[Pod]], bool],
) -> list[Pod]:
    """Return a set of pods that would have to end and of which none could stay; empty where none is found.

    Where budgets do not allow the end of all, it matters which pods of a budget end: each choice is tried until one
    is enough.

    Parameters
    ----------
    few
        Those of them that are tried first; empty if the end of all is not enough.
    """
    if not few:
        return []
    for start in (few, *islice(_allowed_together(budgets, pods), _MOST_CHOICES)):
        ending = _all_are_needed(start, fits_without) if fits_without(start) else []
        if ending and _allowed(budgets, ending):
            return ending
    return []


def _allowed_together(budgets: Sequence[DisruptionBudget], pods: Sequence[Pod]) -> Iterator[list[Pod]]:
    """Yield sets of some pods with as many of each budget as it allows, the set of the least important ones first."""
    staying = [pod for pod in pods if not pod.deleting]
    counted_by = [
        (budget, covered)
        for budget in budgets
        if (covered := [pod for pod in staying if budget.covers(pod) and pod.name not in budget.disrupted])
    ]
    bound = {pod.uid for _, covered in counted_by for pod in covered}
    choices = (
        islice(combinations(covered, min(budget.allowed, len(covered))), _MOST_CHOICES)
        for budget, covered in counted_by
    )
    for chosen in product(*choices):
        uids = {pod.uid for few in chosen for pod in few}
        yield [pod for pod in pods if pod.uid in uids or pod.uid not in bound]


def _all_are_needed(pods: Sequence[Pod], fits_without: Callable[[Sequence[Pod]], bool]) -> list[Pod]:
    """Return those of some pods that have to end; of others, the last ones stay first."""
    ending, before = list(pods), 0
    while len(ending) != before:  # those before the pod may go elsewhere when another one stays
        before = len(ending)
        ending = needed_of(ending, fits_without)
    return ending
