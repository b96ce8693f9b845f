"""Find the fewest pods whose end would let a waiting pod fit.

Candidates are the pods of one node, nearby pods that anti-affinity keeps apart from the waiting pod, and, if quotas
count, pods of its namespace.

Sets are tried by size, and among equal sizes by priority, the lowest first. A partial set is abandoned if even the
largest pods could not complete it.
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

_MOST_NEAR: Final = 600
"""The most questions about a pod with pod affinity, after the search for the fewest was abandoned."""
_MOST_QUESTIONS: Final = 600
_MOST_IN_A_HURRY: Final = 200
_PODS_PER_QUESTION: Final = 8
"""How many pods ahead in the queue make a question as long again, since they are placed first."""
_FEW: Final = 2
"""The size of sets from which places are first checked for whether the end of all pods would help."""
_MOST_FOUND: Final = 16
"""The most sets that are returned."""
_MOST_PLACES: Final = 4
"""The most places for which a minimal set is computed, if finding the smallest takes too long."""
_MOST_CHOICES: Final = 64
"""The most choices tried on a node among pods that disruption budgets do not let end together."""


class PodsToEnd(NamedTuple):
    """A set of pods that would have to end.

    Attributes
    ----------
    node
        Where the pod would then go; empty if these pods alone do not determine it.
    pods
        The pods that would have to end, including terminating ones whose end has to be awaited.
    """

    node: str
    pods: list[Pod]

    @property
    def ended(self) -> list[Pod]:
        """The pods that somebody has to end, without those that terminate already."""
        return [pod for pod in self.pods if not pod.deleting]

    @property
    def priority(self) -> int:
        """The highest priority among them."""
        return max((pod.priority for pod in self.ended), default=0)

    def is_worse_than(self, other: PodsToEnd) -> bool:
        """Tell whether another set is smaller and of no higher priority."""
        return len(other.ended) < len(self.ended) and other.priority <= self.priority

    @property
    def rank(self) -> tuple[int, int, str]:
        """The sort key, the smallest sets first."""
        return len(self.ended), self.priority, self.node


def fewest_ends(waiting: HypotheticalPod, among: Callable[[Pod], bool] | None = None) -> list[PodsToEnd]:
    """Return sets of pods without which the pod would fit: the smallest, then larger ones of lower priority.

    If that takes too many questions, return minimal sets instead, which may not be the smallest.

    Parameters
    ----------
    among
        Tells whether a pod may end; without it, all may. With it, nothing is returned if the search takes too many
        questions.
    """
    search = _Search(waiting, among or (lambda _: True))
    return list(search.sets()) or ([] if among else search.without_reprieved_pods())


class _Place:
    """A place where the waiting pod may go once other pods have ended.

    Parameters
    ----------
    node
        The node; empty for any.
    own
        Pods on the node, and nearby pods that keep the waiting pod away by anti-affinity.
    beside
        Pods elsewhere that use a quota of which too little is left.
    """

    def __init__(self, waiting: HypotheticalPod, node: str, own: Sequence[Pod], beside: Sequence[Pod]) -> None:
        self._waiting = waiting
        self.node = node
        self.own = own
        self.beside = beside

    def fits(self, gone: Sequence[Pod]) -> bool:
        """Tell whether the pod fits there without some pods, once pods ahead of it in the queue are placed."""
        return self._waiting.fits_without(gone, self.node)

    def may_fit(self, gone: Iterable[Pod]) -> bool:
        """Tell whether the pod would fit there without some pods, if no pod were ahead of it in the queue."""
        with self._waiting.world.engine.state.without(pod.uid for pod in gone):
            return self._waiting.fits_now(self.node)


class _Search:
    """Searches for sets of pods.

    Parameters
    ----------
    waiting
        The waiting pod.
    among
        Tells whether a pod may end.
    """

    def __init__(self, waiting: HypotheticalPod, among: Callable[[Pod], bool]) -> None:
        self._waiting = waiting
        self._budgets = waiting.world.engine.budgets.all()
        self._left_near = _MOST_NEAR
        self._left = _MOST_QUESTIONS if waiting.most_nodes is None else _MOST_IN_A_HURRY
        self._cost = 1 + len(waiting.before) // _PODS_PER_QUESTION
        # Volumes and cluster parts depend on more than the amounts that pods hold.
        self._counts_amounts = (
            not waiting.ours.spec.volume_claims and waiting.algorithm.classes.cluster_part(waiting.ours) is None
        )
        # Without required pod affinity, ending more pods is assumed never to hurt.
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
                reservation = state.reservation(pod.uid)
                if (
                    waiting.limited
                    and pod.namespace == waiting.pod.namespace
                    and reservation
                    and reservation.uses_devices
                ):
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
        """Return a sort key: terminating pods first, then by priority, then those that hold the most."""
        reservation = self._waiting.world.engine.state.reservation(pod.uid)
        charges = (usage.charges.values() for usage in reservation.uses.values()) if reservation is not None else ()
        return not pod.deleting, pod.priority, -sum(map(sum, chain.from_iterable(charges))), pod.key

    # Smallest sets ----------------------------------------------------------------------------------------------------

    def sets(self) -> Iterator[PodsToEnd]:
        """Yield the smallest sets, then larger ones of lower priority, until the limit of questions is reached."""
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
        """Yield, for each place, one set of this size with no pod above a priority, if there is one."""
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
        """Yield sets of this many more pods of a place, at least one of its own, without which the pod fits there."""
        own, beside = rest
        ending = [occupant.pod for occupant in chosen]
        if not left:
            if _allowed(self._budgets, ending) and self._ask(place.fits, [*going, *ending], self._cost):
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
        """Return a pod with the amounts that matter: of pods elsewhere, only those that quotas count."""
        key = pod.uid, own
        if key not in self._occupants:
            world, occupant = self._waiting.world, occupant_of(self._waiting.world, pod)
            quotas = of_quotas(world, pod) if self._waiting.limited else {}
            self._occupants[key] = replace(occupant, held={**(occupant.held if own else {}), **quotas})
        return self._occupants[key]

    def _largest(self, occupants: Sequence[Occupant], most: int) -> Sequence[Occupant]:
        return largest_of(occupants, most) if self._counts_amounts else occupants

    def _ask(self, question: Callable[[Sequence[Pod]], bool], gone: Sequence[Pod], cost: int = 1) -> bool:
        self._left -= cost
        if self._left < 0:
            raise OutOfQuestionsError
        return question(gone)

    # Minimal sets -----------------------------------------------------------------------------------------------------

    def without_reprieved_pods(self) -> list[PodsToEnd]:
        """Return minimal sets for the places with the fewest pods, including pods elsewhere only if necessary.

        Pods that hold the most are chosen first, to keep the sets small.
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
        """Return the shortest prefix of pods without which the pod fits; empty if there is none.

        With pod affinity, ending more pods may hurt, so every length is tried, and then every set of all pods but one,
        within the limit of questions.
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
    """Tell whether a pod may end: it is not bound to its node as a DaemonSet's is, and budgets allow it."""
    return not pod.is_node_bound and _allowed(budgets, [pod])


