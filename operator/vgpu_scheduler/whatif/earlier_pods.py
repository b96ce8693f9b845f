"""What pods that wait, too, take of the quotas of their namespace before the turn of another one comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif.queue_order import pods_waiting_beside
from vgpu_scheduler.whatif.world import World

__all__ = ["NOBODY_EARLIER", "EarlierPods", "earlier_pods_of"]


@dataclass(frozen=True, slots=True)
class EarlierPods:
    """The pods of a namespace that are served before one, and that quotas alone are known to keep waiting.

    Attributes
    ----------
    asked
        What each counts for in quotas at least, by resource, in the order of their turns.
    depends
        The resources of which some count for more on a larger card.
    """

    asked: Sequence[Mapping[str, int]]
    depends: frozenset[str]

    def let_in(self, left: Mapping[str, int]) -> tuple[int, Mapping[str, int]]:
        """Return how many are let in, and what they take, of what quotas leave by resource."""
        taken: Counter[str] = Counter()
        number = 0
        for asked in self.asked:
            if all(taken[resource] + amount <= left.get(resource, amount) for resource, amount in asked.items()):
                taken.update(asked)
                number += 1
        return number, taken


NOBODY_EARLIER: Final = EarlierPods((), frozenset())


def earlier_pods_of(world: World, pod: Pod) -> EarlierPods:
    """Return the pods that are served before one in its namespace, as far as its quotas keep them waiting.

    Parameters
    ----------
    world
        The quotas and all pods of the namespace are in it.
    """
    quotas = world.engine.quota_limits
    resources = [report.resource for report in quotas.reports(pod.namespace, world.engine.state)]
    asked: list[Mapping[str, int]] = []
    depends: set[str] = set()
    for each in pods_waiting_beside(world, pod).before:
        claims = world.engine.cycle.classes.claims(each)
        if each.namespace != pod.namespace or not claims or not _waits_for_quotas(each):
            continue
        counts = {resource: amount for resource in resources if (amount := quotas.asked(resource, claims))}
        of_cards = {resource for resource in resources if quotas.depends_on_card(resource, claims)}
        depends |= of_cards
        if counts or of_cards:
            asked.append(counts)
    return EarlierPods(asked, frozenset(depends))


def _waits_for_quotas(pod: Pod) -> bool:
    """Tell whether nothing else is known to keep a pod waiting, whatever its quotas are."""
    condition = pod.scheduled_condition
    message = "" if condition is None else condition.message or ""
    return not message or CardReason.ResourceQuotaNotFit.text in message
