"""Cambricon MLUs under HAMi: counted by the node's capacity, shared by memory and compute (sMLU)."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, RuleKeys, Vendor, VendorPlacement
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, CardsByCapacity
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.dialects.node_side import NodeLock
from vgpu_scheduler.model import WHOLE

UNIT = 256
"""MiB of a unit of the memory resource."""
_ASSIGNED, _PROFILE = "CAMBRICON_DSMLU_ASSIGNED", "CAMBRICON_DSMLU_PROFILE"

NAMES = ShareRequests(
    "cambricon.com/vmlu",
    "cambricon.com/mlu.smlu.vmemory",
    cores="cambricon.com/mlu.smlu.vcore",
    memory_factor=UNIT,
    default_cores=WHOLE,
    advertised=True,
)


def _kind(cores: int, memory: int) -> CardKind:
    if memory <= 0:
        raise CodecError("there is no memory beside it")
    return CardKind(-(-cores // WHOLE), WHOLE, memory * UNIT * WHOLE // cores, WHOLE)


def _extras(placement: VendorPlacement) -> Mapping[str, str]:
    """Return the annotations for the plugin, which supports one card of one container per pod."""
    card = placement.first[0]
    _, memory, cores, *_ = card.amounts
    return {
        _ASSIGNED: "false",
        _PROFILE: f"{card.tag}_{cores}_{memory // UNIT}",
    }


def cambricon(section: VendorSection) -> tuple[Vendor, ...]:
    """Return Cambricon's cards, as section ``cambricon`` of HAMi's configuration names their resources."""
    names = NAMES.configured(section)
    return (
        Vendor(
            key="MLU",
            title="Cambricon MLU",
            cards=CardsByCapacity((names.cores, names.memory), _kind, "cambricon-mlu"),
            claims=names,
            rules=RuleKeys(uuids=(("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),)),
            record=AllocationAnnotations(
                "hami.io/cambricon-mlu-devices-allocated",
                "hami.io/cambricon-mlu-devices-to-allocate",
                extras=_extras,
                keys=(_ASSIGNED, _PROFILE),
            ),
            lock=NodeLock("cambricon.com/dsmlu.lock", names_owner=False, expiry=120.0),
            found="It looks for a pod of its node that is not `CAMBRICON_DSMLU_ASSIGNED` yet. Its lock names no pod",
            notes="The plugin knows one card of one container of a pod.",
        ),
    )
