"""Choice of consecutive AWS Neuron devices, which are linked in a row, or in fours, eights and sixteens."""

from __future__ import annotations

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.arrays import copy, count_of
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch
from vgpu_scheduler.kernels.sentinels import NO_CARD

_LINKED = (4, 8, 16)


@kernel
def choose_run(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int) -> int:
    """Take the first candidates with consecutive indexes on the node; see :mod:`kernels.choose`.

    Cards with a group form one row, in which a run may begin anywhere. Other cards are linked in aligned blocks of 4, 8
    or 16, and a run is one of these blocks.
    """
    wanted, number_at = request.claims.wanted[here.claim], scratch.spare
    anywhere = found > 0 and columns.group[scratch.candidates.device[0]] >= 0
    if found >= wanted and (anywhere or wanted in _LINKED):
        number_at[:] = NO_CARD
        for number in range(found):
            ordinal = columns.ordinal[scratch.candidates.device[number]]
            if 0 <= ordinal < number_at.shape[0]:
                number_at[ordinal] = number
        for start in range(0, number_at.shape[0] - wanted + 1, 1 if anywhere else wanted):
            if count_of(number_at[start : start + wanted], NO_CARD) == 0:
                copy(number_at[start : start + wanted], scratch.chosen)
                return wanted  # type: ignore[no-any-return]
    here.counts[:] = 0
    here.counts[reasons.OTHER_NUMA] = 1
    return 0
