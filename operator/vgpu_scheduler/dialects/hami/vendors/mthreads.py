"""Moore Threads GPUs under HAMi: counted by the node's capacity, shared by memory and compute (sGPU)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_scheduler.allocators import PLAIN_CHECKS, Check, FitRules, WholeCardRule
from vgpu_scheduler.dialects.errors import AdmissionDenied
from vgpu_scheduler.dialects.fixes import RequestWarning
from vgpu_scheduler.dialects.hami.vendors.base import (
    AllocationAnnotations,
    RuleKeys,
    SuspiciousAmounts,
    Vendor,
    VendorPlacement,
)
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, CardsByCapacity
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft, exact
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.kube import to_int
from vgpu_scheduler.model import Compute

UNIT = 512
"""MiB of a unit of the memory resource."""
CORES, MEMORY = 16, 96
"""The capacity of a card, in units of the resources."""
SIZES = (2, 4, 8, 16, 32, 64, MEMORY)
"""The possible sizes of a part of a card, in units of memory."""
COUNT_ANNOTATION = "mthreads.com/request-gpu-num"
_SHARES = 100
_INDEX, _NODE, _TIME = "mthreads.com/gpu-index", "mthreads.com/predicate-node", "mthreads.com/predicate-time"

NAMES = ShareRequests(
    "mthreads.com/vgpu",
    "mthreads.com/sgpu-memory",
    cores="mthreads.com/sgpu-core",
    memory_factor=UNIT,
    divided=True,
    units=CORES,
    advertised=True,
)


def _kind(cores: int, memory: int) -> CardKind:
    return CardKind(-(-cores // CORES), _SHARES, memory * UNIT * CORES // cores, CORES)


def _index(placement: VendorPlacement) -> Mapping[str, str]:
    """Return the annotations for the plugin, which reads one list of cards per pod."""
    return {
        _INDEX: ",".join(card.tag for card in placement.last),
        _NODE: placement.node,
        _TIME: placement.nanoseconds,
    }


def _suspicious(names: ShareRequests) -> SuspiciousAmounts:
    """Return a function that warns about invalid sizes, and amounts that cannot be divided evenly over the cards."""

    def suspicious(amounts: Mapping[str, int], mode: str) -> Iterator[RequestWarning]:
        del mode
        count, memory = amounts[names.count], amounts.get(names.memory)
        if count == 1 and memory is not None and memory not in SIZES:
            sizes = ", ".join(map(str, SIZES))
            yield RequestWarning(f"{names.memory}: {memory} is not a size in which cards are split: {sizes}")
        for name in (names.memory, names.cores):
            if amounts.get(name, 0) % count:
                what, each = f"{name}: {amounts[name]} for {count} cards together", amounts[name] // count
                yield RequestWarning(f"{what} is cut to {each} of each", f"{what}: write a multiple of {count}")

    return suspicious


def mthreads(section: VendorSection) -> tuple[Vendor, ...]:
    """Return Moore Threads' cards, as section ``mthreads`` of HAMi's configuration names their resources."""
    names = NAMES.configured(section)
    return (
        Vendor(
            key="Mthreads",
            in_percent=False,
            title="Moore Threads GPU",
            cards=CardsByCapacity((names.cores, names.memory), _kind, "mthreads", compute=Compute.UNITS),
            claims=names,
            rules=RuleKeys(uuids=(("mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),)),
            fit=FitRules(PLAIN_CHECKS | Check.SAME_CARDS, whole=WholeCardRule.ALWAYS),
            record=AllocationAnnotations(
                "hami.io/mthreads-vgpu-devices-allocated", extras=_index, keys=(_INDEX, _NODE, _TIME)
            ),
            lock=None,
            suspicious=_suspicious(names),
            admit=mthreads_rule(names.count, names.memory, names.cores),
            found="It takes the pod of its node that was decided first (`mthreads.com/predicate-time`)",
        ),
    )


def mthreads_rule(count: str, memory: str, cores: str) -> Admit:
    """Return the admission rules for these resource names."""

    def admit(draft: ContainerDraft) -> bool:
        asked = draft.either(count)
        if asked is None:
            return False
        number = to_int(asked)
        if number <= 0:
            raise AdmissionDenied(f"{count} must be greater than 0")
        if not draft.sound(count):
            return True
        if number > 1:
            draft.set_limit(cores, CORES * number)
            draft.set_limit(memory, MEMORY * number)
            draft.annotate(COUNT_ANNOTATION, str(number))
            return True
        part = draft.either(memory)
        if part is None:
            if draft.unclaimed:
                draft.set_limit(cores, CORES)
                draft.set_limit(memory, MEMORY)
        elif exact(part) not in SIZES:
            raise AdmissionDenied(f"sGPU memory request value is invalid, valid values are {list(SIZES)}")
        return True

    return admit
