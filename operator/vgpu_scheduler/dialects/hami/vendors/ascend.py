"""Huawei Ascend NPUs under HAMi: one kind per chip, cut by templates (vNPU) or shared softly (``hami-core``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from vgpu_scheduler.allocators import Check, FitRules, Selection, WholeCardRule
from vgpu_scheduler.dialects.allocation import TimestampText
from vgpu_scheduler.dialects.errors import AdmissionDenied
from vgpu_scheduler.dialects.fixes import LeaveOutResource, RequestWarning
from vgpu_scheduler.dialects.hami.codec import RegisteredDevice
from vgpu_scheduler.dialects.hami.vendors.ascend_chips import MODULE, SOFT, SOFT_POD, Chip, NpuRequests, NpuTemplate
from vgpu_scheduler.dialects.hami.vendors.base import (
    MODE_WORD,
    AllocationAnnotations,
    CardSource,
    PodOptions,
    RuleKeys,
    SuspiciousAmounts,
    Vendor,
    VendorPlacement,
)
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.hami.vendors.registered import as_written, decode_cards
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.kube import Node, to_int
from vgpu_scheduler.model import Compute, Device

_VISIBLE = "ASCEND_VISIBLE_DEVICES"
SOFT_NODE = "hami-vnpu-core"
_TIME = "predicate-time"
_CHOICE_WEIGHT = 10.0
"""Weight of chips all of one network in the node's score."""


@dataclass(frozen=True, slots=True)
class NpuCards:
    """Registered chips; the node annotation, else the configuration, decides whether they are shared softly."""

    chip: Chip
    soft: bool

    cordon = ""
    health = "health"

    @property
    def source(self) -> CardSource:
        """Where nodes list the chips."""
        return CardSource(annotation=f"hami.io/node-register-{self.chip.key}")

    def facts(self, node: Node) -> Hashable | None:
        """Return the registration and whether the node is soft."""
        value = node.annotations.get(f"hami.io/node-register-{self.chip.key}")
        soft = node.annotations.get(SOFT_NODE)
        return None if value is None else (value, self.soft if soft is None else soft == "true")

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the chips in the order of the annotation; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, tuple)
        value, soft = facts
        registered = decode_cards(value)
        networks = [_network(card) for card in registered] if self.chip.networks else []
        known = all(network >= 0 for network in networks)
        return tuple(
            replace(
                as_written(card, vendor),
                mode=SOFT if soft else "",
                group=networks[number] if networks and known else -1,
                in_percent=soft,
                compute=Compute.UNITS,
            )
            for number, card in enumerate(registered)
        )


def _mode(annotations: Mapping[str, str]) -> str:
    return SOFT if annotations.get(SOFT_POD) == SOFT else ""


def _network(card: RegisteredDevice) -> int:
    number = card.custom_info.get("NetworkID")
    return number if type(number) is int and 0 <= number <= INT32 else -1


def _suspicious(chip: Chip) -> SuspiciousAmounts:
    """Return a function that warns about requests for a template chip that only soft sharing can serve."""
    names = chip.names

    def suspicious(amounts: Mapping[str, int], mode: str) -> Iterator[RequestWarning]:
        if mode == SOFT:
            return
        if names.cores in amounts:
            yield _of_no_use(
                f"{names.cores} is in percent for pods with annotation {SOFT_POD}: {SOFT} alone; for others it counts "
                "a chip's cores, which come with the memory: leave it out",
                names.cores,
            )
        memory = chip.cut(amounts.get(names.memory, 0) * chip.memory_factor)
        if amounts[names.count] > 1 and names.memory in amounts and memory != chip.allocatable:
            yield _of_no_use(f"{names.memory}: several chips cannot be shared in part: leave it out", names.memory)

    return suspicious


def _of_no_use(text: str, resource: str) -> RequestWarning:
    return RequestWarning(text, fix=LeaveOutResource("", resource))


