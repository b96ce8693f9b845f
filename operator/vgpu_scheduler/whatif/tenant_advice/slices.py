"""Slices of another size for a pod, where each card is split into slices of one size only."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.whatif.advice.remedy import Advice, ask_for, do
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest, claims_of
from vgpu_scheduler.whatif.tenant_advice.nodes import is_of
from vgpu_scheduler.whatif.tenant_advice.others import WAIT
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotasOfPod


def other_slices(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield proposals to ask for slices of the other sizes, of which cards may have some left, or to wait.

    The pods on a card fix the size of its slices. A whole card is not proposed: where one is free, a slice fits too.
    """
    waits: dict[Advice, None] = {}
    for dialect in asked.owners:
        memory = dialect.inventory.memory
        for amount in asked.amounts:
            sizes = {each.vendor: each for each in claims_of(amount.container, asked.claims)}
            for vendor, claim in sizes.items():
                known = dialect.inventory.slice_sizes.get(vendor, ())
                if not known or not is_of(asked, amount, dialect, memory):
                    continue
                which = f"{', '.join(map(str, known[:-1]))} or {known[-1]} MiB"
                split = f"all slices of a card have one size, which the pods on it fix: {which}"
                for size in known[:-1]:
                    written = amount.applied(asked.written, size)
                    got = {each.amounts[memory] for each in claims_of(amount.container, asked.claims_if(written))}
                    if size != claim.amounts[memory] and got == {size}:
                        yield from quotas.if_written(written).raised_beside([(ask_for(amount, size, (), split),)])
                waits[do(f"{WAIT}: a free card takes slices of any size, and {split}")] = None
    yield from quotas.beside(waits)
