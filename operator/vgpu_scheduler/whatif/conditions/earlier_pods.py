"""What pods that wait, too, take of the quotas of their namespace before the turn of another one comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.world.queue_order import pods_waiting_beside
from vgpu_scheduler.whatif.world.world import World

__all__ = ["NOBODY_EARLIER", "EarlierPods", "earlier_pods_of"]


_MOST_ROUNDS: Final = 50
"""After which as much is taken as all ask for together: pods of a few sizes need a few rounds."""


@dataclass(frozen=True, slots=True)
class EarlierPods:
    """The pods of a namespace that are served before one, and that quotas alone are known to keep waiting.

    Attributes
    ----------
    asked
        What each counts for in quotas at least, by resource, in the order of their turns; 0 where the card decides.
    left
        What all quotas of the namespace leave now.
    depends
        The resources of which some count for more on a larger card.
    """

    asked: Sequence[Mapping[str, int]]
    left: Mapping[str, int]
    depends: frozenset[str]

    def let_in(
        self, beside: Mapping[str, int], left: Mapping[str, int]
    ) -> tuple[list[Mapping[str, int]], Mapping[str, int]]:
        """Return what those ask for that are let in, and what they take, where quotas are raised for one after them.

        Parameters
        ----------
        beside
            What has to be left of each quota that may be raised, beside what they take.
        left
            What is left of these now.
        """
        room = {**self.left, **left}
        taken = dict.fromkeys(beside, 0)
        for _ in range(_MOST_ROUNDS):
            before = dict(taken)
            found = self._served(beside, room, taken)
            if taken == before:
                return found, taken
        for resource in taken:
            taken[resource] = sum(each.get(resource, 0) for each in self.asked)
        return self._served(beside, room, taken), taken

    def _served(
        self, beside: Mapping[str, int], room: Mapping[str, int], taken: dict[str, int]
    ) -> list[Mapping[str, int]]:
        """Return those that are let in one after the other, and raise what is taken where they take more."""
        found: list[Mapping[str, int]] = []
        sums: Counter[str] = Counter()
        for asked in self.asked:
            if all(
                sums[resource] + amount <= max(beside[resource] + taken[resource], room.get(resource, 0))
                if resource in beside
                else sums[resource] + max(amount, 1) <= room.get(resource, 0)
                for resource, amount in asked.items()
            ):
                found.append(asked)
                sums.update(asked)
                for resource in asked.keys() & taken.keys():
                    taken[resource] = max(taken[resource], sums[resource])
        return found


NOBODY_EARLIER: Final = EarlierPods((), {}, frozenset())


def earlier_pods_of(world: World, pod: Pod) -> EarlierPods:
    """Return the pods that are served before one in its namespace, as far as its quotas keep them waiting.

    Parameters
    ----------
    world
        The quotas and all pods of the namespace are in it.
    """
    quotas = world.engine.quota_limits
    left = {each.resource: each.limit - each.used for each in quotas.reports(pod.namespace, world.engine.state)}
    asked: list[Mapping[str, int]] = []
    depends: set[str] = set()
    for each in pods_waiting_beside(world, pod).before:
        claims = world.engine.algorithm.classes.claims(each)
        if each.namespace != pod.namespace or not claims or not _waits_for_quotas(each):
            continue
        counts = {resource: amount for resource in left if (amount := quotas.asked(resource, claims))}
        of_cards = {resource for resource in left if quotas.depends_on_card(resource, claims)}
        depends |= of_cards
        if counts or of_cards:
            asked.append(dict.fromkeys(of_cards, 0) | counts)
    return EarlierPods(asked, left, frozenset(depends))


def _waits_for_quotas(pod: Pod) -> bool:
    """Tell whether nothing else is known to keep a pod waiting, whatever its quotas are."""
    condition = pod.scheduled_condition
    message = "" if condition is None else condition.message or ""
    return not message or CardReason.ResourceQuotaNotFit.text in message
