"""Rules for cards whose occupants have application classes and qualities of service: MetaX's shares (sGPU).

Online occupants are latency-sensitive, offline ones work in the background, and both may share a card. Occupants
without a class share cards only with each other. Some dimensions of a card count its occupants of each class, and
those that ask for each quality. Only other pods in the ledger count, because all claims of a pod have the same class.
"""

from __future__ import annotations

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import SLOTS, DeviceColumns, DimensionRole
from vgpu_scheduler.kernels.request import MODEL_IN_OTHER_MODE, WHOLE, Request, claimed_cores
from vgpu_scheduler.kernels.rules import Check
from vgpu_scheduler.kernels.sentinels import NO_REASON

_CHECK_QUALITY = int(Check.QUALITY)
_WITHOUT_CLASS, _ONLINE, _OFFLINE = (
    int(DimensionRole.WITHOUT_CLASS),
    int(DimensionRole.ONLINE),
    int(DimensionRole.OFFLINE),
)
_FIRST_QUALITY, _END_QUALITY = int(DimensionRole.FIRST_QUALITY), int(DimensionRole.END_QUALITY)
_PER_ONLINE, _PER_OFFLINE, _PER_OTHER = 20, 2, 100
"""How much contention each occupant of a card causes for an online pod, on HAMi's scale."""


@kernel
def refuses_occupant(columns: DeviceColumns, request: Request, claim: int, device: int) -> int:
    """Return why a claim cannot share a card with its occupants, ``NO_REASON`` if it can."""
    used, role = columns.used[device], columns.roles[columns.schema[device]]
    if role[_WITHOUT_CLASS] < 0:
        return NO_REASON
    without = request.claims.amounts[claim, role[_WITHOUT_CLASS]] > 0
    if (used[role[_ONLINE]] + used[role[_OFFLINE]] if without else used[role[_WITHOUT_CLASS]]) > 0:
        return reasons.OTHER_CLASS
    if (
        request.rules.checks[claim] & _CHECK_QUALITY
        and used[SLOTS] > 0
        and claimed_cores(request, claim, columns.total, device) != WHOLE
        and _is_of_another_quality(columns, request, claim, device)
    ):
        return reasons.OTHER_QUALITY
    return NO_REASON


@kernel
def _is_of_another_quality(columns: DeviceColumns, request: Request, claim: int, device: int) -> bool:
    """Tell whether a card in use has another quality of service than the claim asks for.

    Its quality is what occupants that are not running yet ask for; without such occupants it is what the device plugin
    reports, which only knows running ones.
    """
    role = columns.roles[columns.schema[device]]
    asked, another = 0, 0
    for quality in range(role[_FIRST_QUALITY], role[_END_QUALITY]):
        asked += columns.used[device, quality]
        another += columns.used[device, quality] if request.claims.amounts[claim, quality] == 0 else 0
    if asked > 0:
        return another > 0
    return request.cards.models[columns.model[device]] == MODEL_IN_OTHER_MODE  # type: ignore[no-any-return]


@kernel
def contention(columns: DeviceColumns, device: int) -> int:
    """Return how much contention the occupants of a card cause for an online pod."""
    used, role = columns.used[device], columns.roles[columns.schema[device]]
    if role[_WITHOUT_CLASS] < 0:
        return 0
    return (  # type: ignore[no-any-return]
        _PER_ONLINE * used[role[_ONLINE]]
        + _PER_OFFLINE * used[role[_OFFLINE]]
        + _PER_OTHER * used[role[_WITHOUT_CLASS]]
    )
