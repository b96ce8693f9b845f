"""What each maker's rules do with a container at admission: tell whether it asks for cards, and complete what it asks.

They are HAMi's webhook, maker by maker, as pure functions over a :class:`Draft`; a maker's file names its own
(``Vendor.admit``). Makers without one only look whether a limit names their count resource.
"""

from vgpu_scheduler.dialects.hami.vendors.admitting.amd import amd_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.ascend import NpuAdmission, npu_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.aws import neuron_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal
from vgpu_scheduler.dialects.hami.vendors.admitting.enflame import slices_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.iluvatar import iluvatar_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.kunlun import vxpu_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.metax import sgpu_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.mthreads import mthreads_rule
from vgpu_scheduler.dialects.hami.vendors.admitting.nvidia import NvidiaAdmission, nvidia_rule

__all__ = [
    "Admit", "Draft", "NpuAdmission", "NvidiaAdmission", "Refusal", "amd_rule", "iluvatar_rule", "mthreads_rule",
    "neuron_rule", "npu_rule", "nvidia_rule", "sgpu_rule", "slices_rule", "vxpu_rule",
]  # fmt: skip
