"""What pods ask of Koordinator's devices that is followed otherwise than whoever wrote it may think."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.dialects.koordinator.names import GPU_MEMORY, TYPE_OF
from vgpu_scheduler.dialects.values import number_of
from vgpu_scheduler.kube import Container

_MIB = 2**20


def odd_amounts(container: Container) -> Iterator[str]:
    """Yield what is odd about the amounts that a container asks: zeros beside other amounts, and memory in MiB."""
    asked = {**container.requests, **container.limits}
    amounts = {name: number_of(asked[name]) for name in TYPE_OF if name in asked}
    kinds = {TYPE_OF[name] for name, amount in amounts.items() if amount}
    for name, amount in amounts.items():
        if amount == 0 and TYPE_OF[name] in kinds:
            yield f"{name}: {asked[name]} counts as if it were not there"
    memory = amounts.get(GPU_MEMORY)
    if memory and memory < _MIB:
        yield f"{GPU_MEMORY}: {asked[GPU_MEMORY]} is in bytes, and hardly any memory: for MiB write {memory}Mi"
