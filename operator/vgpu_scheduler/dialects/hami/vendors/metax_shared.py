"""Shares of MetaX GPUs under HAMi (sGPU): with application classes, qualities of service, and zones of linked cards."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.allocators import PLAIN_CHECKS, Check, FitRules, Selection
from vgpu_scheduler.dialects.errors import AdmissionDenied, ClaimError
from vgpu_scheduler.dialects.fixes import RequestWarning
from vgpu_scheduler.dialects.hami.codec import AssignedDevice, RegisteredDevice
from vgpu_scheduler.dialects.hami.fields import Fields, decode_list
from vgpu_scheduler.dialects.hami.vendors.base import (
    MODE_WORD,
    POLICY_WORD,
    AllocationAnnotations,
    CardSource,
    PodOptions,
    RuleKeys,
    SuspiciousAmounts,
    Vendor,
    VendorPlacement,
    held_with,
)
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.hami.vendors.registered import as_written, checked
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.dialects.values import INT32, amount_text, beyond_any_card, whole_amount
from vgpu_scheduler.kube import Container, Node, Pod, go_bool, has_unit, to_int
from vgpu_scheduler.model import (
    MIB,
    NO_DEFAULTS,
    WHOLE,
    Amounts,
    Assignment,
    Claim,
    ClaimDefaults,
    Device,
    DimensionRoles,
    Usage,
)

APP_CLASS, QUALITY = "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"
ONLINE, OFFLINE = "online", "offline"
QUALITIES = ("best-effort", "fixed-share", "burst-share")
"""The first one is the default."""
REGISTER = "metax-tech.com/node-gpu-devices"
TOPOLOGY = "metax-tech.com/sgpu-topology-aware"

_DEVICES, _TIME = "metax-tech.com/gpu-devices-allocated", "metax-tech.com/predicate-time"

_CLASSES = ("", ONLINE, OFFLINE)
_SCHEMA = DimensionRoles(classes=range(3, 6), qualities=range(6, 9))
"""Dimensions that count occupants by class and by quality, in the order of ``_CLASSES`` and ``QUALITIES``."""
_ANY_NUMBER = INT32 + 1
"""Capacity of a card for occupants of each class or quality; only its slots limit them."""
_GIB = 1024
"""MiB of a GiB."""
_CHOICE_WEIGHT = 10000.0


def _app_class(annotations: Mapping[str, str]) -> str:
    """Return the application class of a pod; empty for unknown values."""
    named = annotations.get(APP_CLASS, "")
    return named if named in _CLASSES else ""


def _mode(annotations: Mapping[str, str]) -> str:
    """Return class and quality of a pod, each empty if it names none; online pods have no quality."""
    app_class, quality = _app_class(annotations), annotations.get(QUALITY, "")
    return f"{app_class}/{quality if quality in QUALITIES and app_class != ONLINE else ''}"


def _counted(mode: str, cores: int) -> Amounts:
    """Return the amounts of an occupant in the dimensions after the cores: 1 for its class and for its quality.

    The quality of an occupant with all compute does not count, because it shares the card with no other pod.
    """
    app_class, _, quality = mode.partition("/")
    shared = cores != WHOLE
    return (*(int(name == app_class) for name in _CLASSES), *(int(shared and q == quality) for q in QUALITIES))


@dataclass(frozen=True, slots=True)
class SharedCards:
    """Cards from the plugin's own annotation; a card keeps its quality of service while it is in use."""

    source = CardSource(annotation=REGISTER)
    cordon = ""
    health = "healthy"

    def facts(self, node: Node) -> Hashable | None:
        """Return the registration."""
        return node.annotations.get(REGISTER)

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards in the order of the annotation; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, str)
        listed = decode_list(facts, "registration", "device")
        cards = checked([_registered(fields, position, vendor) for position, fields in enumerate(listed)])
        return tuple(_device(card, fields, vendor) for card, fields in zip(cards, listed, strict=True))