def _allowed(budgets: Sequence[DisruptionBudget], pods: Sequence[Pod]) -> bool:
    """Tell whether budgets allow some pods to end together; terminating pods do not count."""
    ended = [pod for pod in pods if not pod.deleting]
    return all(budget.allows(ended) for budget in budgets)


def _few_pods(
    budgets: Sequence[DisruptionBudget],
    few: Sequence[Pod],
    pods: Sequence[Pod],
    fits_without: Callable[[Sequence[Pod]], bool],
) -> list[Pod]:
    """Return a minimal set of pods that have to end; empty if none is found.

    If a budget does not allow all to end, different choices of its pods are tried until one suffices.

    Parameters
    ----------
    few
        The first candidates; empty if the end of all pods is not enough.
    """
    if not few:
        return []
    for start in (few, *islice(_allowed_together(budgets, pods), _MOST_CHOICES)):
        ending = _all_are_needed(start, fits_without) if fits_without(start) else []
        if ending and _allowed(budgets, ending):
            return ending
    return []


def _allowed_together(budgets: Sequence[DisruptionBudget], pods: Sequence[Pod]) -> Iterator[list[Pod]]:
    """Yield sets of pods with as many of each budget as it allows, the least important pods first."""
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
    """Reduce a set to pods that all have to end; the last pods are spared first."""
    ending, before = list(pods), 0
    while len(ending) != before:  # sparing one pod can change where pods ahead in the queue go
        before = len(ending)
        ending = needed_of(ending, fits_without)
    return ending