def _sizes(chip: Chip) -> str:
    """Return the text about the sizes in which a chip is given out."""
    cut = ", ".join(f"`{template.name}` ({template.memory} MiB)" for template in chip.templates)
    more = " Several chips are given out by modules of two." if chip.modules else ""
    return f"`{chip.key}` has {chip.capacity} MiB, of which a pod gets {chip.allocatable}, or {cut}.{more}"


def _extras(chip: Chip) -> Callable[[VendorPlacement], Mapping[str, str]]:
    """Return a function that writes the chips of a pod for the plugin's own runtime."""

    def extras(placement: VendorPlacement) -> Mapping[str, str]:
        soft = placement.pod is not None and _mode(placement.pod.annotations)
        listed = []
        for container in placement.containers:
            for card in container:
                _, memory, cores, *_ = card.amounts
                entry = {
                    "UUID": card.uuid,
                    "temp": "" if soft else chip.template(memory),
                    "memory": memory,
                    "core": cores,
                }
                listed.append({key: value for key, value in entry.items() if value})
        return {
            _TIME: TimestampText(placement.unix_time),
            chip.assigned: json.dumps(listed, separators=(",", ":"), ensure_ascii=False),
        }

    return extras


def ascend(config: VendorSection) -> tuple[Vendor, ...]:
    """Return a vendor for each chip that is listed under ``vnpus``, by default those of HAMi's chart."""
    section = VendorSection() if config.is_list("vnpus") else config.section("vnpus")
    listed = config.sections("vnpus") if config.is_list("vnpus") else section.sections("configs")  # a list up to 2.8
    chips = tuple(map(_chip, listed)) or CHIPS
    soft = section.boolean("hamiVnpuCore")
    return tuple(_vendor(chip, soft=soft) for chip in chips)


def _chip(section: VendorSection) -> Chip:
    section.ignore("chipName", "aiCore", "aiCPU")
    templates = []
    for template in section.sections("templates"):
        template.ignore("aiCore", "aiCPU")
        templates.append(NpuTemplate(template.required("name"), template.integer("memory", least=1)))
    key = section.required("commonWord")
    return Chip(
        key,
        tuple(sorted(templates, key=lambda template: template.memory)),
        section.integer("memoryAllocatable"),
        section.integer("memoryCapacity"),
        section.factor("memoryFactor"),
        section.text("resourceName"),
        section.text("resourceMemoryName"),
        section.text("resourceCoreName"),
        networks="910" in key,
        modules=section.boolean("superPod"),
        overwrite_env=section.boolean("overwriteEnv"),
        runtime_class=section.text("runtimeClassName"),
    )


def _vendor(chip: Chip, *, soft: bool) -> Vendor:
    selection = Selection.PAIRS if chip.modules else Selection.GROUPED
    fit = FitRules(
        whole=WholeCardRule.ALWAYS, selection=selection, choice_weight=_CHOICE_WEIGHT if chip.networks else 0.0
    )
    softly = replace(fit, checks=fit.checks | Check.PERCENT, mode=SOFT)
    return Vendor(
        key=chip.key,
        in_percent=False,
        title=f"Huawei {chip.key}",
        cards=NpuCards(chip, soft),
        claims=chip.names,
        rules=RuleKeys(uuids=((f"hami.io/use-{chip.key}-uuid", f"hami.io/no-use-{chip.key}-uuid"),)),
        fit=fit,
        options=PodOptions(
            {SOFT_POD: MODE_WORD},
            _mode,
            lambda annotations: softly if _mode(annotations) else fit,
            {SOFT_POD: ""},
            {SOFT_POD: (SOFT,)},
        ),
        record=AllocationAnnotations(
            f"hami.io/{chip.key}-devices-allocated",
            f"hami.io/{chip.key}-devices-to-allocate",
            extras=_extras(chip),
            keys=(_TIME, chip.assigned),
        ),
        suspicious=_suspicious(chip),
        admit=npu_rule(chip),
        means={
            chip.names.cores: f"with annotation `{SOFT_POD}: {SOFT}`: compute of each, in percent; else to be left "
            "out, since compute comes with the memory, and the webhook refuses such a pod",
            SOFT_POD: f"`{SOFT}`: memory and compute as asked for, on nodes that share softly; else the smallest "
            "template that holds the memory, whose compute comes with it",
            SOFT_NODE: "of the node: `true` or `false`, whether its chips are shared softly (default: `hamiVnpuCore`)",
        },
        notes=_sizes(chip),
    )