def _registered(fields: Fields, position: int, vendor: str) -> RegisteredDevice:
    return RegisteredDevice(
        id=fields.text("uuid"),
        index=position,
        count=fields.integer("totaldevcount", -INT32 - 1, INT32),
        devmem=fields.integer("totalvram", -INT32 - 1, INT32),
        devcore=fields.integer("totalcompute", -INT32 - 1, INT32),
        type=vendor,
        numa=fields.integer("numa"),
        mode=fields.text("qospolicy"),
        health=fields.boolean("healthy"),
    )


def _device(card: RegisteredDevice, fields: Fields, vendor: str) -> Device:
    device = as_written(card, vendor)
    return replace(
        device,
        total=(*device.total, *(_ANY_NUMBER for _ in (*_CLASSES, *QUALITIES))),
        schema=_SCHEMA,
        group=max(fields.integer("linkzone", -INT32 - 1, INT32), -1),
    )


class SharedRequests(ShareRequests):
    """Requests: memory without a suffix is in GiB, with a suffix in bytes."""

    __slots__ = ()

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the container's claim, if any, for a pod's class and quality (``mode``); see :class:`ShareRequests`.

        Online pods claim no cores: they use the cores of other pods when needed.
        """
        claim = ShareRequests.read(self, vendor, container, defaults, mode)
        if claim is None:
            return None
        online = mode.startswith(ONLINE)
        if defaults.exclusive and mode.startswith((ONLINE, OFFLINE)):
            raise ClaimError(
                f'container "{container.name}": {self.count}: a policy wants cards of its own for the pod, and pods of '
                f"an application class share theirs: leave out annotation {APP_CLASS}"
            )
        slots, memory, cores, *_ = claim.amounts
        occupant = _counted(mode, cores)
        amounts = (slots, memory, 0 if online else cores, *occupant)
        return replace(claim, amounts=amounts, percent=(*claim.percent, *(0 for _ in occupant)))

    def _memory(self, container: Container) -> int:
        amount = whole_amount(self._seen(container), self.memory)
        text = (amount_text(self._seen(container), self.memory) or "").strip()
        if not amount:
            return 0
        memory = amount // MIB if has_unit(text) else amount * _GIB
        if memory > INT32:
            raise beyond_any_card(self._seen(container), self.memory, "GiB", amount // MIB // _GIB or 1)
        if not memory:
            where = f'container "{container.name}": {self.memory}: {text}'
            raise ClaimError(f"{where} is less than 1Mi: numbers with a unit are in bytes, those without in GiB")
        return memory


NAMES = SharedRequests(
    "metax-tech.com/sgpu",
    "metax-tech.com/vmemory",
    cores="metax-tech.com/vcore",
    memory_factor=_GIB,
    units_in_bytes=True,
    default_cores=WHOLE,
    limits_only=True,
)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Returns the checks for a pod; ``topology_aware`` is the default for pods without the annotation."""

    topology_aware: bool

    def __call__(self, annotations: Mapping[str, str]) -> FitRules:
        if _app_class(annotations) == ONLINE:
            return FitRules(
                Check.SLOTS | Check.MEMORY | Check.CLASSES,
                modes=False,
                selection=Selection.CONTENTION,
                choice_weight=_CHOICE_WEIGHT,
            )
        given = annotations.get(TOPOLOGY)
        aware = self.topology_aware if given is None else bool(go_bool(given))
        return FitRules(
            PLAIN_CHECKS | Check.CLASSES,
            quality=annotations.get(QUALITY, ""),
            modes=False,
            selection=Selection.ZONE,
            choice_weight=_CHOICE_WEIGHT if aware else 0.0,
        )


def _held(vendor: str, pod: Pod, aligned: Sequence[Sequence[AssignedDevice]]) -> Usage:
    """Return the usage from the entries; each is an occupant of the pod's application class and quality.

    The pod's quality counts only until the pod runs: after that the plugin reports the quality of the card, and the
    annotation on the pod may change.
    """
    runs = pod.started or pod.phase == "Running"
    mode = f"{_app_class(pod.annotations)}/" if runs else _mode(pod.annotations)
    return held_with(vendor, pod, aligned, lambda _, e: (1, e.memory, e.cores, *_counted(mode, e.cores)))


