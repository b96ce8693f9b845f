"""The makers whose cards HAMi's device plugins hand out, a file of facts each."""

from vgpu_scheduler.dialects.hami.vendors.amd import amd
from vgpu_scheduler.dialects.hami.vendors.ascend import CHIPS as ASCEND_CHIPS
from vgpu_scheduler.dialects.hami.vendors.ascend import ascend
from vgpu_scheduler.dialects.hami.vendors.base import Cards, Claims, Handed, Record, RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.biren import biren
from vgpu_scheduler.dialects.hami.vendors.cambricon import cambricon
from vgpu_scheduler.dialects.hami.vendors.enflame import gcu
from vgpu_scheduler.dialects.hami.vendors.hygon import hygon
from vgpu_scheduler.dialects.hami.vendors.iluvatar import CHIPS as ILUVATAR_CHIPS
from vgpu_scheduler.dialects.hami.vendors.iluvatar import iluvatar
from vgpu_scheduler.dialects.hami.vendors.metax import metax_gpu
from vgpu_scheduler.dialects.hami.vendors.mthreads import mthreads
from vgpu_scheduler.dialects.hami.vendors.nvidia import nvidia
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import NvidiaNames
from vgpu_scheduler.dialects.hami.vendors.vastai import vastai

__all__ = ["Cards", "Claims", "Handed", "Record", "RuleKeys", "Vendor", "vendors"]


def vendors(nvidia_names: NvidiaNames | None = None) -> tuple[Vendor, ...]:
    """Return every maker's cards, under the names that HAMi's chart configures where none are given."""
    return (
        nvidia(nvidia_names),
        *(ascend(chip) for chip in ASCEND_CHIPS),
        hygon(),
        cambricon(),
        *(iluvatar(chip) for chip in ILUVATAR_CHIPS),
        mthreads(),
        metax_gpu(),
        gcu(),
        amd(),
        vastai(),
        biren(),
    )
