"""AMD GPUs under HAMi: registered with their compute units, shared by memory and a part of these."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.allocators import Check, FitRules, WholeCardRule
from vgpu_scheduler.dialects.errors import AdmissionDenied
from vgpu_scheduler.dialects.hami.codec import AssignedDevice, RegisteredDevice
from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, RuleKeys, Vendor, plain_entry
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft, exact
from vgpu_scheduler.dialects.hami.vendors.registered import Registered, as_written, without_separators
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.model import WHOLE, Assignment, Compute, Device

NAMES = ShareRequests(
    "amd.com/gpu",
    "amd.com/gpumem",
    cores="amd.com/gpucores",
    default_cores=100,
    cores_of_card=True,
    limits_only=True,
)


def _device(card: RegisteredDevice, vendor: str) -> Device:
    return replace(as_written(card, vendor), tag=without_separators(card.type), compute=Compute.UNITS)


def _entry(vendor: str, assignment: Assignment) -> AssignedDevice:
    """Return the entry of a card with the product name, without separators of the format."""
    return replace(plain_entry(vendor, assignment), type=assignment.tag)


def amd(section: VendorSection) -> tuple[Vendor, ...]:
    """Return AMD's cards, as section ``amd`` of HAMi's configuration names their resources."""
    names = NAMES.configured(section)
    return (
        Vendor(
            key="AMD",
            in_percent=False,
            title="AMD GPU",
            cards=Registered("hami.io/node-amd-register", _device),
            claims=names,
            rules=RuleKeys(
                "amd.com/use-gputype", "amd.com/nouse-gputype", (("amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid"),)
            ),
            fit=FitRules(Check.SLOTS | Check.MEMORY | Check.CORES | Check.UNITS, whole=WholeCardRule.ALWAYS),
            record=AllocationAnnotations("hami.io/amd-devices-allocated", "hami.io/amd-devices-to-allocate", _entry),
            admit=amd_rule(names.count, names.memory, names.cores),
        ),
    )


def amd_rule(count: str, memory: str, cores: str) -> Admit:
    """Return the admission rules for these resource names."""

    def admit(draft: ContainerDraft) -> bool:
        compute = draft.limit(cores)
        if draft.limit(count) is not None and compute is not None and not 1 <= (exact(compute) or 0) <= WHOLE:
            raise AdmissionDenied(f"{cores} must be an integer percentage between 1 and {WHOLE}")
        return any(draft.limit(name) is not None for name in (count, memory, cores))

    return admit
