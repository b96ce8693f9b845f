"""Choose the first candidates, in the order in which they were tried."""

from __future__ import annotations

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch


@kernel
def choose_first(_columns: DeviceColumns, _request: Request, scratch: Scratch, _here: CardClaim, found: int) -> int:
    """Keep the order of the candidates; see :mod:`kernels.choose`."""
    for number in range(found):
        scratch.chosen[number] = number
    return found
