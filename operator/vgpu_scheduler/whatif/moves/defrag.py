"""A plan of moves that empties cards, for pods that want whole ones.

Pods are moved one after the other, each when the one before runs again. So that they do not go where the room is to
be, cards that are to be idle are cordoned first, and of those that are idle already the ones that pods would go to
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vgpu_scheduler.engine import SCHEDULER_NAME
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.moves.moves import Move, Moves, Spot
from vgpu_scheduler.whatif.world.nodes import is_closed
from vgpu_scheduler.whatif.world.simulation import simulate
from vgpu_scheduler.whatif.world.usage import CardUsage, cards, is_idle
from vgpu_scheduler.whatif.world.world import World


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order: cordon, move one pod after the other, uncordon.

    Attributes
    ----------
    freed
        The cards that are idle afterwards and are not now.
    cordoned
        The cards that are cordoned meanwhile: the freed ones that are emptied by moves, and of those that are idle
        already the ones that pods would go to otherwise.
    stay
        How many cards keep their pods, by why.
    asked
        How many cards were to be freed at most; 0 for as many as can be.
    waiting
        How many pods wait for cards and do not fit now.
    taken
        Those of them that would take freed cards at once, by card.
    idle
        How many cards in service are idle already, as ``top`` counts them.
    """

    freed: tuple[Spot, ...]
    cordoned: tuple[Spot, ...]
    moves: tuple[Move, ...]
    stay: Mapping[str, int]
    asked: int = 0
    waiting: int = 0
    taken: Mapping[Spot, tuple[str, ...]] = field(default_factory=dict)
    idle: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        cordoned = [{"node": node, "card": card} for node, card in self.cordoned]
        return {
            "asked": self.asked,
            "freed": [{"node": node, "card": card} for node, card in self.freed],
            "cordon": cordoned,
            "moves": [move.as_json() for move in self.moves],
            "uncordon": cordoned,
            "idle": self.idle,
            "stay": dict(self.stay),
            "waiting": self.waiting,
            "taken": [{"node": node, "card": card, "pods": [*pods]} for (node, card), pods in self.taken.items()],
        }


def defrag(
    world: World,
    most: int = 0,
    schedulers: Container[str] = (SCHEDULER_NAME,),
    on_card: Callable[[int, int], None] = lambda _, __: None,
    among: Callable[[CardUsage], bool] = lambda _: True,
) -> Plan:
    """Plan moves that empty cards, those with the least on them first; the world is then as it would be.

    Pods that wait and fit now are placed before anything moves; the others last, when all cards are in service again.

    Parameters
    ----------
    most
        Cards that are to be freed at most; 0 for as many as can be.
    schedulers
        The scheduler names of the pods that are placed as planned.
    on_card
        Is called with how many cards were tried and how many there are to try.
    among
        Tells whether a card is one of those that are to be freed.
    """
    waiting = [
        pod for pod in world.pending.values() if pod.scheduler_name in schedulers and world.engine.dialects.owners(pod)
    ]
    placed = [answer for answer in simulate(world, waiting, as_they_are=True, explained=False) if answer.node]
    going = {(answer.node, card) for answer in placed for card in answer.cards}
    plan = _Planner(world, schedulers, on_card, going).plan(most, among)
    there = {answer.pod.uid for answer in placed}
    left = [pod for pod in waiting if pod.uid not in there]
    return replace(plan, asked=most, waiting=len(left), taken=_taken(world, left, frozenset(plan.freed)))


def _taken(world: World, waiting: Iterable[Pod], freed: frozenset[Spot]) -> dict[Spot, tuple[str, ...]]:
    """Place pods that wait, and return which of them are on freed cards."""
    pods_by_card: dict[Spot, tuple[str, ...]] = {}
    for answer in simulate(world, waiting, as_they_are=True, explained=False) if freed else ():
        for card in dict.fromkeys(answer.cards):
            spot = (answer.node, card)
            if spot in freed:
                pods_by_card[spot] = (*pods_by_card.get(spot, ()), answer.pod.key)
    return dict(sorted(pods_by_card.items()))


