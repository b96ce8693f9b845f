"""Cards whose tenants have application classes and a quality of service, and zones of linked cards: MetaX's shares.

Online tenants answer at once, offline ones work in the background, and both may share a card; tenants without a class
keep to themselves. What is used of some dimensions of a card tells how many tenants of each class it has, and how many
ask for each quality. Only other pods count, as the ledger has them: a pod is of one class, and agrees with itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.tables import (
    CHECK_QUALITY,
    FIRST_QUALITY,
    OFFLINE,
    ONLINE,
    OTHER_MODE,
    QUALITIES,
    SLOTS,
    WITHOUT_CLASS,
    DeviceColumns,
    Request,
    Scratch,
    claimed_cores,
)
from vgpu_scheduler.model import CardReason

NO_REASON = -1
_APP_CLASS = int(CardReason.CardAppClassMismatch)
_QUALITY = int(CardReason.CardQosPolicyMismatch)
_WHOLE = 100
_ONLINE_TENANT, _OFFLINE_TENANT, _OTHER_TENANT = 20, 2, 100
"""How unwelcome each tenant of a card makes an online pod, on HAMi's scale."""
_LINK, _TORN = 100, 10
"""What a link between cards of a zone is worth that are taken together, and costs where one of them is left."""


@kernel
def refuses_tenant(columns: DeviceColumns, request: Request, claim: int, device: int) -> int:
    """Return why the other tenants of a card do not go together with a claim, ``NO_REASON`` if they do."""
    used = columns.used[device]
    without = request.amounts[claim, WITHOUT_CLASS] > 0
    if (used[ONLINE] + used[OFFLINE] if without else used[WITHOUT_CLASS]) > 0:
        return _APP_CLASS
    if (
        request.checks[claim] & CHECK_QUALITY
        and used[SLOTS] > 0
        and claimed_cores(request, claim, columns.total, device) != _WHOLE
        and _is_of_another_quality(columns, request, claim, device)
    ):
        return _QUALITY
    return NO_REASON


@kernel
def _is_of_another_quality(columns: DeviceColumns, request: Request, claim: int, device: int) -> bool:
    """Tell whether a card in use gives another quality of service than the claim asks for.

    It gives what those tenants ask for that do not run yet; else what the plugin says, which learns of them as they do.
    """
    asked, another = 0, 0
    for quality in range(FIRST_QUALITY, FIRST_QUALITY + QUALITIES):
        asked += columns.used[device, quality]
        another += columns.used[device, quality] if request.amounts[claim, quality] == 0 else 0
    if asked > 0:
        return another > 0
    return request.model_allowed[columns.model[device]] == OTHER_MODE  # type: ignore[no-any-return]


@kernel
def _burden(columns: DeviceColumns, device: int) -> int:
    """Return how unwelcome an online pod is on a card."""
    used = columns.used[device]
    return (  # type: ignore[no-any-return]
        _ONLINE_TENANT * used[ONLINE] + _OFFLINE_TENANT * used[OFFLINE] + _OTHER_TENANT * used[WITHOUT_CLASS]
    )


@kernel
def welcome_first(columns: DeviceColumns, picks: NDArray[np.int64], picked: int) -> None:
    """Sort candidates, stably, by how welcome an online pod is on them."""
    for i in range(1, picked):
        moving = picks[i]
        j = i - 1
        while j >= 0 and _burden(columns, picks[j]) > _burden(columns, moving):
            picks[j + 1] = picks[j]
            j -= 1
        picks[j + 1] = moving


@kernel
def zone_first(
    columns: DeviceColumns, picks: NDArray[np.int64], picked: int, wanted: int, spare: NDArray[np.int64]
) -> None:
    """Put the candidates of the smallest zone first that has enough of them; of equals the one that is tried first.

    Where none has enough they stay as they are.
    """
    zone, smallest = np.int64(-1), picked + 1
    for i in range(picked):
        members = 0
        for j in range(picked):
            members += int(columns.group[picks[j]] == columns.group[picks[i]])
        if wanted <= members < smallest:
            zone, smallest = columns.group[picks[i]], members
    if smallest > picked:
        return
    spare[:picked] = picks[:picked]
    taken = 0
    for i in range(picked):
        if columns.group[spare[i]] == zone:
            picks[taken] = spare[i]
            taken += 1


@kernel
def welcome_of(columns: DeviceColumns, picks: NDArray[np.int64]) -> np.float32:
    """Return how welcome an online pod is on the cards that it gets; 0 at best."""
    burden = 0
    for device in picks:
        burden += _burden(columns, device)
    return np.float32(-burden)


@kernel
def worth_of_links(
    columns: DeviceColumns, request: Request, scratch: Scratch, claim: int, base: int, cards: int
) -> np.float32:
    """Return what the links among the cards of a claim are worth, less those torn to cards that stay idle.

    Cards of one zone are linked, but for zone 0, which is no zone. Claims of less than whole cards count nothing.
    """
    if claimed_cores(request, claim, columns.total, base) != _WHOLE:
        return np.float32(0.0)
    worth = 0
    for device in range(base, base + cards):
        for other in range(base, device):
            if not _are_linked(columns, request, claim, device, other):
                continue
            taken = int(_is_pick(request, scratch, claim, device)) + int(_is_pick(request, scratch, claim, other))
            if taken == 2:
                worth += _LINK
            elif taken == 1:
                worth -= _TORN
    return np.float32(worth)


@kernel
def _are_linked(columns: DeviceColumns, request: Request, claim: int, device: int, other: int) -> bool:
    """Tell whether two idle cards of the maker are in one zone."""
    vendor = request.vendor[claim]
    return (  # type: ignore[no-any-return]
        columns.group[device] > 0
        and columns.group[device] == columns.group[other]
        and columns.vendor[device] == vendor
        and columns.vendor[other] == vendor
        and columns.used[device, SLOTS] == 0
        and columns.used[other, SLOTS] == 0
    )


@kernel
def _is_pick(request: Request, scratch: Scratch, claim: int, device: int) -> bool:
    found = False
    for i in range(request.wanted[claim]):
        found = found or scratch.picks[claim, i] == device
    return found
