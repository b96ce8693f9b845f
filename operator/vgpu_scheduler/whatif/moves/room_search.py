"""Search for the pods that would have to be moved, and their new places, so that a pending pod fits.

The search temporarily removes the reservations of pods from the engine's state and assumes others in their possible
new places; afterwards the world is as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from vgpu_scheduler.engine import SchedulingAlgorithm
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.state import Reservation
from vgpu_scheduler.whatif.moves.moves import NodeCard, PodMover, node_cards_of
from vgpu_scheduler.whatif.moves.occupants import Occupant, OutOfQuestionsError, largest_of, needed_of, occupant_of
from vgpu_scheduler.whatif.moves.repelling import repelling_pods
from vgpu_scheduler.whatif.world.queue_order import made_anew
from vgpu_scheduler.whatif.world.world import World

_TOLD_EVERY: Final = 100
"""The number of questions between two progress reports."""
_MOST_QUESTIONS: Final = 30_000
"""The most questions of a search in a cluster of few nodes, where a question takes the least time."""
_FEW_NODES: Final = 40
"""The number of nodes above which the limit of questions decreases."""
_FEWEST_QUESTIONS: Final = 6_000
"""The limit of questions in the largest clusters."""
_MOST_PLANS: Final = 16
"""The most plans with the same number of moves that are returned."""
_MOST_NODES: Final = 64
"""The most nodes for which clearing is planned in detail."""


@dataclass(frozen=True, slots=True)
class TargetPlacement:
    """A pod, and the placement that it should get."""

    pod: Pod
    placement: Placement

    @property
    def key(self) -> str:
        """The pod, by namespace and name."""
        return self.pod.key

    @property
    def node_cards(self) -> tuple[NodeCard, ...]:
        """The cards of the placement, with its node."""
        return node_cards_of(self.placement)


def _most_questions(nodes: int) -> int:
    """Return the most questions for a cluster of this size: the larger, the fewer, since each takes longer."""
    return max(_MOST_QUESTIONS * _FEW_NODES // max(nodes, _FEW_NODES), _FEWEST_QUESTIONS)


class RoomSearch:
    """Searches for plans of moves.

    Parameters
    ----------
    pod
        The pending pod.
    moves
        Tells which pods can be moved, and where they are.
    on_question
        Called from time to time with the number of placements tried.

    Attributes
    ----------
    certain
        Whether the search has been exhaustive so far.
    """

    def __init__(self, world: World, pod: Pod, moves: PodMover, on_question: Callable[[int], None]) -> None:
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
        self._most = _most_questions(len(world.nodes))
        self.certain = True
        self._learn()

    @property
    def is_over(self) -> bool:
        """Whether the limit of questions is exceeded, which ends the search."""
        return self._questions > self._most

    def may_help(self) -> bool:
        """Tell whether the pod would fit on some node if all movable pods were gone."""
        in_the_way = ((node, self._in_the_way(self._pod, node)) for node in sorted(self._world.nodes))
        return any(self._fits_without(self._pod, node, occupants) for node, occupants in in_the_way)

    def plans(self, count: int) -> list[tuple[TargetPlacement, ...]]:
        """Return plans of exactly this many moves, one for each set of moved pods.

        Returns
        -------
        list of tuple of TargetPlacement
            The pending pod and the moved pods, each with a placement that is possible once all are moved; whether an
            order of moves leads there is not checked.
        """
        self._learn()
        by_pods: dict[frozenset[str], tuple[TargetPlacement, ...]] = {}
        try:
            with closing(self._solutions((self._pod,), count)) as solutions:
                for goals in solutions:
                    if len(goals) <= count:
                        continue  # plans with fewer moves were tried before
                    by_pods.setdefault(frozenset(goal.key for goal in goals), goals)
                    if len(by_pods) == _MOST_PLANS:
                        self.certain = False
                        break
        except OutOfQuestionsError:
            self.certain = False
        return list(by_pods.values())

    def in_order(self, pods: Collection[str]) -> tuple[TargetPlacement, ...]:
        """Return the pending pod and given pods with placements that can be reached by moving one after the other.

        Parameters
        ----------
        pods
            The pods to move, by namespace and name.

        Returns
        -------
        tuple of TargetPlacement
            The pending pod, then the moved pods from last to first; empty if no order is possible.
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
        """Return the other movable pods, by namespace and name."""
        return sorted({t.pod.key for there in self._occupants.values() for t in there}.difference(pods))

    def clearing_plans(self) -> Iterator[tuple[TargetPlacement, ...]]:
        """Yield plans that move pods off one node until the pending pod fits, those with the fewest moves first.

        Each plan moves a minimal set of pods; the scheduler's own choice decides where each of them goes.
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
            self._learn()  # a pod that was moved and restored for an earlier plan has a new UID
            there = {each.pod.key: each for occupants in self._occupants.values() for each in occupants}
            leaving = [there[each.pod.key] for each in victims]
            goals: tuple[TargetPlacement, ...] = ()
            with suppress(OutOfQuestionsError), self._suspended(leaving):
                goals = self._cleared(node, leaving)
            if goals:
                yield goals

    # Searching --------------------------------------------------------------------------------------------------------

    def _solutions(self, pods: tuple[Pod, ...], left: int) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield placements for all of some pods, and for at most ``left`` other pods that are moved for them."""
        if not pods:
            yield ()
            return
        yield from self._without_moves(pods[0], pods[1:], left)
        for size in range(1, left + 1):
            for node in sorted(self._world.nodes):
                for victims in self._sets(pods[0], node, self._in_the_way(pods[0], node), size):
                    yield from self._with_moves(pods[0], pods[1:], node, victims, left - size)

    def _without_moves(self, pod: Pod, others: tuple[Pod, ...], left: int) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield placements of pods in which the first one goes where it fits now."""
        chosen = self._decided(pod)
        if chosen is None:
            return
        if not others:
            yield (TargetPlacement(pod, chosen),)
            return
        with closing(self._solutions(others, left)) as solutions:
            if next(solutions, None) is None:  # the others have no solution even if this pod took no room
                return
        nodes = (self._placements(pod, node) for node in sorted(self._world.nodes))
        for placement in chain([chosen], chain.from_iterable(nodes)):
            yield from self._then(TargetPlacement(pod, placement), others, left)

    def _with_moves(
        self, pod: Pod, others: tuple[Pod, ...], node: str, victims: Sequence[Occupant], left: int
    ) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield placements of pods in which the first one goes to a node from which some pods are moved."""
        with self._suspended(victims), ExitStack() as known:
            needed = [occupant for occupant in victims if not self._fits_beside(pod, node, occupant)]
            moved = tuple(known.enter_context(made_anew(self._world, [occupant.pod for occupant in victims])))
            for placement in self._placements(pod, node):
                goal = TargetPlacement(pod, placement)
                if all(
                    occupant in needed or not occupant.node_cards.isdisjoint(goal.node_cards) for occupant in victims
                ):
                    yield from self._then(goal, (*others, *moved), left)

    def _then(
        self, goal: TargetPlacement, others: tuple[Pod, ...], left: int
    ) -> Generator[tuple[TargetPlacement, ...]]:
        with self._assumed(goal):
            for found in self._solutions(others, left):
                yield (goal, *found)

    def _sequences(self, occupants: tuple[Occupant, ...]) -> Generator[tuple[TargetPlacement, ...]]:
        """Yield placements for pods moved one after the other, and finally for the pending pod."""
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
        """Yield sets of this many pods of a node without which a pod fits there."""
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
        """Place the pending pod on a node, and the victims elsewhere; return nothing if one fits nowhere."""
        placement = self._algorithm.node_fit.fits_without(self._pod, node, ())
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
            self.certain = False  # the cluster part also counts the pods that are to be moved

    def _in_the_way(self, pod: Pod, node: str) -> list[Occupant]:
        """Return the movable pods that may keep a pod off a node: those on it, and those on other nodes that repel it.

        Repelling pods are considered for the pending pod only.
        """
        return [*self._occupants.get(node, ()), *(self._near.get(node, ()) if pod is self._pod else ())]

    def _fits(self, pod: Pod, node: str, without: Collection[Occupant]) -> bool:
        self._ask(pod)
        return self._fits_without(pod, node, without)

    def _fits_without(self, pod: Pod, node: str, without: Collection[Occupant]) -> bool:
        there = [each.pod.uid for each in without if each.pod.node_name == node]
        with self._state.without(each.pod.uid for each in without if each.pod.node_name != node):
            return self._algorithm.node_fit.fits_without(pod, node, there) is not None

    def _fits_beside(self, pod: Pod, node: str, occupant: Occupant) -> bool:
        """Tell whether a pod fits on a node beside an occupant whose reservation is suspended."""
        with self._state.having(self._suspensions[occupant.pod.uid]):
            return self._fits(pod, node, ())

    def _decided(self, pod: Pod) -> Placement | None:
        self._ask(pod)
        return self._algorithm.decide(pod).placement

    def _placements(self, pod: Pod, node: str) -> list[Placement]:
        """Return possible placements of a pod on a node, found by cordoning the cards of each one found."""
        by_cards: dict[frozenset[NodeCard], Placement] = {}
        tried: set[frozenset[NodeCard]] = set()

        def search(cordoned: frozenset[NodeCard]) -> None:
            tried.add(cordoned)
            self._ask(pod)
            placement = self._algorithm.node_fit.fits_without(pod, node, ())
            if placement is None:
                return
            node_cards = TargetPlacement(pod, placement).node_cards
            by_cards.setdefault(frozenset(node_cards), placement)
            for node_card in filter(self._moves.can_cordon, node_cards):
                if cordoned | {node_card} not in tried:
                    self._moves.cordon([node_card])
                    try:
                        search(cordoned | {node_card})
                    finally:
                        self._moves.uncordon([node_card])

        search(frozenset())
        return list(by_cards.values())

    # Suppositions -----------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        """Read which pods can be moved, by node, those of low priority and with small amounts first."""
        by_node: dict[str, list[Occupant]] = {}
        known, self._known = self._known, {}
        for pod in self._world.bound.values():
            reservation = self._state.reservation(pod.uid)
            if reservation is not None and reservation.uses_devices and not self._moves.why_not(pod):
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
            reservation = self._state.reservation(uid)
            assert reservation is not None
            self._suspensions[uid] = reservation
        try:
            with self._state.without(uids):
                yield
        finally:
            for uid in uids:
                del self._suspensions[uid]

    @contextmanager
    def _assumed(self, goal: TargetPlacement) -> Iterator[None]:
        self._state.assume(goal.pod.uid, goal.placement, self._algorithm.classes.claims(goal.pod))
        try:
            yield
        finally:
            self._state.undo(goal.pod.uid)
