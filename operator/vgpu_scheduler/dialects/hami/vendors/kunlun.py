"""Kunlunxin XPUs under HAMi: whole cards, counted by the node's capacity, and slices of registered cards (vXPU).

A server has two halves of four cards, and cards with the same place in both are linked. Both kinds are chosen by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpu_scheduler.allocators import Check, FitRules, Selection, WholeCardRule
from vgpu_scheduler.dialects.fixes import AmountFix, RequestWarning
from vgpu_scheduler.dialects.hami.vendors.base import (
    AllocationAnnotations,
    RuleKeys,
    SuspiciousAmounts,
    Vendor,
    VendorPlacement,
)
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, CardsByCapacity
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.hami.vendors.registered import Registered
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.dialects.values import whole_amount
from vgpu_scheduler.kube import Container, to_int
from vgpu_scheduler.model import NO_DEFAULTS, WHOLE, Claim, ClaimDefaults

SIZES = (24576, 49152, 98304)
"""The possible sizes of a slice in MiB; the last one is a whole card."""
MEMORY = SIZES[-1]
"""MiB of a card; all slices of a card have the same size."""
_INDEX = "BAIDU_COM_DEVICE_IDX"
_SHARES = 100
_PER_FRAGMENT = 1000.0
"""Weight of each fragment of free cards in the node's score."""
_RULES = RuleKeys(
    uuids=(
        ("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid"),
        ("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"),
    )
)

NAMES = ShareRequests("kunlunxin.com/xpu", default_cores=WHOLE)


class SliceRequests(ShareRequests):
    """Requests for slices: memory determines the size and the compute."""

    __slots__ = ()

    @property
    def of_zero(self) -> str:
        """What a container with 0 memory gets: the smallest slice."""
        return f"a slice of {SIZES[0]} MiB"

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the container's claim, if any; see :class:`ShareRequests`."""
        claim = ShareRequests.read(self, vendor, container, defaults, mode)
        if claim is None:
            return None
        given = whole_amount(container, self.memory)  # 0 stands for the smallest slice
        whole = defaults.exclusive or (given is None and defaults.memory is None)
        asked = MEMORY if whole else claim.amounts[1]
        size = next((size for size in SIZES if size >= asked), MEMORY)
        return Claim(vendor, claim.count, (1, size, size * WHOLE // MEMORY), (0, 0, 0))


SLICE_NAMES = SliceRequests("kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory")


def _kind(cards: int) -> CardKind:
    return CardKind(cards, _SHARES, MEMORY, WHOLE)


def _half(number: int, cards: int) -> int:
    """Return the NUMA node of a card: each NUMA node has one half of the cards."""
    return int(number >= cards // 2)


def _index(placement: VendorPlacement) -> Mapping[str, str]:
    """Return the annotation for the plugin, which reads one list of cards per pod."""
    return {_INDEX: ",".join(card.tag for card in placement.last)}


def xpu(section: VendorSection) -> tuple[Vendor, ...]:
    """Return whole cards, as section ``kunlun`` of HAMi's configuration names their resource."""
    names = NAMES.configured(section)
    return (
        Vendor(
            key="kunlun",
            title="Kunlunxin XPU",
            cards=CardsByCapacity((names.count,), _kind, "kunlun", _half),
            claims=names,
            rules=_RULES,
            fit=FitRules(
                Check.SLOTS | Check.IDLE,
                whole=WholeCardRule.ALWAYS,
                selection=Selection.HALVES,
                choice_weight=_PER_FRAGMENT,
            ),
            record=AllocationAnnotations("hami.io/kunlun-allocated", extras=_index, keys=(_INDEX,)),
            lock=None,
        ),
    )


def vxpu(section: VendorSection) -> tuple[Vendor, ...]:
    """Return slices of cards, as section ``kunlun`` of HAMi's configuration names their resources."""
    names = replace(
        SLICE_NAMES,
        count=section.text("resourceVCountName", SLICE_NAMES.count),
        memory=section.text("resourceVMemoryName", SLICE_NAMES.memory),
    )
    return (
        Vendor(
            key="XPU",
            title="Kunlunxin XPU slice (vXPU)",
            cards=Registered("hami.io/node-register-xpu"),
            claims=names,
            rules=_RULES,
            fit=FitRules(
                Check.SLOTS | Check.MEMORY | Check.EQUAL_SHARES, whole=WholeCardRule.ALWAYS, selection=Selection.HALVES
            ),
            record=AllocationAnnotations("hami.io/xpu-devices-allocated", "hami.io/xpu-devices-to-allocate"),
            admit=vxpu_rule(names.count, names.memory),
            suspicious=_suspicious(names.memory),
            slice_sizes=SIZES,
        ),
    )


def _suspicious(memory: str) -> SuspiciousAmounts:
    """Return a function that warns about more memory than a card has: it counts as a whole card."""

    def suspicious(amounts: Mapping[str, int], mode: str) -> Iterator[RequestWarning]:
        del mode
        asked = amounts.get(memory, 0)
        if asked > MEMORY:
            what = f"{memory}: {asked} is more than a whole card"
            fix = AmountFix("", memory, str(asked), MEMORY)
            yield RequestWarning(f"{what}, and counts as {MEMORY}", f"{what}: write {MEMORY}", fix)

    return suspicious


def vxpu_rule(count: str, memory: str) -> Admit:
    """Return the admission rules for these resource names."""

    def admit(draft: ContainerDraft) -> bool:
        if draft.limit(count) is None:
            return False
        asked = draft.limit(memory)
        if asked is not None and draft.sound(memory):
            draft.set_both(memory, next((size for size in SIZES if to_int(asked) <= size), SIZES[-1]))
        return True

    return admit
