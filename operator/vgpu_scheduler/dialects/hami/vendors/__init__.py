"""The vendors whose cards HAMi's device plugins hand out, a file of facts each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from vgpu_scheduler.dialects.hami.vendors.amd import amd
from vgpu_scheduler.dialects.hami.vendors.ascend import ascend
from vgpu_scheduler.dialects.hami.vendors.aws_neuron import aws_neuron
from vgpu_scheduler.dialects.hami.vendors.base import Cards, RuleKeys, Vendor, VendorPlacement
from vgpu_scheduler.dialects.hami.vendors.biren import biren
from vgpu_scheduler.dialects.hami.vendors.cambricon import cambricon
from vgpu_scheduler.dialects.hami.vendors.enflame import gcu
from vgpu_scheduler.dialects.hami.vendors.enflame_drs import drs
from vgpu_scheduler.dialects.hami.vendors.hygon import hygon
from vgpu_scheduler.dialects.hami.vendors.iluvatar import iluvatar
from vgpu_scheduler.dialects.hami.vendors.kunlun import vxpu, xpu
from vgpu_scheduler.dialects.hami.vendors.metax import metax_gpu
from vgpu_scheduler.dialects.hami.vendors.metax_shared import metax_shared
from vgpu_scheduler.dialects.hami.vendors.mthreads import mthreads
from vgpu_scheduler.dialects.hami.vendors.nvidia import nvidia, nvidia_cards
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import NvidiaRequests
from vgpu_scheduler.dialects.hami.vendors.section import ConfigError, VendorSection
from vgpu_scheduler.dialects.hami.vendors.vastai import vastai

__all__ = ["Cards", "ConfigError", "RuleKeys", "Vendor", "VendorPlacement", "VendorSection", "configured", "vendors"]

_Factory = Callable[[VendorSection], tuple[Vendor, ...]]

VENDOR_FACTORIES: Mapping[str, tuple[_Factory, ...]] = {
    "nvidia": (nvidia,),
    "vnpus": (ascend,),
    "hygon": (hygon,),
    "cambricon": (cambricon,),
    "iluvatars": (iluvatar,),
    "mthreads": (mthreads,),
    "metax": (metax_gpu, metax_shared),
    "enflame": (gcu, drs),
    "kunlun": (xpu, vxpu),
    "awsneuron": (aws_neuron,),
    "amd": (amd,),
    "vastai": (vastai,),
    "biren": (biren,),
}
"""What makes the cards of each section of HAMi's configuration."""
_LISTS = frozenset({"vnpus", "iluvatars"})
"""Sections that may be lists: their vendors read them from the configuration itself."""


def configured(config: VendorSection, *, others: bool = True) -> tuple[Vendor, ...]:
    """Return every vendor's cards, under the names that HAMi's ``device-config.yaml`` gives.

    Parameters
    ----------
    config
        The whole file.
    others
        Whether vendors without a section are there, under the names of HAMi's chart.

    Raises
    ------
    ConfigError
        If a field cannot be read, or two vendors, or two resources, have the same name.
    """
    found: list[Vendor] = []
    for name, factories in VENDOR_FACTORIES.items():
        if not (others or config.has(name)):
            continue
        section = config if name in _LISTS else config.section(name)
        for make in factories:
            found += make(section)
    for key, times in Counter(vendor.key for vendor in found).items():
        if times > 1:
            raise ConfigError(f"{_fields(config, key)}{key} is more than one kind of cards: name each once")
    owners: dict[str, str] = {}
    for vendor in found:
        for resource in dict.fromkeys((*vendor.claims.resources, *vendor.claims.unadvertised)):
            if owners.setdefault(resource, vendor.key) != vendor.key:
                both = f"both of {owners[resource]} and of {vendor.key}"
                raise ConfigError(f"{_fields(config, resource)}resource {resource} is {both}")
        for resource, times in Counter(vendor.claims.resources).items():
            if times > 1:
                raise ConfigError(
                    f"{_fields(config, resource)}resource {resource} stands for {times} things of {vendor.key}"
                )
    return tuple(found)


def _fields(config: VendorSection, text: str) -> str:
    """Return the beginning of an error about the fields that say a text."""
    fields = ", ".join(config.fields_with_text(text))
    return f"{fields}: " if fields else ""


def vendors(nvidia_requests: NvidiaRequests | None = None) -> tuple[Vendor, ...]:
    """Return every vendor's cards, under the names that HAMi's chart configures where none are given."""
    default = configured(VendorSection())
    return default if nvidia_requests is None else (nvidia_cards(nvidia_requests), *default[1:])
