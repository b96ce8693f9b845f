"""The quotas that a pod adds to, each with what the pod needs of it and what it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.model import PodClaims
from vgpu_scheduler.policy import POLICY_KINDS
from vgpu_scheduler.whatif.tenant_advice.group_quotas import OtherMembers
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest
from vgpu_scheduler.whatif.tenant_advice.pieces import takes_pieces_alone
from vgpu_scheduler.whatif.world.world import World

_NOTHING: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The quota status of one resource that a pod needs.

    Attributes
    ----------
    asked, others
        What the pod adds to the quota, and what the members placed at once with it add.
    depends
        Whether it may add more, depending on the card.
    unsure
        Whether this quota may not be in the way, since another one certainly is.
    may_be_given
        Whether the pod may add more because of policies that the reader cannot see.
    together
        The number of pods of the group that count at once, if others of them may add more than is known; else 0.
    """

    report: QuotaReport
    asked: int
    others: int
    depends: bool
    unsure: bool = False
    may_be_given: bool = False
    together: int = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether the pod certainly exceeds the quota."""
        return self.remaining < self.asked

    @property
    def may_be_exceeded(self) -> bool:
        """Whether the pod exceeds the quota on some cards, as far as is known."""
        return self.depends and not self.is_exceeded

    @property
    def remaining(self) -> int:
        """What the quota leaves to the pod."""
        return self.report.limit - self.report.used - self.others

    @property
    def wanted(self) -> int:
        """The limit that would suffice without pods ahead in the queue."""
        return self.report.used + self.asked + self.others


def statuses_of(
    asked: PodRequest, reports: Iterable[QuotaReport], other_members: OtherMembers | None, *, given: bool
) -> Iterator[ResourceStatus]:
    """Yield the status of each quota that the pod, or the members placed at once with it, add to.

    Parameters
    ----------
    given
        Whether a policy sets the amounts that the pod does not specify.
    """
    quotas, in_pieces = asked.world.engine.quota_limits, takes_pieces_alone(asked)
    for report in reports:
        resource = report.resource
        others = other_members.asked.get(resource, 0) if other_members is not None else 0
        if not others and not quotas.concerns(resource, asked.claims):
            continue
        counts, of_compute = quotas.asked(resource, asked.claims), is_compute(asked, resource)
        depends = quotas.depends_on_card(resource, asked.claims)
        together = other_members.number + 1 if other_members and resource in other_members.depends else 0
        depends |= together > 0
        may_be_given = of_compute and not counts and not depends and not asked.world.unread.isdisjoint(POLICY_KINDS)
        depends |= (given and not counts) or (in_pieces and not of_compute)
        yield ResourceStatus(report, counts, others, depends, may_be_given=may_be_given, together=together)


def limiting(
    world: World, claims: PodClaims, reports: Iterable[QuotaReport], with_it: Mapping[str, int] = _NOTHING
) -> tuple[QuotaReport, ...]:
    """Return the quotas of the vendors whose cards are claimed, and those of what other pods of a group ask for."""
    concerns = world.engine.quota_limits.concerns
    return tuple(each for each in reports if with_it.get(each.resource) or concerns(each.resource, claims))


def is_compute(asked: PodRequest, resource: str) -> bool:
    """Tell whether a quota's resource is the compute of cards."""
    named = [(each.inventory, each.allocation.quota_resources.get(resource)) for each in asked.owners]
    return any(of is not None and of.dimension == inventory.cores for inventory, of in named)
