"""Plan moves that empty cards, for pods that want whole ones.

Pods are moved one after the other, each once the previous one runs again. Cards that are to be emptied are cordoned
first, so that moved pods do not land on them; so are those idle cards on which moved pods would otherwise land.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vgpu_scheduler.engine import SCHEDULER_NAME
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.moves.moves import Move, NodeCard, PodMover
from vgpu_scheduler.whatif.world.nodes import is_closed
from vgpu_scheduler.whatif.world.simulation import simulate
from vgpu_scheduler.whatif.world.usage import cards, is_idle
from vgpu_scheduler.whatif.world.usage_rows import CardUsage
from vgpu_scheduler.whatif.world.world import World


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan to free cards, carried out in this order: cordon, move one pod after the other, uncordon.

    Attributes
    ----------
    freed
        The cards that are idle afterwards but not now.
    cordoned
        The cards that are cordoned during the moves: those that the moves empty, and the idle ones on which moved pods
        would otherwise land.
    stay
        The number of cards that keep their pods, by reason.
    asked
        The most cards to free, as requested; 0 for as many as possible.
    waiting
        The number of pods that wait for cards and do not fit now.
    taken
        The waiting pods that would take freed cards at once, by card.
    idle
        The number of cards in service that are idle already, counted as ``top`` does.
    idle_taken
        How many of these are taken by waiting pods that fit now, before any move.
    """

    freed: tuple[NodeCard, ...]
    cordoned: tuple[NodeCard, ...]
    moves: tuple[Move, ...]
    stay: Mapping[str, int]
    asked: int = 0
    waiting: int = 0
    taken: Mapping[NodeCard, tuple[str, ...]] = field(default_factory=dict)
    idle: int = 0
    idle_taken: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        cordoned = [{"node": node, "card": card} for node, card in self.cordoned]
        return {
            "asked": self.asked,
            "freed": [{"node": node, "card": card} for node, card in self.freed],
            "cordon": cordoned,
            "moves": [move.as_json() for move in self.moves],
            "uncordon": cordoned,
            "idle": self.idle,
            "idle_taken": self.idle_taken,
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
    """Plan moves that empty cards, the least used cards first, and leave the world as the moves would.

    Waiting pods that fit now are placed before any move, the others after the last, with all cards in service again.

    Parameters
    ----------
    most
        The most cards to free; 0 for as many as possible.
    schedulers
        The scheduler names of the pods whose placement the plan can predict.
    on_card
        Called with the number of cards tried, and the number to try.
    among
        Tells whether a card is one of those to be freed.
    """
    waiting = [
        pod for pod in world.pending.values() if pod.scheduler_name in schedulers and world.engine.dialects.owners(pod)
    ]
    idle = {_node_card(card) for card in cards(world) if card.idle and card.state == "ready" and among(card)}
    placed = [answer for answer in simulate(world, waiting, as_they_are=True, explained=False) if answer.node]
    going = {(answer.node, card) for answer in placed for card in answer.cards}
    plan = _Planner(world, schedulers, on_card, going).plan(
        most, lambda card: among(card) and _node_card(card) not in idle
    )
    there = {answer.pod.uid for answer in placed}
    left = [pod for pod in waiting if pod.uid not in there]
    return replace(
        plan,
        asked=most,
        waiting=len(left),
        taken=_taken(world, left, frozenset(plan.freed)),
        idle=len(idle),
        idle_taken=len(idle & going),
    )


def _taken(world: World, waiting: Iterable[Pod], freed: frozenset[NodeCard]) -> dict[NodeCard, tuple[str, ...]]:
    """Place the waiting pods, and return those that land on freed cards, by card."""
    pods_by_card: dict[NodeCard, tuple[str, ...]] = {}
    for answer in simulate(world, waiting, as_they_are=True, explained=False) if freed else ():
        for card in dict.fromkeys(answer.cards):
            node_card = (answer.node, card)
            if node_card in freed:
                pods_by_card[node_card] = (*pods_by_card.get(node_card, ()), answer.pod.key)
    return dict(sorted(pods_by_card.items()))


class _Planner:
    """Tries to empty one card after the other, on the world itself.

    Parameters
    ----------
    going
        The cards on which waiting pods are placed now.
    """

    def __init__(
        self, world: World, schedulers: Container[str], on_card: Callable[[int, int], None], going: Container[NodeCard]
    ) -> None:
        self._world = world
        self._going = going
        self._on_card = on_card
        self._moves = PodMover(world, schedulers)
        self._filled: set[NodeCard] = set()
        self._stay: dict[str, int] = {}

    def plan(self, most: int, among: Callable[[CardUsage], bool]) -> Plan:
        """Plan with all idle cards cordoned; then uncordon those on which no move lands."""
        listed = cards(self._world)
        mine = [card for card in listed if not self._left_out(card)]
        idle = [_node_card(card) for card in mine if card.idle]
        idle_now = {_node_card(card) for card in listed if card.idle}
        for card in listed:
            if not card.idle and card.pods and among(card) and (why := self._left_out(card)):
                self._keeps(why)
        self._moves.cordon(idle)
        moves: list[Move] = []
        emptied: list[NodeCard] = []
        used = sorted(
            (card for card in mine if not card.idle and among(card)),
            key=lambda card: (len(card.pods), card.memory.used, card.node, card.card),
        )
        for number, card in enumerate(used, 1):
            self._on_card(number, len(used))
            if most and len(emptied) >= most:
                break
            if _node_card(card) in self._filled or is_idle(self._world, card):
                continue
            done, why = self._empty(card)
            if why:
                self._keeps(why)
                continue
            emptied.append(_node_card(card))
            moves += done
        cordoned, made = self._with_fewest_cordons(moves, emptied, idle)
        freed = [_node_card(card) for card in cards(self._world) if card.idle and _node_card(card) not in idle_now]
        self._moves.uncordon_all()
        return Plan(tuple(sorted(freed)), tuple(sorted(cordoned)), tuple(made), self._stay)

    def _keeps(self, why: str) -> None:
        self._stay[why] = self._stay.get(why, 0) + 1

    def _left_out(self, card: CardUsage) -> str:
        """Return why a card cannot be emptied, whatever is on it; empty if it can."""
        if card.state != "ready":
            return "the card is out of service"
        if is_closed(self._world, card.node):
            return "its node takes no pods"
        if not self._moves.can_cordon(_node_card(card)):
            return "single cards of its vendor cannot be cordoned, so the pod could be placed there again"
        return ""

    def _empty(self, card: CardUsage) -> tuple[list[Move], str]:
        """Move all occupants of a card; return the moves, or the reason why it cannot be emptied."""
        if _node_card(card) in self._going:
            return [], "a waiting pod is placed there now"
        known = [self._moves.pod(key) for key in card.pods]
        occupants = [pod for pod in known if pod is not None]
        if len(occupants) < len(known):
            return [], "a pod on the card has been moved before"
        if not occupants:
            return [], "the pods on the card are not known"
        why = next(filter(None, map(self._moves.why_not, occupants)), "")
        if why:
            return [], f"a pod on the card {why}"
        self._moves.cordon([_node_card(card)])
        moves: list[Move] = []
        for pod in sorted(occupants, key=lambda pod: (-pod.priority, pod.key)):
            move = self._moves.move(pod.key)
            if move is None:
                for made in reversed(moves):
                    self._moves.take_back(made.pod)
                self._moves.uncordon([_node_card(card)])
                return [], self._moves.why_nowhere
            moves.append(move)
        self._filled |= {node_card for move in moves for node_card in move.to_node_cards}
        return moves, ""

    def _with_fewest_cordons(
        self, planned: Sequence[Move], emptied: Sequence[NodeCard], idle: Sequence[NodeCard]
    ) -> tuple[list[NodeCard], list[Move]]:
        """Repeat the moves of a plan, cordoning idle cards only where a moved pod would otherwise land on them.

        If cordoning the card on which a pod landed does not lead it to its planned place, all idle cards are cordoned.

        Returns
        -------
        tuple
            The cordoned cards, and the moves as they turn out with these cordons.
        """
        spared, settled = set(idle), False
        made: list[Move] = []
        while not settled:
            self._moves.take_back_all()
            self._moves.uncordon_all()
            before = set(spared)
            self._moves.cordon([*emptied, *(node_card for node_card in idle if node_card not in spared)])
            made = [move for move in (self._steered(each, spared) for each in planned) if move is not None]
            settled = spared == before
        return [*emptied, *(node_card for node_card in idle if node_card not in spared)], made

    def _steered(self, planned: Move, spared: set[NodeCard]) -> Move | None:
        """Make a planned move, cordoning idle cards until the pod lands in its planned place.

        Also cordon the cards that a waiting pod would take as soon as the move is made.
        """
        while spared:
            made = self._moves.move(planned.pod)
            if made == planned:
                wrong = spared.intersection(self._moves.taken_meanwhile())
                if not wrong:
                    return made
            else:
                wrong = spared.intersection(made.to_node_cards if made else ()) or set(spared)
            if made:
                self._moves.take_back(planned.pod)
            self._moves.cordon(wrong)
            spared -= wrong
        return self._moves.move(planned.pod)


def _node_card(card: CardUsage) -> NodeCard:
    return card.node, card.card
