"""Ways of choosing devices that are shared by amounts: by scope, by partition, with virtual functions, jointly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.cache import inlined_kernel, kernel
from vgpu_scheduler.kernels.choose.joint import are_same_switches, switches, take_turns
from vgpu_scheduler.kernels.choose.partitions import MOST_MEMBERS, PartitionTerms, best_partition
from vgpu_scheduler.kernels.choose.scopes import ScopeTerms, has_tree, is_shared, keep_scope
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import BARRED_BY_SELECTOR
from vgpu_scheduler.kernels.sentinels import NO_CARD, NO_PARTITION, NO_REASON, NO_VENDOR
from vgpu_scheduler.kernels.share_request import ChoiceTerms, ShareClaim, ShareRequest, why_not


@kernel
def selected(columns: DeviceColumns, request: ShareRequest, claim: int, base: int, devices: int) -> int:
    """Count the devices of a claim's vendor that the pod selects, including those barred for other reasons."""
    barred = request.device_barred
    selected = 0
    for device in range(base, base + devices):
        if columns.vendor[device] == request.claims.vendor[claim]:
            selected += int(barred.shape[0] == 0 or barred[device] != BARRED_BY_SELECTOR)
    return selected


@inlined_kernel
def keep_claim_scope(columns: DeviceColumns, request: ShareRequest, scopes: ScopeTerms, here: ShareClaim) -> bool:
    """Mark all devices outside the best scope for a claim as tried; return False if no scope fits."""
    claim, base, wanted, used, scratch, counts = here
    tried = scratch.tried[: used.shape[0]]
    vendor = request.claims.vendor[claim]
    known = has_tree(columns, vendor, base, used.shape[0])
    if not known and not scopes.required:
        return True
    found = 0
    for position in range(used.shape[0]):
        tried[position] = columns.vendor[base + position] != vendor
        if not tried[position]:
            reason = why_not(columns, request, claim, base + position, used[position])
            if reason == NO_REASON:
                found += 1
            else:
                counts[reason] += 1
                tried[position] = True
    if found < wanted:
        if found > 0:
            counts[reasons.TOO_FEW] = found
        return False
    if scopes.whole[claim]:
        scratch.score[: used.shape[0]] = 0
    if known and keep_scope(columns, scopes.level[claim], wanted, base, used, scratch.score, tried):
        return True
    counts[reasons.OTHER_NUMA] = found
    return False


@kernel
def take_partition(columns: DeviceColumns, request: ShareRequest, terms: PartitionTerms, here: ShareClaim) -> bool:
    """Pick the devices of the best unused partition; return False if there is none."""
    claim, base, wanted, used, scratch, counts = here
    free, taken, found = 0, 0, 0
    for position in range(used.shape[0]):
        device = base + position
        if columns.vendor[device] != request.claims.vendor[claim]:
            continue
        reason = why_not(columns, request, claim, device, used[position])
        shared = columns.healthy[device] and is_shared(columns, base, position, used)
        bit = 1 << columns.ordinal[device] if columns.ordinal[device] < MOST_MEMBERS else 0
        if shared:
            taken |= bit
        if reason != NO_REASON:
            counts[reason] += 1
            continue
        found += 1
        if not shared:
            free |= bit
    number = best_partition(terms, base, wanted, free, taken)
    if number == NO_PARTITION:
        if found > 0:
            counts[reasons.OTHER_PARTITION] = found
        return False
    picked = 0
    for position in range(used.shape[0]):
        device = base + position
        own = columns.vendor[device] == request.claims.vendor[claim] and columns.ordinal[device] < MOST_MEMBERS
        if own and terms.tables.mask[number] >> columns.ordinal[device] & 1 == 1 and picked < wanted:
            scratch.picks[claim, picked] = device
            picked += 1
    return True


@kernel
def _is_used(used: NDArray[np.int64]) -> bool:
    """Tell whether a device is in use; ``used`` is its usage, shape (K,)."""
    in_use = False
    for dimension in range(used.shape[0]):
        in_use = in_use or used[dimension] > 0
    return in_use


@kernel
def _function_of(columns: DeviceColumns, request: ShareRequest, here: ShareClaim, vendor: int, position: int) -> int:
    """Return the first unused virtual function of the device at a position, or ``NO_CARD``.

    The group of a virtual function is the ordinal of its device.
    """
    base, used, best = here.base, here.used, NO_CARD
    for other in range(used.shape[0]):
        device = base + other
        if columns.vendor[device] != vendor or columns.group[device] != columns.ordinal[base + position]:
            continue
        if not columns.healthy[device] or columns.cordoned[device] or _is_used(used[other]):
            continue
        if request.device_barred.shape[0] > 0 and request.device_barred[device] != 0:
            continue
        if best == NO_CARD or columns.ordinal[device] < columns.ordinal[best]:
            best = device
    return best


@kernel
def take_function(
    columns: DeviceColumns, request: ShareRequest, terms: ChoiceTerms, here: ShareClaim, number: int, position: int
) -> int:
    """Take a virtual function for the pick at ``number`` and ``position``; return the reason if there is none."""
    vendor = terms.functions[here.claim]
    if vendor == NO_VENDOR:
        return NO_REASON
    function = _function_of(columns, request, here, vendor, position)
    terms.scratch.functions[here.claim, number] = function
    return NO_REASON if function != NO_CARD else reasons.NO_FUNCTION


@kernel
def follow(columns: DeviceColumns, request: ShareRequest, terms: ChoiceTerms, here: ShareClaim) -> tuple[int, int]:
    """Order devices by nearness to the first claim's picks; return the minimum and maximum number to pick."""
    claim, base, wanted, used, scratch, _ = here
    if not terms.joint.one_each[claim]:
        return wanted, wanted
    first = scratch.picks[terms.joint.first, : terms.scratch.picked[terms.joint.first]]
    fitting = scratch.tried[: used.shape[0]]
    for position in range(used.shape[0]):
        own = columns.vendor[base + position] == request.claims.vendor[claim]
        fitting[position] = own and why_not(columns, request, claim, base + position, used[position]) == NO_REASON
    take_turns(columns, base, first, fitting, terms.scratch.turn, scratch.score)
    fitting[:] = False  # reused as ``tried``
    most = max(wanted, switches(columns, first))
    return most if terms.joint.same else wanted, most


@kernel
def is_near_enough(columns: DeviceColumns, terms: ChoiceTerms, here: ShareClaim) -> bool:
    """Tell whether the picks of a claim are below the same switches as those of the first claim, if required."""
    joint = terms.joint
    if not joint.follows[here.claim] or not joint.same:
        return True
    first, picks = here.scratch.picks[joint.first], here.scratch.picks[here.claim]
    number, picked = terms.scratch.picked[joint.first], terms.scratch.picked[here.claim]
    if are_same_switches(columns, first[:number], picks[:picked]):
        return True
    here.counts[reasons.OTHER_NUMA] = picked
    return False
