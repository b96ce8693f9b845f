"""The quota that pending pods ahead of a pod take before it is tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.world.queue_order import pods_before_and_after
from vgpu_scheduler.whatif.world.world import World

_MOST_ROUNDS: Final = 50
"""Rounds after which all earlier pods are assumed to take their room; a few rounds suffice for a few pod sizes."""


@dataclass(frozen=True, slots=True)
class EarlierPods:
    """The pods of a namespace that are ahead of a pod and that, as far as is known, only quotas keep waiting.

    Attributes
    ----------
    asked
        The least that each pod adds to quotas, by resource, in queue order; 0 if the card decides.
    left
        What the quotas of the namespace leave now, by resource.
    depends
        The resources of which some pods use more on a larger card.
    """

    asked: Sequence[Mapping[str, int]]
    left: Mapping[str, int]
    depends: frozenset[str]

    def let_in(
        self, beside: Mapping[str, int], left: Mapping[str, int]
    ) -> tuple[list[Mapping[str, int]], Mapping[str, int]]:
        """Return the requests of the earlier pods that fit if quotas are raised for a later pod, and what they take.

        Parameters
        ----------
        beside
            What must remain of each quota that may be raised, besides what the earlier pods take.
        left
            What these quotas leave now.
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
        """Return the requests that fit one after the other, and increase ``taken`` where they take more."""
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
    """Return the pods of a pod's namespace that are ahead of it in the queue and that quotas keep waiting.

    Parameters
    ----------
    world
        A world with the quotas and all pods of the namespace.
    """
    quotas = world.engine.quota_limits
    left = {each.resource: each.limit - each.used for each in quotas.reports(pod.namespace, world.engine.state)}
    asked: list[Mapping[str, int]] = []
    depends: set[str] = set()
    for each in pods_before_and_after(world, pod).before:
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
    """Tell whether nothing but quotas is known to keep a pod waiting."""
    condition = pod.scheduled_condition
    message = "" if condition is None else condition.message or ""
    return not message or CardReason.ResourceQuotaNotFit.text in message
