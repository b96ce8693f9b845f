"""MetaX GPUs under HAMi: counted by the node's capacity and given out whole."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from vgpu_scheduler.allocators import PLAIN_CHECKS, Check, FitRules, WholeCardRule
from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.fields import decode_integers
from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, Vendor
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, CardsByCapacity, CountedCards
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import WHOLE, Device

_MEMORY = 65536
NAMES = ShareRequests("metax-tech.com/gpu", default_cores=WHOLE)

LOSSES = "metax-tech.com/gpu.topology.losses"
SCORES = "metax-tech.com/gpu.topology.scores"
_BEST = 2000
"""The score of a number of cards without a loss."""


def _kind(cards: int) -> CardKind:
    return CardKind(cards, 1, _MEMORY, WHOLE)


@dataclass(frozen=True, slots=True)
class MetaxCards(CountedCards):
    """Counted cards; node annotations give the loss or score of taking a number of them."""

    def facts(self, node: Node) -> Hashable | None:
        """Return the count and both annotations."""
        counted = self.counted.facts(node)
        return None if counted is None else (counted, node.annotations.get(LOSSES), node.annotations.get(SCORES))

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards in the order of their numbers; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, tuple)
        counted, losses, scores = facts
        lost, won = _table(losses), _table(scores)
        beyond = _link_score(None if lost is None else {}, None if won is None else {}, 0)
        return tuple(
            replace(device, link_score=_link_score(lost, won, device.index + 1), link_score_beyond=beyond)
            for device in self.counted.decode(vendor, counted)
        )


def _link_score(lost: Mapping[str, int] | None, won: Mapping[str, int] | None, cards: int) -> tuple[float, float]:
    """Return the link score of taking a number of cards; missing numbers count as 0."""
    return (
        0.0 if lost is None else float(_BEST - lost.get(str(cards), 0)),
        0.0 if won is None else float(won.get(str(cards), 0) - _BEST),
    )


def _table(text: str | None) -> Mapping[str, int] | None:
    """Return the value by number of cards; None without the annotation, empty if it is malformed."""
    if text is None:
        return None
    try:
        return decode_integers(text, "topology")
    except CodecError:
        return {}


def metax_gpu(section: VendorSection) -> tuple[Vendor, ...]:
    """Return whole GPUs, as section ``metax`` of HAMi's configuration names their resource."""
    names = NAMES.configured(section)
    return (
        Vendor(
            key="Metax-GPU",
            title="MetaX GPU",
            cards=MetaxCards(CardsByCapacity((names.count,), _kind, "metax")),
            claims=names,
            fit=FitRules(PLAIN_CHECKS | Check.SAME_CARDS, link_score=True, whole=WholeCardRule.ALWAYS),
            record=AllocationAnnotations(
                "hami.io/metax-gpu-devices-allocated", "hami.io/metax-gpu-devices-to-allocate"
            ),
            lock=None,
        ),
    )