def _templates(*named: tuple[str, int]) -> tuple[NpuTemplate, ...]:
    return tuple(NpuTemplate(name, memory) for name, memory in named)


_HALVES = _templates(("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768))
CHIPS = (
    Chip(
        "Ascend910A",
        _templates(("vir02", 2184), ("vir04", 4369), ("vir08", 8738), ("vir16", 17476)),
        32768,
        32768,
    ),
    Chip(
        "Ascend910B2",
        _templates(("vir03_1c_8g", 8192), ("vir06_1c_16g", 16384), ("vir12_3c_32g", 32768)),
        65536,
        65536,
    ),
    Chip("Ascend910B3", _HALVES, 65536, 65536),
    Chip("Ascend910B4", _templates(("vir05_1c_8g", 8192), ("vir10_3c_16g", 16384)), 32768, 32768),
    Chip("Ascend910B4-1", _HALVES, 65536, 65536),
    Chip("Ascend910C", _HALVES, 65536, 65536, modules=True),
    Chip("Ascend310P", _templates(("vir01", 3072), ("vir02", 6144), ("vir04", 12288)), 21527, 24576, networks=False),
)
"""The chips as configured in HAMi's chart (``vnpus.configs``)."""


def npu_rule(chip: Chip) -> Admit:
    """Return the admission rules of a chip."""
    names = chip.names

    def admit(draft: ContainerDraft) -> bool:
        count = draft.limit(names.count)
        if count is None:
            if chip.overwrite_env:
                draft.set_env(_VISIBLE, "")
            return False
        sound = draft.sound(names.count, names.memory)
        number = to_int(count)
        if chip.modules and number != 1 and number % MODULE:
            raise AdmissionDenied(f"{chip.key} device request must be 1 or 2*n, got {number}")
        if chip.modules and number == 1 and sound:
            draft.set_limit(names.count, MODULE)
        memory = _memory(draft, number, chip, names)
        if sound and (draft.unclaimed or draft.limit(names.memory) is not None):
            draft.set_both(names.memory, memory)
        draft.use_runtime_class(chip.runtime_class)
        return True

    return admit


def _memory(draft: ContainerDraft, number: int, chip: Chip, names: NpuRequests) -> int:
    """Return the memory per chip that the container gets, in units of the resource, rounded up to a possible size."""
    asked = draft.limit(names.memory)
    whole = chip.allocatable // chip.memory_factor
    if draft.annotation(SOFT_POD) == SOFT:
        return whole if asked is None else to_int(asked)
    if to_int(draft.limit(names.cores) or "0") > 0:
        raise AdmissionDenied(f"{names.cores} is only supported in hami-core (soft split) mode")
    if asked is None:
        return whole
    memory = _cut(chip, to_int(asked) * chip.memory_factor)
    if memory <= 0:
        raise AdmissionDenied(f"{names.memory} {to_int(asked)} is invalid")
    if number > 1 and memory != chip.allocatable:
        raise AdmissionDenied("vNPU not supported for multiple devices")
    return max(memory // chip.memory_factor, 1)


def _cut(chip: Chip, memory: int) -> int:
    """Return the memory of the smallest sufficient template, or of a whole chip, in MiB; 0 if it is too much."""
    whole = chip.allocatable if memory <= chip.capacity else 0
    return next((template.memory for template in chip.templates if memory <= template.memory), whole)
