"""Moves of pods: a pod is evicted, its controller recreates it, and the scheduler places the new pod.

Temporary cordons of cards steer where it lands, so plans cover only vendors whose cards can be cordoned.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Placement
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.objects.controllers import controller_of
from vgpu_scheduler.whatif.reasons.count_quotas import exceeded_count_quotas, usage_in_quotas
from vgpu_scheduler.whatif.world.nodes import listed_cards, with_annotation
from vgpu_scheduler.whatif.world.queue_order import answer_key, placing, pods_before_and_after, queue_of
from vgpu_scheduler.whatif.world.simulation import created, simulate
from vgpu_scheduler.whatif.world.world import World

NodeCard = tuple[str, str]
"""A node and one of its cards."""
_MOST_OTHERS: Final = 16
"""The most different pending pods that are tried between two moves."""


def node_cards_of(placement: Placement) -> tuple[NodeCard, ...]:
    """Return the cards of a placement, with its node."""
    held = (assignment for container in placement.containers for assignment in container)
    return tuple(dict.fromkeys((placement.node, card_name(each.vendor, each.uuid)) for each in held))


@dataclass(frozen=True, slots=True)
class Move:
    """The eviction of one pod, and where its replacement is placed."""

    pod: str
    node: str
    cards: tuple[str, ...]
    to_node: str
    to_cards: tuple[str, ...]

    @property
    def to_node_cards(self) -> tuple[NodeCard, ...]:
        """The cards of the new placement, with its node."""
        return tuple((self.to_node, card) for card in dict.fromkeys(self.to_cards))

    def as_json(self) -> dict[str, Any]:
        """Return the move as plain values."""
        return {
            "pod": self.pod,
            "from": {"node": self.node, "cards": list(self.cards)},
            "to": {"node": self.to_node, "cards": list(self.to_cards)},
        }


class PodMover:
    """Moves pods of a world, and undoes moves.

    Parameters
    ----------
    schedulers
        The scheduler names of the pods whose placement can be simulated.
    served
        The UID of the pending pod for which the moves make room; empty if for none.
    """

    def __init__(self, world: World, schedulers: Container[str], served: str = "") -> None:
        self._world = world
        self._served = served
        self._schedulers = schedulers
        self._written = dict(world.nodes)
        self._keys: dict[NodeCard, str] = {}
        for node, dialect, device in world.listed_devices():
            if key := dialect.inventory.cordons.get(device.vendor):
                self._keys[node, card_name(device.vendor, device.uuid)] = key
        self._exceeded = exceeded_count_quotas(world)
        self._pods = {pod.key: pod for pod in world.bound.values()}
        self._made: dict[str, tuple[Pod, str]] = {}
        """The moved pods in order: each as it was, and the UID of its replacement."""
        self.why_nowhere = ""
        """Why the last pod that could not be moved has no other place, worded for all pods of its card."""

    def pod(self, key: str) -> Pod | None:
        """Return a bound pod by namespace and name; None if it is not there or was moved."""
        return None if key in self._made else self._pods.get(key)

    def why_not(self, pod: Pod) -> str:
        """Return a clause about a pod that cannot be moved; empty if it can."""
        return next(self._reasons_to_stay(pod), "")

    def _reasons_to_stay(self, pod: Pod) -> Iterator[str]:
        if pod.deleting:
            yield "is ending already"
        if controller_of(self._world.written(pod)) is None:
            yield "has no controller that would recreate it"
        if pod.is_node_bound:
            yield "would come back to its node"
        if pod.scheduler_name not in self._schedulers:
            yield "is placed by another scheduler"
        if problem := self._world.engine.groups.problem(pod):
            yield _refused_anew(problem)
        for quota in self._exceeded.get(pod.namespace, ()):
            if quota.counted(usage_in_quotas(self._world, pod)):
                allowed = f"{quota.title} allows {quota.limit} of {quota.name}, and more are used"
                yield f"would not be recreated: {allowed}"
        if not all(budget.allows([pod]) for budget in self._world.engine.budgets.all()):
            yield "has a disruption budget that does not allow it"

    def can_cordon(self, node_card: NodeCard) -> bool:
        """Tell whether a card can be cordoned by an annotation of its node."""
        return node_card in self._keys

    def cordon(self, node_cards: Iterable[NodeCard]) -> None:
        """Take cards out of service."""
        for node, card in node_cards:
            self._list(node, card, cordoned=True)

    def uncordon(self, node_cards: Iterable[NodeCard]) -> None:
        """Put cards into service again."""
        for node, card in node_cards:
            self._list(node, card, cordoned=False)

    def uncordon_all(self) -> None:
        """Restore the nodes as they were written."""
        for name, written in self._written.items():
            if self._world.nodes[name] is not written:
                self._world.replace_node(written)

    def move(self, key: str, *, served_later: bool = False) -> Move | None:
        """Evict a pod and place its replacement; if that fits nowhere, restore the pod and return None.

        Pending pods ahead of the replacement in the queue are placed first, and may take the freed room.

        Parameters
        ----------
        served_later
            Leave out the pod for which room is made: it is placed later.
        """
        pod = self._pods[key]
        before, priority = self._cards_of(pod), self._world.engine.groups.priority(pod)
        self._world.remove_pod(pod.uid)
        with placing(self._world, self._served_before(pod, priority, self._served if served_later else "")):
            (answer,) = simulate(self._world, [pod], explained=False, each_alone=True)
        self._made[key] = (pod, answer.decision.uid)
        if answer.decision.outcome is not Outcome.PLACED:
            self.why_nowhere = _why_nowhere(pod, answer.decision)
            self.take_back(key)
            return None
        return Move(key, pod.node_name, before, answer.node, answer.cards)

    def _served_before(self, pod: Pod, priority: int, but: str) -> Iterator[Pod]:
        """Yield the pending pods that are ahead of a recreated pod of a priority, in queue order."""
        for each in chain(*pods_before_and_after(self._world, pod)):
            if self._world.engine.groups.priority(each) >= priority and each.uid != but:
                yield each

    def taken_meanwhile(self) -> tuple[NodeCard, ...]:
        """Return the cards that the first pending pod that fits now would take; empty if none fits.

        The pod for which room is made is left out.
        """
        tried: set[Hashable] = set()
        for pod in queue_of(self._world):
            alike = answer_key(pod)
            if pod.uid == self._served or alike in tried or not self._world.engine.dialects.owners(pod):
                continue
            if len(tried) == _MOST_OTHERS:
                break
            tried.add(alike)
            decision = self._world.engine.attempts.dry_run(created(self._world, pod, pod.uid), explain=False)
            if decision.placement is not None:
                return node_cards_of(decision.placement)
        return ()

    def has_same_place_when_moved_last(self, move: Move) -> bool:
        """Tell whether a moved pod lands in the same place if the pod for which room is made is placed before it."""
        self.take_back(move.pod)
        again = self.move(move.pod)
        if again is not None:
            self.take_back(move.pod)
        self.move(move.pod, served_later=True)
        return again == move

    def take_back(self, key: str) -> None:
        """Undo the move of a pod."""
        pod, uid = self._made.pop(key)
        self._world.engine.remove_pod(uid, 0.0)
        self._world.restore_pod(pod)

    def take_back_all(self) -> None:
        """Undo all moves; all replacements are removed before any pod is restored, so that none blocks another."""
        for _, uid in self._made.values():
            self._world.engine.remove_pod(uid, 0.0)
        for pod, _ in self._made.values():
            self._world.restore_pod(pod)
        self._made.clear()

    def _list(self, name: str, card: str, *, cordoned: bool) -> None:
        node, key = self._world.nodes[name], self._keys[name, card]
        others = [each for each in listed_cards(node, key) if each != card]
        self._world.replace_node(with_annotation(node, key, ",".join([*others, card] if cordoned else others)))

    def _cards_of(self, pod: Pod) -> tuple[str, ...]:
        found: list[str] = []
        for name, usage in self._world.engine.uses(pod).items():
            devices = {device.uuid: device for device in self._world.devices(pod.node_name, name)}
            for uuid in usage.charges:
                device = devices.get(uuid)
                if device is None or not device.part:
                    found.append(card_name("" if device is None else device.vendor, uuid))
        return tuple(found)


def _refused_anew(reason: str) -> str:
    return f"would be refused if it were recreated: {reason}"


def _why_nowhere(pod: Pod, decision: Decision) -> str:
    """Say why a replacement would not be placed; refusals and quotas are named before a lack of room."""
    if decision.outcome is Outcome.REFUSED:
        reason = next((each.text for each in decision.reasons), decision.message)
        return f"a pod on the card {_refused_anew(reason)}"
    if not decision.another_node_helps:
        return f"a quota of namespace {pod.namespace} would keep a pod on the card from being placed again"
    return "the pods fit nowhere else"
