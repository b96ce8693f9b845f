"""Search for the fewest moves of pods after which a pending pod fits.

If pods ahead of it in the queue would take the freed room, more room is freed for them, too.

Up to three moves, all plans that may help are tried: the pod goes to a node without some of its pods, these go where
there is room, or to a node without some of its pods, and so on. Beyond that, nodes are cleared one by one, and the plan
with the fewest moves is kept. Each pod is moved at most once, and only pods that hold cards are moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import chain, permutations, product
from typing import Any, Final

from vgpu_scheduler.engine import SCHEDULER_NAME
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.moves.moves import Move, NodeCard, PodMover
from vgpu_scheduler.whatif.moves.room_search import RoomSearch, TargetPlacement
from vgpu_scheduler.whatif.moves.unmovable_causes import held_by, kept_for_others
from vgpu_scheduler.whatif.world.queue_order import pods_as_old, pods_before_and_after
from vgpu_scheduler.whatif.world.simulation import ask, simulate
from vgpu_scheduler.whatif.world.world import World

MOST_MOVES: Final = 3
"""The number of moves up to which all plans that may help are tried."""
_MOST_ROUNDS: Final = 8
"""How often more room is freed because pods ahead in the queue take what was freed."""
_MOST_CORDONS: Final = 64
"""The most cards that are cordoned to steer one move."""


class StepType(StrEnum):
    """What a step does."""

    CORDON = "cordon"
    EVICT = "evict"
    UNCORDON = "uncordon"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class EvictionStep:
    """One step of a plan: (un)cordon a card, move a pod, or wait until pods that are ahead in the queue run."""

    type: StepType
    node_card: NodeCard | None = None
    move: Move | None = None
    pods: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the step as plain values."""
        if self.move is not None:
            return {"do": self.type.value, **self.move.as_json()}
        if self.type is StepType.WAIT:
            return {"do": self.type.value, "pods": list(self.pods)}
        assert self.node_card is not None
        return {"do": self.type.value, "node": self.node_card[0], "card": self.node_card[1]}


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """A plan that makes room for a pod, or the reason why there is none.

    Attributes
    ----------
    pod
        The pod, by namespace and name.
    node, cards
        Where the pod then goes; empty if no moves were found that help.
    steps
        The steps in order, each to be taken once the pods moved before run again.
    fewest
        Whether it is certain that fewer moves do not suffice; if none were found, that no three moves do.
    held
        What keeps the pod waiting whatever is moved; empty if nothing is known to.
    hopeless
        Why the pod would not fit even if all movable pods were gone; empty if it would.
    taken_by
        The pending pods that would take the freed room before it.
    leaves
        The pending pods that fit now, if no moves were found that help and leave them their places.
    stay
        The number of pods with cards that cannot be moved, by reason, if no moves were found that help.
    as_old
        Those pods ahead of it whose order in the queue is not known: they have its priority, and were created in the
        same second.
    kept
        The nodes on which room is kept for other pods, each with the pod, if no moves were found that help.
    """

    pod: str
    node: str = ""
    cards: tuple[str, ...] = ()
    steps: tuple[EvictionStep, ...] = ()
    fewest: bool = True
    held: str = ""
    hopeless: str = ""
    taken_by: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    stay: Mapping[str, int] = field(default_factory=dict)
    as_old: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves, in order."""
        return tuple(step.move for step in self.steps if step.move is not None)

    @property
    def served_first(self) -> tuple[str, ...]:
        """The pods ahead in the queue that take freed room, so that more is freed."""
        return tuple(pod for step in self.steps for pod in step.pods)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "pod": self.pod,
            "to": {"node": self.node, "cards": list(self.cards)} if self.node else None,
            "steps": [step.as_json() for step in self.steps],
            "moves": len(self.moves),
            "fewest": self.fewest,
            "held": self.held,
            "hopeless": self.hopeless,
            "takenBy": list(self.taken_by),
            **({"leaves": list(self.leaves)} if self.leaves else {}),
            **({"stay": dict(self.stay)} if self.stay else {}),
            **({"asOld": list(self.as_old)} if self.as_old else {}),
            **({"kept": [{"node": node, "pod": pod} for node, pod in self.kept]} if self.kept else {}),
        }


def make_room(
    world: World,
    pod: Pod,
    schedulers: Container[str] = (SCHEDULER_NAME,),
    on_question: Callable[[int], None] = lambda _: None,
) -> RoomPlan:
    """Plan the fewest moves after which a pending pod fits, and leave the world as the moves would.

    Parameters
    ----------
    schedulers
        The scheduler names of the pods whose placement the plan can predict.
    on_question
        Called from time to time with the number of placements tried.
    """
    on_question = _added_up(on_question)
    room = _made(world, pod, schedulers, on_question)
    for _ in range(_MOST_ROUNDS):
        more = _made(world, pod, schedulers, on_question) if room.taken_by else None
        if more is None or not more.node:
            break
        there = EvictionStep(StepType.WAIT, pods=room.taken_by)
        as_old = tuple(dict.fromkeys((*room.as_old, *more.as_old)))
        room = replace(more, steps=(*room.steps, there, *more.steps), fewest=False, as_old=as_old)
    return room


def _added_up(on_question: Callable[[int], None]) -> Callable[[int], None]:
    """Wrap a progress callback so that the counts of several searches, each starting at 0, are added up."""
    before = latest = 0

    def add_up(asked: int) -> None:
        nonlocal before, latest
        before += latest if asked <= latest else 0
        latest = asked
        on_question(before + asked)

    return add_up


def _made(world: World, pod: Pod, schedulers: Container[str], on_question: Callable[[int], None]) -> RoomPlan:
    """Plan moves that free room for a pod, even if others then take it, and leave the world as the moves would."""
    before, after = pods_before_and_after(world, pod)
    going = simulate(world, before, as_they_are=True, explained=False)
    now = ask(world, pod)
    if now.decision.outcome is Outcome.PLACED and not gated(pod):
        return _room_plan(world, pod, (), fewest=True)
    if held := held_by(world, pod, now.decision):
        return RoomPlan(pod.key, held=held)
    going += simulate(world, after, as_they_are=True, explained=False)  # placed before any move
    there = {answer.pod.uid: answer.pod.key for answer in going if answer.node}
    moves = PodMover(world, schedulers, pod.uid)
    search = RoomSearch(world, pod, moves, on_question)
    if not search.may_help():
        with world.engine.state.without(there):
            matter = bool(there) and search.may_help()
        leaves = tuple(there.values()) if matter else ()
        stay, kept, hopeless = _staying(world, moves), kept_for_others(world, pod), now.decision.message
        return RoomPlan(pod.key, fewest=search.certain, hopeless=hopeless, leaves=leaves, stay=stay, kept=kept)
    by_moves = _ByMoves(world, moves, search)
    for count in range(1, MOST_MOVES + 1):
        steps = by_moves.steps(count)
        if steps is not None:
            return _room_plan(world, pod, steps, fewest=by_moves.certain)
    for goals in search.clearing_plans():
        steps = _PlanExecution(world, moves, goals).carry_out()
        if steps is not None:
            fewest = by_moves.certain and len(goals) == MOST_MOVES + 2  # the pod itself is a goal, too
            return _room_plan(world, pod, steps, fewest=fewest)
    stay, kept = _staying(world, moves), kept_for_others(world, pod)
    return RoomPlan(pod.key, fewest=by_moves.certain, leaves=tuple(there.values()), stay=stay, kept=kept)


def _staying(world: World, moves: PodMover) -> dict[str, int]:
    """Return the number of pods with cards that cannot be moved, by reason."""
    state = world.engine.state
    held = [pod for pod in world.bound.values() if (found := state.reservation(pod.uid)) and found.uses_devices]
    reasons = filter(None, map(moves.why_not, held))
    return dict(sorted(Counter(reasons).items()))


class _ByMoves:
    """Searches for plans with an increasing number of moves.

    Attributes
    ----------
    certain
        Whether it is certain that no plan with fewer moves than the last number tried suffices.
    """

    def __init__(self, world: World, moves: PodMover, search: RoomSearch) -> None:
        self.certain = True
        self._world = world
        self._moves = moves
        self._search = search
        self._without_order: list[frozenset[str]] = []

    def steps(self, count: int) -> tuple[EvictionStep, ...] | None:
        """Return the steps of a plan with this number of moves, once fewer were tried; None if there is none."""
        tried = [frozenset((*pods, other)) for pods in self._without_order for other in self._search.others(pods)]
        self._without_order, certain = [], self.certain
        for goals in self._search.plans(count):
            steps = _PlanExecution(self._world, self._moves, goals).carry_out()
            if steps is not None:
                return steps
            tried.append(frozenset(goal.key for goal in goals[1:]))
        for pods in dict.fromkeys(tried):
            if self._search.is_over:
                certain = False
                break
            goals = self._search.in_order(pods)
            steps = _PlanExecution(self._world, self._moves, goals).carry_out() if goals else None
            if steps is not None:
                return steps
            self._without_order.append(pods)
            certain = certain and not goals  # an order exists, but cordons cannot produce it
        self.certain = certain and self._search.certain
        return None


def _room_plan(world: World, pod: Pod, steps: tuple[EvictionStep, ...], *, fewest: bool) -> RoomPlan:
    """Place all pending pods, and report where the pod goes, or which pods take its room."""
    alone = ask(world, pod)
    node, cards = alone.node, alone.cards
    before, after = pods_before_and_after(world, pod)
    waiting = simulate(world, [*before, pod, *after], as_they_are=True, explained=False)
    answers = {answer.pod.uid: answer for answer in waiting}
    mine = answers[pod.uid]
    if mine.decision.outcome is Outcome.PLACED:
        return RoomPlan(pod.key, mine.node, mine.cards, steps, fewest)
    placed = [answer for answer in answers.values() if answer.node]
    there = [answer.pod.key for answer in placed if answer.node == node and not set(cards).isdisjoint(answer.cards)]
    kept = [hold.reservation.pod for hold in world.engine.state.holds.on(node) if hold.uid != pod.uid]
    others = [answer.pod.key for answer in placed]
    taken_by = tuple(there or kept or others)
    as_old = {each.key for each in pods_as_old(world, pod, before)}
    return RoomPlan(
        pod.key,
        node,
        cards,
        steps,
        fewest,
        taken_by=taken_by,
        as_old=tuple(key for key in taken_by if key in as_old),
    )


class _PlanExecution:
    """Carries out a plan on the world, with an order of moves and cordons that lead each pod to its place.

    Parameters
    ----------
    goals
        The pending pod, then the pods to move, each with its target placement.
    """

    def __init__(self, world: World, moves: PodMover, goals: Sequence[TargetPlacement]) -> None:
        self._world = world
        self._moves = moves
        self._room, *self._moved = goals
        owners = world.engine.dialects.owners
        self._others_wait = any(owners(pod) for pod in chain(*pods_before_and_after(world, self._room.pod)))
        self._steps: list[EvictionStep] = []
        self._cordoned: dict[NodeCard, None] = {}

    def carry_out(self) -> tuple[EvictionStep, ...] | None:
        """Return the steps, and leave the world as they do; return None and restore the world if none succeed."""
        orders = list(permutations(reversed(self._moved))) if len(self._moved) <= MOST_MOVES else [self._moved[::-1]]
        ways: list[Callable[[Sequence[TargetPlacement]], bool]] = [
            partial(self._done, strict=each) for each in (False, True)
        ]
        ways.append(self._moves_after_pod)
        for done, order in product(ways, orders):
            self._steps, self._cordoned = [], {}
            if done(order):
                return tuple(self._steps)
            self._moves.uncordon_all()
            self._moves.take_back_all()
        return None

    def _done(self, order: Sequence[TargetPlacement], *, strict: bool) -> bool:
        """Make the moves in an order, and tell whether the pending pod then fits.

        Parameters
        ----------
        strict
            Require the exact placement that the search found for each pod; otherwise accept any that no other needs.
        """
        for number, goal in enumerate(order):
            kept = {node_card for other in (self._room, *order[number + 1 :]) for node_card in other.node_cards}
            if self._others_wait:  # other pending pods would take the freed cards before the last move
                self._cordon(sorted(filter(self._moves.can_cordon, kept - {*goal.node_cards, *self._cordoned})))
            if not self._moved_to_goal(goal, kept, strict=strict):
                return False
            if self._others_wait and not self._kept_from_others(goal, kept, strict=strict):
                return False
        self._uncordon(tuple(self._cordoned))
        return ask(self._world, self._room.pod).decision.outcome is Outcome.PLACED

    def _kept_from_others(self, goal: TargetPlacement, kept: set[NodeCard], *, strict: bool) -> bool:
        """Repeat a move with cordons on the cards that other pending pods would take before the last move.

        The moved pod may free more than cards, such as a host port, which lets other pods use idle cards of the node.
        """
        for _ in range(_MOST_CORDONS):
            taken = [node_card for node_card in self._moves.taken_meanwhile() if node_card not in self._cordoned]
            if not taken:
                return True
            if not set(taken).isdisjoint(goal.node_cards) or not all(map(self._moves.can_cordon, taken)):
                return False
            self._moves.take_back(goal.key)
            self._steps.pop()
            self._cordon(sorted(taken))
            if not self._moved_to_goal(goal, kept, strict=strict):
                return False
        return False

    def _moved_to_goal(self, goal: TargetPlacement, kept: set[NodeCard], *, strict: bool) -> bool:
        """Move one pod, cordoning the cards that are kept for others, and those that decide where it lands.

        The pod must land in the same place whether the pending pod takes its room before or after it.
        """
        opened = tuple(node_card for node_card in goal.node_cards if node_card in self._cordoned)
        self._uncordon(opened)
        if opened and self._others_wait and not set(opened).isdisjoint(self._moves.taken_meanwhile()):
            return False  # a pending pod takes the card before the pod is evicted
        for _ in range(_MOST_CORDONS):
            move = self._moves.move(goal.key, served_later=True)
            if move is None:
                return False
            wrong = set(move.to_node_cards) & kept if not strict else set(move.to_node_cards) - set(goal.node_cards)
            if not wrong and self._moves.has_same_place_when_moved_last(move):
                self._steps.append(EvictionStep(StepType.EVICT, move=move))
                return True
            self._moves.take_back(goal.key)
            wrong = wrong or kept - {*move.to_node_cards, *self._cordoned}
            if not wrong or not all(map(self._moves.can_cordon, wrong)):
                return False
            self._cordon(sorted(wrong))
        return False

    def _moves_after_pod(self, order: Sequence[TargetPlacement]) -> bool:
        """Make a single move without cordons, as if the pending pod is placed first, and tell whether it fits."""
        move = self._moves.move(order[0].key) if len(order) == 1 else None
        if move is None:
            return False
        self._steps.append(EvictionStep(StepType.EVICT, move=move))
        return ask(self._world, self._room.pod).decision.outcome is Outcome.PLACED

    def _cordon(self, node_cards: Sequence[NodeCard]) -> None:
        self._moves.cordon(node_cards)
        self._cordoned |= dict.fromkeys(node_cards)
        self._steps += [EvictionStep(StepType.CORDON, node_card) for node_card in node_cards]

    def _uncordon(self, node_cards: Sequence[NodeCard]) -> None:
        self._moves.uncordon(node_cards)
        for node_card in node_cards:
            del self._cordoned[node_card]
        self._steps += [EvictionStep(StepType.UNCORDON, node_card) for node_card in node_cards]
