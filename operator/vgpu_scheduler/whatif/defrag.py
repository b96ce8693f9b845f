"""A plan of moves that empties cards, for pods that want whole ones.

Pods are moved one after the other, each when the one before runs again, as somebody would do it by evicting them:
their controllers make them anew, and the scheduler places them. So that they do not go where the room is to be, cards
that are idle, or are to be, are cordoned first; a plan is about makers whose cards can be.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vgpu_scheduler.engine import SCHEDULER_NAME
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.whatif.budgets import budgets_of
from vgpu_scheduler.whatif.cards import card_name
from vgpu_scheduler.whatif.controllers import has_controller, is_node_bound
from vgpu_scheduler.whatif.nodes import listed_cards, with_annotation
from vgpu_scheduler.whatif.simulation import simulate
from vgpu_scheduler.whatif.usage import CardUsage, cards, is_idle
from vgpu_scheduler.whatif.world import World

Object = Mapping[str, Any]
Spot = tuple[str, str]
"""A node, and a card of it."""


@dataclass(frozen=True, slots=True)
class Move:
    """One pod that is deleted, and where it goes then."""

    pod: str
    node: str
    cards: tuple[str, ...]
    to_node: str
    to_cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order: cordon, move one pod after the other, uncordon.

    Attributes
    ----------
    freed
        The cards that are idle afterwards and are not now.
    cordoned
        The cards that are cordoned meanwhile: those, and the ones that are idle already.
    stay
        How many cards keep their pods, by why.
    waiting
        How many pods wait for cards.
    taken
        Those of them that would take freed cards at once, by card.
    """

    freed: tuple[Spot, ...]
    cordoned: tuple[Spot, ...]
    moves: tuple[Move, ...]
    stay: Mapping[str, int]
    waiting: int = 0
    taken: Mapping[Spot, tuple[str, ...]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "freed": [{"node": node, "card": card} for node, card in self.freed],
            "cordon": [{"node": node, "card": card} for node, card in self.cordoned],
            "moves": [
                {
                    "pod": move.pod,
                    "from": {"node": move.node, "cards": list(move.cards)},
                    "to": {"node": move.to_node, "cards": list(move.to_cards)},
                }
                for move in self.moves
            ],
            "stay": dict(self.stay),
            "waiting": self.waiting,
            "taken": [{"node": node, "card": card, "pods": [*pods]} for (node, card), pods in self.taken.items()],
        }


