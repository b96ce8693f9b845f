"""Movable pods, and the resources of cards and nodes that each of them holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.moves.moves import NodeCard
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.world.world import World

_MIG: Final = "mig"
_T = TypeVar("_T")


class OutOfQuestionsError(Exception):
    """A search has used up its number of questions."""


class _Kind(NamedTuple):
    """A kind of amount that a pod holds: a dimension of a card or, without a dialect, a resource or port of its node.

    Attributes
    ----------
    whole
        Whether it matters which parts are free, not just how much.
    """

    dialect: str
    name: str
    number: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod that can be moved, with what it holds.

    Attributes
    ----------
    pod
        The bound pod.
    node_cards
        The cards of which it holds a part, with their node.
    held
        The amount that it holds of each kind.
    alike
        A key that is equal for interchangeable pods.
    """

    pod: Pod
    node_cards: frozenset[NodeCard]
    held: dict[_Kind, int]
    alike: object


def occupant_of(world: World, pod: Pod) -> Occupant:
    """Return a bound pod with the amounts that it holds."""
    held = {_Kind("", name): amount for name, amount in pod.used_requests.items()}
    held |= {_Kind("", str(port)): 1 for port in pod.spec.host_ports}
    node_cards: set[NodeCard] = set()
    for dialect, usage in world.engine.uses(pod).items():
        if usage.unreadable or usage.unlisted:
            held[_Kind(dialect, "any card", whole=True)] = 1
        for device in world.devices(pod.node_name, dialect):
            amounts = usage.charges.get(device.uuid, ())
            whole = device.mode == _MIG  # which pieces are free matters, not how much
            kinds = (_Kind(dialect, device.uuid, number, whole) for number, _ in enumerate(amounts))
            held |= dict(zip(kinds, amounts, strict=True))
            if amounts:
                node_cards.add((pod.node_name, card_name(device.vendor, device.uuid)))
    alike = (pod.spec.fingerprint, pod.namespace, frozenset(pod.labels.items()), frozenset(held.items()))
    return Occupant(pod, frozenset(node_cards), held, alike)


def of_quotas(world: World, pod: Pod) -> dict[_Kind, int]:
    """Return the amounts of a pod that quotas of its namespace count."""
    held: dict[_Kind, int] = {}
    for dialect, usage in world.engine.uses(pod).items():
        for vendor, amounts in usage.totals().items():
            kinds = (_Kind(dialect, f"all of {vendor}", number) for number, _ in enumerate(amounts))
            held |= dict(zip(kinds, amounts, strict=True))
    if world.engine.state.quota_usage.by_card:  # the counted amount depends on the card
        held = {kind._replace(whole=True): amount for kind, amount in held.items()}
    return held


def largest_of(occupants: Sequence[Occupant], most: int) -> list[Occupant]:
    """Return, for each kind of amount, the pods that hold the most of it."""
    by_kind: dict[_Kind, list[tuple[int, int]]] = {}
    for number, occupant in enumerate(occupants):
        for kind, amount in occupant.held.items():
            by_kind.setdefault(kind, []).append((amount, number))
    chosen: set[int] = set()
    for kind, holders in by_kind.items():
        holders.sort(reverse=True)
        chosen |= {number for _, number in (holders if kind.whole else holders[:most])}
    return [occupants[number] for number in sorted(chosen)]


def needed_of(leaving: Sequence[_T], fits_without: Callable[[Sequence[_T]], bool]) -> list[_T]:
    """Return a minimal subset of pods that have to leave; the last pods are spared first."""
    kept = list(leaving)
    for pod in reversed(leaving):
        without = [other for other in kept if other is not pod]
        if fits_without(without):
            kept = without
    return kept