class _Planner:
    """Tries one card after the other, on the world itself.

    Parameters
    ----------
    going
        The cards that pods which wait go to now.
    """

    def __init__(
        self, world: World, schedulers: Container[str], on_card: Callable[[int, int], None], going: Container[Spot]
    ) -> None:
        self._world = world
        self._going = going
        self._on_card = on_card
        self._moves = Moves(world, schedulers)
        self._filled: set[Spot] = set()
        self._stay: dict[str, int] = {}

    def plan(self, most: int, among: Callable[[CardUsage], bool]) -> Plan:
        """Plan with all idle cards cordoned; then uncordon those that no move goes to."""
        listed = cards(self._world)
        mine = [card for card in listed if not self._left_out(card)]
        idle = [_spot(card) for card in mine if card.idle]
        idle_now = {_spot(card) for card in listed if card.idle}
        for card in listed:
            if not card.idle and card.pods and among(card) and (why := self._left_out(card)):
                self._keeps(why)
        self._moves.cordon(idle)
        moves: list[Move] = []
        emptied: list[Spot] = []
        used = sorted(
            (card for card in mine if not card.idle and among(card)),
            key=lambda card: (len(card.pods), card.memory.used, card.node, card.card),
        )
        for number, card in enumerate(used, 1):
            self._on_card(number, len(used))
            if most and len(emptied) >= most:
                break
            if _spot(card) in self._filled or is_idle(self._world, card):
                continue
            done, why = self._empty(card)
            if why:
                self._keeps(why)
                continue
            emptied.append(_spot(card))
            moves += done
        cordoned, made = self._with_fewest_cordons(moves, emptied, idle)
        freed = [_spot(card) for card in cards(self._world) if card.idle and _spot(card) not in idle_now]
        self._moves.uncordon_all()
        already = sum(card.idle and card.state == "ready" and among(card) for card in listed)
        return Plan(tuple(sorted(freed)), tuple(sorted(cordoned)), tuple(made), self._stay, idle=already)

    def _keeps(self, why: str) -> None:
        self._stay[why] = self._stay.get(why, 0) + 1

    def _left_out(self, card: CardUsage) -> str:
        """Return why a card is not emptied whatever is on it; empty where it may be."""
        if card.state != "ready":
            return "the card is out of service"
        if is_closed(self._world, card.node):
            return "its node takes no pods"
        if not self._moves.can_cordon(_spot(card)):
            return "no annotation takes single cards of its vendor out of service, so that the pod could come back"
        return ""

    def _empty(self, card: CardUsage) -> tuple[list[Move], str]:
        """Move all occupants of a card; return the moves, or why it cannot be."""
        if _spot(card) in self._going:
            return [], "a pod that waits goes there now"
        known = [self._moves.pod(key) for key in card.pods]
        occupants = [pod for pod in known if pod is not None]
        if len(occupants) < len(known):
            return [], "a pod on the card has been moved before"
        if not occupants:
            return [], "what is on the card is not known"
        why = next(filter(None, map(self._moves.why_not, occupants)), "")
        if why:
            return [], f"a pod on the card {why}"
        self._moves.cordon([_spot(card)])
        moves: list[Move] = []
        for pod in sorted(occupants, key=lambda pod: (-pod.priority, pod.key)):
            move = self._moves.move(pod.key)
            if move is None:
                for made in reversed(moves):
                    self._moves.take_back(made.pod)
                self._moves.uncordon([_spot(card)])
                return [], self._moves.why_nowhere
            moves.append(move)
        self._filled |= {spot for move in moves for spot in move.to_spots}
        return moves, ""

    def _with_fewest_cordons(
        self, planned: Sequence[Move], emptied: Sequence[Spot], idle: Sequence[Spot]
    ) -> tuple[list[Spot], list[Move]]:
        """Make the moves of a plan again, with idle cards cordoned only where they go there otherwise.

        Where the cordon of a card that a move went to does not steer it, all idle cards are cordoned.

        Returns
        -------
        tuple
            The cards that are cordoned, and the moves as they are made then.
        """
        spared, settled = set(idle), False
        made: list[Move] = []
        while not settled:
            self._moves.take_back_all()
            self._moves.uncordon_all()
            before = set(spared)
            self._moves.cordon([*emptied, *(spot for spot in idle if spot not in spared)])
            made = [move for move in (self._steered(each, spared) for each in planned) if move is not None]
            settled = spared == before
        return [*emptied, *(spot for spot in idle if spot not in spared)], made

    def _steered(self, planned: Move, spared: set[Spot]) -> Move | None:
        """Make a move go where it is to, by cordons of cards that were spared until now.

        So are those cordoned that a pod which waits would take as soon as the move is made.
        """
        while spared:
            made = self._moves.move(planned.pod)
            if made == planned:
                wrong = spared.intersection(self._moves.taken_meanwhile())
                if not wrong:
                    return made
            else:
                wrong = spared.intersection(made.to_spots if made else ()) or set(spared)
            if made:
                self._moves.take_back(planned.pod)
            self._moves.cordon(wrong)
            spared -= wrong
        return self._moves.move(planned.pod)


def _spot(card: CardUsage) -> Spot:
    return card.node, card.card