def defrag(
    world: World,
    most: int = 0,
    schedulers: Container[str] = (SCHEDULER_NAME,),
    on_card: Callable[[int, int], None] = lambda _, __: None,
) -> Plan:
    """Plan moves that empty cards, those with the least on them first; the world is then as it would be.

    Pods that wait are placed last, when all cards are in service again.

    Parameters
    ----------
    most
        Cards that are to be freed at most; 0 for as many as can be.
    schedulers
        The scheduler names of the pods that are placed as planned.
    on_card
        Is called with how many cards were tried and how many there are to try.
    """
    nodes = dict(world.nodes)
    plan = _Planner(world, schedulers, on_card).plan(most)
    for name, written in nodes.items():
        if world.nodes[name] is not written:
            world.replace_node(written)
    waiting = [
        pod for pod in world.pending.values() if pod.scheduler_name in schedulers and world.engine.dialects.owners(pod)
    ]
    return replace(plan, waiting=len(waiting), taken=_taken(world, waiting, frozenset(plan.freed)))


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
    """Tries one card after the other, on the world itself."""

    def __init__(self, world: World, schedulers: Container[str], on_card: Callable[[int, int], None]) -> None:
        self._world = world
        self._on_card = on_card
        self._schedulers = schedulers
        self._budgets = budgets_of(world.budgets)
        self._keys = {
            (dialect.name, vendor): key
            for dialect in world.engine.dialects
            for vendor, key in dialect.inventory.cordons.items()
        }
        self._pods = {pod.key: pod for pod in world.bound.values()}
        self._moved: set[str] = set()
        self._filled: set[Spot] = set()
        self._stay: dict[str, int] = {}

    def plan(self, most: int) -> Plan:
        mine = [card for card in cards(self._world) if (card.dialect, card.vendor) in self._keys]
        idle_now = {(card.node, card.card) for card in mine if card.idle}
        idle = [card for card in mine if card.idle and card.state == "ready"]
        used = [card for card in mine if not card.idle and card.state == "ready"]
        for card in idle:
            self._cordon(card, on=True)
        moves: list[Move] = []
        emptied: list[CardUsage] = []
        used.sort(key=lambda card: (len(card.pods), card.memory.used, card.node, card.card))
        for number, card in enumerate(used, 1):
            self._on_card(number, len(used))
            if most and len(emptied) >= most:
                break
            if (card.node, card.card) in self._filled or is_idle(self._world, card):
                continue
            done, why = self._empty(card)
            if why:
                self._stay[why] = self._stay.get(why, 0) + 1
                continue
            emptied.append(card)
            moves += done
        freed = [card for card in cards(self._world) if card.idle and (card.node, card.card) not in idle_now]
        return Plan(_spots(freed), _spots([*idle, *emptied]), tuple(moves), self._stay)

    def _empty(self, card: CardUsage) -> tuple[list[Move], str]:
        """Move all tenants of a card; return the moves, or why it cannot be."""
        tenants = [self._pods[key] for key in card.pods if key in self._pods]
        why = next(filter(None, (self._why_not(pod) for pod in tenants)), "")
        if len(tenants) < len(card.pods) or not tenants:
            why = why or "what is on the card is not known"
        if why:
            return [], why
        self._cordon(card, on=True)
        moves: list[Move] = []
        undone: list[tuple[Pod, str]] = []
        for pod in sorted(tenants, key=lambda pod: (-pod.priority, pod.key)):
            move, uid = self._move(pod)
            undone.append((pod, uid))
            if move is None:
                self._take_back(undone)
                self._cordon(card, on=False)
                return [], "the pods fit nowhere else"
            moves.append(move)
        self._moved |= {pod.key for pod in tenants}
        self._filled |= {(move.to_node, to) for move in moves for to in move.to_cards}
        return moves, ""

    def _why_not(self, pod: Pod) -> str:
        written = self._world.written(pod)
        if not has_controller(written):
            return "a pod on the card has no controller that would make it anew"
        if is_node_bound(written):
            return "a pod on the card would come back to its node"
        if pod.scheduler_name not in self._schedulers:
            return "a pod on the card is placed by another scheduler"
        if not all(budget.allows(pod) for budget in self._budgets):
            return "a disruption budget does not allow it"
        return "a pod on the card has been moved before" if pod.key in self._moved else ""

    def _move(self, pod: Pod) -> tuple[Move | None, str]:
        """Take a pod away and place it anew; return the move, and the UID that holds its new place."""
        before = _cards_of(self._world, pod)
        self._world.remove_pod(pod.uid)
        (answer,) = simulate(self._world, [pod], explained=False)
        if answer.decision.outcome is not Outcome.PLACED:
            return None, ""
        return Move(pod.key, pod.node_name, before, answer.node, answer.cards), answer.decision.uid

    def _take_back(self, undone: Iterable[tuple[Pod, str]]) -> None:
        for _, uid in undone:
            if uid:
                self._world.engine.remove_pod(uid, 0.0)
        for pod, _ in undone:
            self._pods[pod.key] = self._world.restore_pod(pod)

    def _cordon(self, card: CardUsage, *, on: bool) -> None:
        node, key = self._world.nodes[card.node], self._keys[card.dialect, card.vendor]
        listed = [name for name in listed_cards(node, key) if name != card.card]
        self._world.replace_node(with_annotation(node, key, ",".join([*listed, card.card] if on else listed)))


def _spots(listed: Iterable[CardUsage]) -> tuple[Spot, ...]:
    return tuple(sorted((card.node, card.card) for card in listed))


def _cards_of(world: World, pod: Pod) -> tuple[str, ...]:
    found: list[str] = []
    for name, usage in world.engine.dialects.uses(pod).items():
        vendors = {device.uuid: device.vendor for device in world.devices(pod.node_name, name)}
        found += [card_name(vendors.get(uuid, ""), uuid) for uuid in usage.charges]
    return tuple(found)
