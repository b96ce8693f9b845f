"""Searches which pods would have to go elsewhere, and where, so that a pod fits.

The search asks the engine on a world from which pods are taken off the books for the time of a question, and in which
others are assumed where they may go; afterwards the world is as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine import SchedulingAlgorithm
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.state import Reservation
from vgpu_scheduler.whatif.moves.moves import Moves, Spot, spots_of
from vgpu_scheduler.whatif.moves.occupants import Occupant, OutOfQuestionsError, largest_of, needed_of, occupant_of
from vgpu_scheduler.whatif.moves.repelling import repelling_pods
from vgpu_scheduler.whatif.world.queue_order import made_anew
from vgpu_scheduler.whatif.world.world import World

_TOLD_EVERY: Final = 100
"""Questions after which it is said how many there were."""
_MOST_QUESTIONS: Final = 30_000
"""Questions that a search may ask in a cluster of a few nodes, where each takes the least time."""
_FEW_NODES: Final = 40
"""Nodes up to which a cluster has few: with more of them fewer questions are asked."""
_FEWEST_QUESTIONS: Final = 6_000
"""Questions that a search may ask in clusters of any size, though each takes long in the largest."""
_MOST_PLANS: Final = 16
"""Plans of as many moves that are given back."""
_MOST_NODES: Final = 64
"""Nodes of which it is worked out what goes where if they are cleared."""


@dataclass(frozen=True, slots=True)
class TargetPlacement:
    """A pod, and the place that it is to get."""

    pod: Pod
    placement: Placement

    @property
    def key(self) -> str:
        """The pod, by namespace and name."""
        return self.pod.key

    @property
    def spots(self) -> tuple[Spot, ...]:
        """The cards that it is to get, with their node."""
        return spots_of(self.placement)


def _most_questions(nodes: int) -> int:
    """Return how many questions are asked at most in a cluster of so many nodes: fewer where each takes longer."""
    return max(_MOST_QUESTIONS * _FEW_NODES // max(nodes, _FEW_NODES), _FEWEST_QUESTIONS)


class RoomSearch:
    """Searches plans.

    Parameters
    ----------
    pod
        The pod that waits.
    moves
        Says which pods can be moved, and where they are.
    on_question
        Is called now and then with how many questions were asked.
    most
        How many questions may be asked; None for as many as the size of the cluster allows.

    Attributes
    ----------
    certain
        Whether nothing was left out until now that may help.
    """

    def __init__(
        self, world: World, pod: Pod, moves: Moves, on_question: Callable[[int], None], *, most: int | None = None
    ) -> None:
        self._world = world
        self._pod = pod
        self._moves = moves
        self._on_question = on_question
        self._algorithm: SchedulingAlgorithm = world.engine.algorithm
        self._state = world.engine.state
        self._occupants: dict[str, list[Occupant]] = {}
        self._near: dict[str, list[Occupant]] = {}
        self._suspensions: dict[str, Reservation] = {}
        self._known: dict[str, Occupant] = {}
        self._questions = 0
        self._most = _most_questions(len(world.nodes)) if most is None else most
        self.certain = True
        self._learn()

    @property
    def is_over(self) -> bool:
        """Whether as many questions were asked as may be: nothing more is searched."""
        return self._questions > self._most

    def may_help(self) -> bool:
        """Tell whether the pod fits on some node if all pods that can be moved were gone."""
        in_the_way = ((node, self._in_the_way(self._pod, node)) for node in sorted(self._world.nodes))
        return any(self._fits_without(self._pod, node, occupants) for node, occupants in in_the_way)

    def plans(self, count: int) -> list[tuple[TargetPlacement, ...]]:
        """Return plans of just so many moves, one for each set of pods that may be moved.

        Returns
        -------
        list of tuple of TargetPlacement
            The pod, and those that are moved, each with a place that it can have when all are moved. In which order
            that can be done is another question.
        """
        self._learn()
        by_pods: dict[frozenset[str], tuple[TargetPlacement, ...]] = {}
        try:
            with closing(self._solutions((self._pod,), count)) as solutions:
                for goals in solutions:
                    if len(goals) <= count:
                        continue  # fewer moves, of which it is known that they do not do
                    by_pods.setdefault(frozenset(goal.key for goal in goals), goals)
                    if len(by_pods) == _MOST_PLANS:
                        self.certain = False
                        break
        except OutOfQuestionsError:
            self.certain = False
        return list(by_pods.values())

    def in_order(self, pods: Collection[str]) -> tuple[TargetPlacement, ...]:
        """Return the pod and pods that are moved, with the places that they get, in an order in which they can be.

        Parameters
        ----------
        pods
            Those that are moved, by namespace and name.

        Returns
        -------
        tuple of TargetPlacement
            The pod, and the others from the one that is moved last to the first one; empty where there is no order.
        """
        if self.is_over:
            self.certain = False
            return ()
        self._learn()
        occupants = [occupant for there in self._occupants.values() for occupant in there if occupant.pod.key in pods]
        try:
            with closing(self._sequences(tuple(occupants))) as sequences:
                return next(sequences, ())
        except OutOfQuestionsError:
            self.certain = False
            return ()

    def others(self, pods: Collection[str]) -> list[str]:
        """Return the pods that can be moved beside some, by namespace and name."""
        return sorted({t.pod.key for there in self._occupants.values() for t in there}.difference(pods))

    def clearing_plans(self) -> Iterator[tuple[TargetPlacement, ...]]:
        """Yield plans that clear one node of pods until the pod fits, the fewest moves first.

        Of the pods of each none could stay; where they go is what the scheduler chooses for one after the other.
        """
        self._learn()
        self._questions = 0
        sets = []
        with suppress(OutOfQuestionsError):
            for node in sorted(self._world.nodes):
                occupants = self._in_the_way(self._pod, node)
                if occupants and self._fits(self._pod, node, occupants):
                    sets.append((node, needed_of(occupants, partial(self._fits, self._pod, node))))
        self._questions = 0
        for node, victims in sorted(sets, key=lambda each: (len(each[1]), each[0]))[:_MOST_NODES]:
            if self.is_over:
                return
            self._learn()  # what was moved for an earlier plan, and taken back, has another UID
            there = {each.pod.key: each for occupants in self._occupants.values() for each in occupants}
            leaving = [there[each.pod.key] for each in victims]
            goals: tuple[TargetPlacement, ...] = ()
            with suppress(OutOfQuestionsError), self._suspended(leaving):
                goals = self._cleared(node, leaving)
            if goals:
                yield goals

    # Searching --------------------------------------------------------------------------------------------------------

    def _solutions(self, pods: tuple[Pod, ...], left: int) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield places for all of some pods, with at most so many more pods moved for that, which are goals, too."""
        if not pods:
            yield ()
            return
        yield from self._without_moves(pods[0], pods[1:], left)
        for size in range(1, left + 1):
            for node in sorted(self._world.nodes):
                for victims in self._sets(pods[0], node, self._in_the_way(pods[0], node), size):
                    yield from self._with_moves(pods[0], pods[1:], node, victims, left - size)

    def _without_moves(self, pod: Pod, others: tuple[Pod, ...], left: int) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield places for pods of which the first one goes where there is room for it now."""
        chosen = self._decided(pod)
        if chosen is None:
            return
        if not others:
            yield (TargetPlacement(pod, chosen),)
            return
        with closing(self._solutions(others, left)) as solutions:
            if next(solutions, None) is None:  # wherever this one goes
                return
        nodes = (self._placements(pod, node) for node in sorted(self._world.nodes))
        for placement in chain([chosen], chain.from_iterable(nodes)):
            yield from self._then(TargetPlacement(pod, placement), others, left)

    def _with_moves(
        self, pod: Pod, others: tuple[Pod, ...], node: str, victims: Sequence[Occupant], left: int
    ) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield places for pods of which the first one goes to a node without some pods there."""
        with self._suspended(victims), ExitStack() as known:
            needed = [occupant for occupant in victims if not self._fits_beside(pod, node, occupant)]
            moved = tuple(known.enter_context(made_anew(self._world, [occupant.pod for occupant in victims])))
            for placement in self._placements(pod, node):
                goal = TargetPlacement(pod, placement)
                if all(occupant in needed or not occupant.spots.isdisjoint(goal.spots) for occupant in victims):
                    yield from self._then(goal, (*others, *moved), left)

    def _then(
        self, goal: TargetPlacement, others: tuple[Pod, ...], left: int
    ) -> Generator[tuple[TargetPlacement, ...]]:
        with self._assumed(goal):
            for found in self._solutions(others, left):
                yield (goal, *found)

    def _sequences(self, occupants: tuple[Occupant, ...]) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield places for some pods, moved one after the other, and at last for the pod."""
        if not occupants:
            placement = self._decided(self._pod)
            if placement is not None:
                yield (TargetPlacement(self._pod, placement),)
            return
        for number, occupant in enumerate(occupants):
            with self._suspended([occupant]), made_anew(self._world, [occupant.pod]) as (moved,):
                for node in sorted(self._world.nodes):
                    for placement in self._placements(moved, node):
                        goal = TargetPlacement(moved, placement)
                        with self._assumed(goal):
                            for found in self._sequences(occupants[:number] + occupants[number + 1 :]):
                                yield (*found, goal)

    def _sets(
        self, pod: Pod, node: str, occupants: Sequence[Occupant], size: int, chosen: tuple[Occupant, ...] = ()
    ) -> Iterator[tuple[Occupant, ...]]:
        """Yield sets of so many pods of a node without which a pod fits there."""
        there = [occupant for occupant in occupants if self._state.reservation(occupant.pod.uid) is not None]
        more = size - len(chosen)
        own, near = ([each for each in there if (each.pod.node_name == node) is here] for here in (True, False))
        if len(there) < more or not self._fits(pod, node, [*chosen, *near, *largest_of(own, more)]):
            return
        if not more:
            if not near or self._fits(pod, node, chosen):
                yield chosen
            return
        tried: set[object] = set()
        for number, occupant in enumerate(there):
            alike = occupant.pod.node_name, occupant.alike
            if alike not in tried:
                tried.add(alike)
                yield from self._sets(pod, node, there[number + 1 :], size, (*chosen, occupant))

    def _cleared(self, node: str, victims: Sequence[Occupant]) -> tuple[TargetPlacement, ...]:
        """Return how the pod goes to a node, and where the pods go that make room for it; empty where one cannot."""
        placement = self._algorithm.on_node.fits_without(self._pod, node, ())
        assert placement is not None
        goals = [TargetPlacement(self._pod, placement)]
        largest_first = sorted(victims, key=lambda occupant: (-sum(occupant.held.values()), occupant.pod.key))
        with ExitStack() as held:
            held.enter_context(self._assumed(goals[0]))
            for occupant in largest_first:
                (moved,) = held.enter_context(made_anew(self._world, [occupant.pod]))
                goes_to = self._decided(moved)
                if goes_to is None:
                    return ()
                goals.append(TargetPlacement(moved, goes_to))
                held.enter_context(self._assumed(goals[-1]))
        return tuple(goals)

    # Questions --------------------------------------------------------------------------------------------------------

    def _ask(self, pod: Pod) -> None:
        self._questions += 1
        if self._questions % _TOLD_EVERY == 0:
            self._on_question(self._questions)
        if self.is_over:
            raise OutOfQuestionsError
        if self._algorithm.classes.cluster_part(pod) is not None:
            self.certain = False  # what counts there counts the pods that are to be moved, too

    def _in_the_way(self, pod: Pod, node: str) -> list[Occupant]:
        """Return the pods that can be moved and may keep a pod from a node: those there, and those that repel it.

        The latter are pods elsewhere that anti-affinity keeps apart from the pod that waits.
        """
        return [*self._occupants.get(node, ()), *(self._near.get(node, ()) if pod is self._pod else ())]

    def _fits(self, pod: Pod, node: str, without: Collection[Occupant]) -> bool:
        self._ask(pod)
        return self._fits_without(pod, node, without)

    def _fits_without(self, pod: Pod, node: str, without: Collection[Occupant]) -> bool:
        there = [each.pod.uid for each in without if each.pod.node_name == node]
        with self._state.without(each.pod.uid for each in without if each.pod.node_name != node):
            return self._algorithm.on_node.fits_without(pod, node, there) is not None

    def _fits_beside(self, pod: Pod, node: str, occupant: Occupant) -> bool:
        """Tell whether a pod fits on a node with a pod there that is off the books now."""
        with self._state.having(self._suspensions[occupant.pod.uid]):
            return self._fits(pod, node, ())

    def _decided(self, pod: Pod) -> Placement | None:
        self._ask(pod)
        return self._algorithm.decide(pod).placement

    def _placements(self, pod: Pod, node: str) -> list[Placement]:
        """Return the ways in which a node can give a pod its cards."""
        by_spots: dict[frozenset[Spot], Placement] = {}
        tried: set[frozenset[Spot]] = set()

        def search(cordoned: frozenset[Spot]) -> None:
            tried.add(cordoned)
            self._ask(pod)
            placement = self._algorithm.on_node.fits_without(pod, node, ())
            if placement is None:
                return
            spots = TargetPlacement(pod, placement).spots
            by_spots.setdefault(frozenset(spots), placement)
            for spot in filter(self._moves.can_cordon, spots):
                if cordoned | {spot} not in tried:
                    self._moves.cordon([spot])
                    try:
                        search(cordoned | {spot})
                    finally:
                        self._moves.uncordon([spot])

        search(frozenset())
        return list(by_spots.values())

    # Suppositions -----------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        """Read which pods can be moved, by node: those of low priority and with little first."""
        by_node: dict[str, list[Occupant]] = {}
        known, self._known = self._known, {}
        for pod in self._world.bound.values():
            held = self._state.reservation(pod.uid)
            if held is not None and held.uses_devices and not self._moves.why_not(pod):
                occupant = known.get(pod.uid)
                if occupant is None or occupant.pod is not pod:
                    occupant = occupant_of(self._world, pod)
                self._known[pod.uid] = occupant
                by_node.setdefault(pod.node_name, []).append(occupant)
        for occupants in by_node.values():
            occupants.sort(key=lambda occupant: (occupant.pod.priority, sum(occupant.held.values()), occupant.pod.key))
        self._occupants = by_node
        movable = {occupant.pod.uid: occupant for occupants in by_node.values() for occupant in occupants}
        near = repelling_pods(self._world, self._pod)
        self._near = {node: [movable[pod.uid] for pod in pods if pod.uid in movable] for node, pods in near.items()}

    @contextmanager
    def _suspended(self, occupants: Sequence[Occupant]) -> Iterator[None]:
        uids = [occupant.pod.uid for occupant in occupants]
        for uid in uids:
            held = self._state.reservation(uid)
            assert held is not None
            self._suspensions[uid] = held
        try:
            with self._state.without(uids):
                yield
        finally:
            for uid in uids:
                del self._suspensions[uid]

    @contextmanager
    def _assumed(self, goal: TargetPlacement) -> Iterator[None]:
        usage = placement_usage(goal.placement, self._algorithm.classes.claims(goal.pod))
        self._state.assume(goal.pod.uid, goal.placement, usage, goal.pod.spec.requests)
        try:
            yield
        finally:
            self._state.undo(goal.pod.uid)
