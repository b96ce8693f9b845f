"""HAMi's ecosystem: what its device plugins write on nodes and read on pods."""

from vgpu_scheduler.dialects.allocation import realign
from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.codec import (
    AssignedDevice,
    RegisteredDevice,
    decode_assignments,
    decode_register,
    encode_assignments,
    encode_register_json,
    format_lock,
    format_time,
    parse_lock,
)
from vgpu_scheduler.dialects.hami.dialect import hami_dialect
from vgpu_scheduler.dialects.hami.metrics import HAMI_ZONE, hami_metrics
from vgpu_scheduler.dialects.hami.vendors import ConfigError, Vendor, VendorSection, configured, vendors
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import NvidiaRequests

__all__ = [
    "HAMI_ZONE",
    "AssignedDevice",
    "CodecError",
    "ConfigError",
    "NvidiaRequests",
    "RegisteredDevice",
    "Vendor",
    "VendorSection",
    "configured",
    "decode_assignments",
    "decode_register",
    "encode_assignments",
    "encode_register_json",
    "format_lock",
    "format_time",
    "hami_dialect",
    "hami_metrics",
    "parse_lock",
    "realign",
    "vendors",
]
