"""NVIDIA cards under HAMi: shared as they are, in MIG pieces or by MPS, with links, cordons and MIG placements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.allocators import NVIDIA_RULES
from vgpu_scheduler.dialects.errors import AdmissionDenied, CodecError
from vgpu_scheduler.dialects.hami.codec import AssignedDevice, RegisteredDevice
from vgpu_scheduler.dialects.hami.links import decode_pair_scores
from vgpu_scheduler.dialects.hami.mig import (
    SCHEMA,
    SLICES,
    MigAllocation,
    allocations_of,
    decode_allocations,
    encode_allocations,
    pieces_of,
    slices_of,
)
from vgpu_scheduler.dialects.hami.templates import (
    SMALLEST_INSTANCE,
    MigGeometry,
    cut,
    instance_of,
    recorded,
    smallest_instance,
    template_pieces,
)
from vgpu_scheduler.dialects.hami.vendors.base import (
    AllocationAnnotations,
    CardSource,
    RuleKeys,
    Vendor,
    VendorPlacement,
)
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import (
    ALLOCATED_ANNOTATION,
    CORDON_ANNOTATION,
    MIG_ANNOTATION,
    MODE,
    MODE_MIG,
    MODES,
    NO_USE_TYPE,
    NO_USE_UUID,
    NUMA_BIND,
    PAIR_SCORES_ANNOTATION,
    REGISTER_ANNOTATION,
    TO_ALLOCATE_ANNOTATION,
    USE_TYPE,
    USE_UUID,
    VENDOR,
    MigAllowance,
    NvidiaRequests,
)
from vgpu_scheduler.dialects.hami.vendors.registered import as_written, decode_cards
from vgpu_scheduler.dialects.hami.vendors.section import ConfigError, VendorSection
from vgpu_scheduler.kube import Node, Pod, to_int
from vgpu_scheduler.model import (
    WHOLE,
    Amounts,
    Assignment,
    Claim,
    ContainerClaims,
    ContainerType,
    Device,
    Piece,
    PodClaims,
    Usage,
    add,
)

_PRIORITY = "CUDA_TASK_PRIORITY"
_CORE_POLICY = "GPU_CORE_UTILIZATION_POLICY"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_NO_POLICY = ("", "default")


@dataclass(frozen=True, slots=True)
class NvidiaCards:
    """Registered cards, with cordons of an administrator and link scores of the plugin.

    Malformed pair scores count as missing (HAMi ignores such a node, although its cards are usable). Health is what the
    plugin registered. When the plugin stops, the node's allocatable amount of the count resource becomes 0, and
    NodeResourcesFit rejects the node.
    """

    requests: NvidiaRequests
    source = CardSource(annotation=REGISTER_ANNOTATION)
    cordon = CORDON_ANNOTATION
    health = "health"

    def facts(self, node: Node) -> Hashable | None:
        """Return the registration, the cordon and the pair scores."""
        value = node.annotations.get(REGISTER_ANNOTATION)
        if value is None:
            return None
        return (
            value,
            node.annotations.get(CORDON_ANNOTATION, ""),
            node.annotations.get(PAIR_SCORES_ANNOTATION, ""),
        )

    def decode(self, vendor: str, facts: Hashable) -> tuple[Device, ...]:
        """Return the cards in the order of the annotation; see :class:`vendors.base.Cards`."""
        assert isinstance(facts, tuple)
        value, cordon, pair_scores = facts
        cordoned = {uuid.strip() for uuid in cordon.split(",")}
        links = _links(pair_scores)
        return tuple(
            self._device(
                card, vendor, cordoned=card.id in cordoned, links=tuple(sorted(links.get(card.id, {}).items()))
            )
            for card in decode_cards(value)
        )

    def _device(
        self, card: RegisteredDevice, vendor: str, *, cordoned: bool, links: tuple[tuple[str, int], ...]
    ) -> Device:
        """Return a card, with the pieces that it can be cut into if it is in MIG mode."""
        whole = as_written(card, vendor, schema=SCHEMA, cordoned=cordoned, links=links)
        if card.mode != MODE_MIG:
            return whole
        allowed = self.requests.mig_profiles(card.type)
        templates = (
            () if card.mig_profiles else self.requests.mig_templates(card.type)
        )  # a registration with profiles needs no templates
        possible = tuple(dict.fromkeys(pieces_of(card.mig_profiles) or template_pieces(templates)))
        pieces: tuple[Piece, ...] = tuple(piece for piece in possible if allowed is None or piece.profile in allowed)
        return cut(whole, pieces, possible)


def _links(pair_scores: str) -> Mapping[str, Mapping[str, int]]:
    try:
        return {entry.uuid: entry.score for entry in decode_pair_scores(pair_scores)} if pair_scores else {}
    except CodecError:
        return {}


def _entry(vendor: str, assignment: Assignment) -> AssignedDevice:
    _, memory, cores, *_ = assignment.amounts
    return AssignedDevice(recorded(assignment.uuid, assignment.piece), vendor, memory, cores)


def _placements(placement: VendorPlacement) -> Mapping[str, str]:
    """Return the MIG placements; an empty list overwrites a forged annotation on the pod."""
    placements = allocations_of(placement.containers)
    brought = placement.pod is not None and MIG_ANNOTATION in placement.pod.annotations
    return {MIG_ANNOTATION: encode_allocations(placements)} if placements or brought else {}


@dataclass(frozen=True, slots=True)
class NvidiaAdmission:
    """The webhook's options from section ``nvidia`` of HAMi's ``device-config.yaml``.

    Attributes
    ----------
    default_count
        Cards for a container that names only memory or compute (``defaultGPUNum``); 0 for none.
    overwrite_env
        Hide the cards from containers that request none, whatever their image sets (``overwriteEnv``).
    core_policy
        How HAMi's runtime limits compute (``gpuCorePolicy``): ``force``, ``disable``, or ``default``.
    runtime_class
        The runtime class of pods with cards (``runtimeClassName``).
    """

    default_count: int = 1
    overwrite_env: bool = False
    core_policy: str = ""
    runtime_class: str = ""


def nvidia(section: VendorSection) -> tuple[Vendor, ...]:
    """Return NVIDIA's cards, as section ``nvidia`` of HAMi's configuration names their resources."""
    section.ignore(
        "deviceSplitCount", "deviceMemoryScaling", "deviceCoreScaling", "preConfiguredDeviceMemory", "libCudaLogLevel",
        "enableNumaTopology", "disableCoreLimit",  # the device plugin's
    )  # fmt: skip
    known, webhook = NvidiaRequests(), NvidiaAdmission()
    geometries = tuple(map(_geometry, section.sections("knownMigGeometries")))
    return (
        nvidia_cards(
            replace(
                known.configured(section),
                priority=section.text("resourcePriorityName", known.priority),
                memory_factor=section.factor("memoryFactor"),
                default_memory=section.integer("defaultMemory"),
                default_cores=section.integer("defaultCores", most=100),
                whole_is_exclusive=section.boolean("wholeIsExclusive"),
                mig_allowances=tuple(map(_allowance, section.sections("migProfileAllowlist"))),
                mig_geometries=geometries or known.mig_geometries,
            ),
            NvidiaAdmission(
                default_count=section.integer("defaultGPUNum", webhook.default_count),
                overwrite_env=section.boolean("overwriteEnv"),
                core_policy=section.text("gpuCorePolicy"),
                runtime_class=section.text("runtimeClassName"),
            ),
        ),
    )


def _allowance(section: VendorSection) -> MigAllowance:
    try:
        return MigAllowance(section.texts("models"), section.texts("profiles"))
    except ValueError as error:
        raise ConfigError(f"{section.path}: {error}") from None


def _geometry(section: VendorSection) -> MigGeometry:
    templates = tuple(
        tuple(
            (kind.required("name"), kind.integer("memory", least=1), kind.integer("count", least=1)) for kind in kinds
        )
        for kinds in section.lists_of_sections("allowedGeometries")
    )
    try:
        return MigGeometry(section.texts("models"), templates)
    except ValueError as error:
        raise ConfigError(f"{section.path}: {error}") from None


def nvidia_cards(requests: NvidiaRequests, admission: NvidiaAdmission = NvidiaAdmission()) -> Vendor:
    """Return the NVIDIA vendor for these names."""
    return Vendor(
        key=VENDOR,
        title="NVIDIA GPU",
        cards=NvidiaCards(requests),
        claims=requests,
        rules=RuleKeys(USE_TYPE, NO_USE_TYPE, ((USE_UUID, NO_USE_UUID),), MODE, MODES),
        fit=NVIDIA_RULES,
        record=AllocationAnnotations(
            ALLOCATED_ANNOTATION, TO_ALLOCATE_ANNOTATION, _entry, _placements, (MIG_ANNOTATION,)
        ),
        held=held,
        admit=nvidia_rule(requests, admission),
        smallest_piece=min(smallest_instance(requests.mig_geometries) or SMALLEST_INSTANCE, SMALLEST_INSTANCE),
        means={
            requests.priority: "a resource: which pod of a card goes first; only the plugin uses it",
            MODE: "how cards may be shared: `hami-core`, `mig`, `mps`, or several of them; any, if it is not there",
            NUMA_BIND: "`true`: all cards of a container are on one NUMA node",
            CORDON_ANNOTATION: "of the node: UUIDs of cards that take no new pods",
            PAIR_SCORES_ANNOTATION: "of the node: how close its cards are, for the device policy `topology-aware`",
        },
        notes=(
            "A card in mode `mig` is given out in pieces. Where its registration lists `migProfiles`, a pod gets the "
            "smallest profile that holds its claim, at a place that leaves the most room, and "
            f"`{MIG_ANNOTATION}` reserves it; else one of the templates of `knownMigGeometries`, and its UUID is "
            "written as `UUID[template-instance]`. Cards in mode `mps` are accounted as those in mode `hami-core`."
        ),
    )


_NOTHING = (0, 0, 0)
_ON_NO_CARD = (0,) * (len(_NOTHING) + 1) + (200,) * SLICES
_EVERY_MIG_CARD: PodClaims = (
    ContainerClaims("", ContainerType.APP, (Claim(VENDOR, 1, (0,) * len(_ON_NO_CARD), _ON_NO_CARD),)),
)
"""A claim of 200 percent of every slice: it closes every MIG card, and charges nothing on cards without slices."""


def held(vendor: str, pod: Pod, aligned: Sequence[Sequence[AssignedDevice]]) -> Usage:
    """Return what a pod uses.

    Placements are matched with cards, not with entries, because older writers shift the numbers of containers. An entry
    on a MIG card needs a placement, and a placement needs a MIG card; otherwise the card is out of service
    (:mod:`vgpu_scheduler.kernels.pieces`). A placement on an unlisted card may be on any MIG card of the node, so it
    puts all of them out of service.

    Parameters
    ----------
    vendor
        NVIDIA's vendor key.
    pod
        The pod; a malformed annotation of placements counts as missing.
    aligned
        The entries of each container.
    """
    kinds = [container.type for container in pod.spec.containers]
    entries = [[_assignment(vendor, entry) for entry in container] for container in aligned]
    usage = Usage.of(kinds, entries)
    placements = _held_placements(pod.annotations)
    if not placements:
        return usage
    charged = dict(usage.charges)
    numbers = Counter(assignment.uuid for container in entries for assignment in container)
    for uuid, listed in placements.items():
        used = charged.get(uuid, _NOTHING)
        explained = used[0] if len(listed) >= numbers[uuid] else 0
        # An entry with both an instance suffix and a placement matches neither kind of card, and closes its card.
        charged[uuid] = add(used, (*_NOTHING, explained, *_slices(listed)))
    return replace(usage, charges=charged, unlisted=dict.fromkeys(placements, _EVERY_MIG_CARD))


def _assignment(vendor: str, entry: AssignedDevice) -> Assignment:
    uuid, instance = instance_of(entry.uuid)
    return Assignment(vendor, uuid, (1, entry.memory, entry.cores, *instance))


def _slices(placements: Sequence[MigAllocation]) -> Amounts:
    return slices_of(entry.place for entry in placements)


def _held_placements(annotations: Mapping[str, str]) -> dict[str, list[MigAllocation]]:
    """Return the placements of each card."""
    try:
        decoded = decode_allocations(annotations.get(MIG_ANNOTATION, ""))
    except CodecError:
        return {}
    found: dict[str, list[MigAllocation]] = {}
    for entry in decoded:
        found.setdefault(entry.uuid, []).append(entry)
    return found


def nvidia_rule(requests: NvidiaRequests, options: NvidiaAdmission) -> Admit:
    """Return NVIDIA's admission rules."""

    def admit(draft: ContainerDraft) -> bool:
        share = draft.either(requests.memory_percent)
        percent = None if share is None else to_int(share)
        if percent is not None and not 0 <= percent <= WHOLE:
            raise AdmissionDenied(
                f"invalid {requests.memory_percent} value {percent} in container {draft.name}: "
                f"must be an integer between 0 and {WHOLE}"
            )
        priority = draft.limit(requests.priority)
        if priority is not None:
            draft.set_env(_PRIORITY, str(to_int(priority)))
        if options.core_policy not in _NO_POLICY:
            draft.set_env(_CORE_POLICY, options.core_policy)
        found = draft.limit(requests.count) is not None
        if not found and options.default_count and any(draft.limit(name) is not None for name in requests.amounts):
            if draft.request(requests.count) is None:
                draft.add_limit(requests.count, options.default_count)
            found = True
        if requests.whole_is_exclusive and _whole(draft, percent, requests):
            if draft.unclaimed and draft.either(requests.cores) is None:
                draft.add_limit(requests.cores, WHOLE)
            found = True
        if found:
            draft.use_runtime_class(options.runtime_class)
        elif options.overwrite_env:
            draft.set_env(_VISIBLE, "none")
        return found

    return admit


def _whole(draft: ContainerDraft, percent: int | None, requests: NvidiaRequests) -> bool:
    """Tell whether whole cards are requested without compute, except compute that an earlier admission added."""
    if draft.either(requests.count) is None or draft.request(requests.cores) is not None:
        return False
    if draft.limit(requests.cores) not in (None, str(WHOLE)):
        return False
    return draft.either(requests.memory) is None if percent is None else percent == WHOLE