def _extras(placement: VendorPlacement) -> Mapping[str, str]:
    """Return the annotations for the plugin, with the cards of each container."""
    listed = [[_entry(assignment) for assignment in container] for container in placement.containers]
    return {
        _DEVICES: json.dumps(listed, separators=(",", ":"), ensure_ascii=False),
        _TIME: placement.nanoseconds,
    }


def _entry(assignment: Assignment) -> Mapping[str, str | int]:
    _, memory, cores, *_ = assignment.amounts
    amounts = {"compute": cores, "vRam": memory}
    return {"uuid": assignment.uuid, **{name: amount for name, amount in amounts.items() if amount}}


def _suspicious(count: str) -> SuspiciousAmounts:
    """Return a function that warns about pods of an application class with several cards."""

    def suspicious(amounts: Mapping[str, int], mode: str) -> Iterator[RequestWarning]:
        if mode.startswith((ONLINE, OFFLINE)) and amounts[count] != 1:
            said = f"{count}: {amounts[count]} cards of a pod of an application class, which is meant for one"
            yield RequestWarning(said)

    return suspicious


def metax_shared(section: VendorSection) -> tuple[Vendor, ...]:
    """Return shares of GPUs, as section ``metax`` of HAMi's configuration names their resources."""
    names = replace(
        NAMES,
        count=section.text("resourceVCountName", NAMES.count),
        memory=section.text("resourceVMemoryName", NAMES.memory),
        cores=section.text("resourceVCoreName", NAMES.cores),
    )
    fit = _Fit(section.boolean("sgpuTopologyAware"))
    return (
        Vendor(
            key="Metax-SGPU",
            title="MetaX GPU share (sGPU)",
            cards=SharedCards(),
            claims=names,
            rules=RuleKeys(uuids=(("metax-tech.com/use-gpuuuid", "metax-tech.com/nouse-gpuuuid"),)),
            fit=fit({}),
            options=PodOptions(
                {APP_CLASS: MODE_WORD, QUALITY: MODE_WORD, TOPOLOGY: POLICY_WORD},
                _mode,
                fit,
                {APP_CLASS: "", QUALITY: QUALITIES[0]},
                {APP_CLASS: _CLASSES[1:], QUALITY: QUALITIES, TOPOLOGY: ()},
            ),
            record=AllocationAnnotations(
                "hami.io/metax-sgpu-devices-allocated",
                "hami.io/metax-sgpu-devices-to-allocate",
                extras=_extras,
                keys=(_DEVICES, _TIME),
            ),
            held=_held,
            means={
                APP_CLASS: "`online`: it must answer at once, and takes no compute of its own; `offline`: it works in "
                "the background. Both may share a card, but not with pods that have no class",
                QUALITY: "`best-effort`, `fixed-share` or `burst-share`; pods of a card agree on it",
                TOPOLOGY: "whether whole cards are chosen by their links (default: `sgpuTopologyAware`)",
            },
            notes="Memory without a unit is in GiB, with one in bytes (`8Gi`).",
            suspicious=_suspicious(names.count),
            admit=sgpu_rule(names.count),
        ),
    )


def sgpu_rule(count: str) -> Admit:
    """Return the admission rules for this resource name."""

    def admit(draft: ContainerDraft) -> bool:
        asked = draft.limit(count)
        if asked is None:
            return False
        kind, quality = draft.annotation(APP_CLASS), draft.annotation(QUALITY)
        if kind not in (None, ONLINE, OFFLINE):
            raise AdmissionDenied(f"{APP_CLASS} must be set one of [{ONLINE}, {OFFLINE}]")
        if kind is not None and to_int(asked) != 1:
            raise AdmissionDenied("app-class pod must request single device")
        if kind == ONLINE:
            return True
        if quality is None:
            draft.annotate(QUALITY, QUALITIES[0])
        elif quality not in QUALITIES:
            raise AdmissionDenied(f"{QUALITY} must be set one of [{', '.join(QUALITIES)}]")
        return True

    return admit
