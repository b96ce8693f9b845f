"""Proposals for pods that are refused on all nodes because their requests cannot be understood."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from vgpu_scheduler.engine import ExceededLimit
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import MIB, Outcome
from vgpu_scheduler.whatif.advice.asking_less import ask_less
from vgpu_scheduler.whatif.advice.corrections import refusal_of
from vgpu_scheduler.whatif.advice.leaving_out import leave_out_in_one_container
from vgpu_scheduler.whatif.advice.remedy import Advice, HypotheticalPod
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.objects.card_names import asks_for_cards, card_names
from vgpu_scheduler.whatif.world.world import World

_MOST: Final = 4
_SOMEWHERE: Final = "a node"


class _Refused(HypotheticalPod):
    """A pod that counts as placeable if it asks for cards and is not refused, since no nodes are known."""

    def amounts(self, written: Object | None = None) -> Iterator[Amount]:
        """Yield its amounts except unspecified memory, whose size is unknown without cards."""
        for amount in super().amounts(written):
            if not (amount.unsaid and amount.steps == MIB):
                yield amount

    def _decided(self, ours: Pod) -> str:
        claims = self.algorithm.classes.claims(ours)
        keeps_cards = any(each.claims for each in claims)
        return _SOMEWHERE if keeps_cards and self.algorithm.decide(ours).outcome is not Outcome.REFUSED else ""


def corrected_requests(world: World, pod: Pod, written: Object, message: str) -> Iterator[Advice]:
    """Yield changes of a pod's card requests with which they are understood, if its condition says that they are not.

    Parameters
    ----------
    world
        A world with the scheduler's settings and policies; nodes are not needed.
    pod
        A pod that the world has read.
    written
        The pod as written, or a version of it.
    """
    refusal = refusal_of(world, written)
    refused = _Refused(world, pod).rewritten(written)
    says_so = bool(refusal) and refusal in message and not ExceededLimit.found_in(message)  # limits are handled apart
    if says_so and asks_for_cards(card_names(world.engine.dialects), pod) and not refused.node():
        found = list(ask_less(refused)) or list(leave_out_in_one_container(refused))
        yield from (remedy.actions for remedy in islice(found, _MOST))
