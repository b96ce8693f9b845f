"""The naive twin of HAMi's placement: a whole case from its raw JSON objects to an answer.

With every quirk on it says what HAMi 2.10 says, with every quirk off what this scheduler says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from tests.naive import hami_mig
from tests.naive.hami_cards import node_score, place
from tests.naive.hami_mig import Profile
from tests.naive.hami_quirks import NONE, Quirk, Switches
from tests.naive.hami_quota import Quota, limits
from tests.naive.hami_values import Ask, Card, Container, Pick, Rules, Wish
from tests.naive.hami_wire import (
    Bad,
    Entry,
    Names,
    Obj,
    Panic,
    Unreadable,
    asks,
    decode_pod,
    encode_pod,
    handshake_ended,
    node_register,
    pair_scores,
    raw_containers,
    weights,
)

NODE = "hami.io/vgpu-node"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
MIG = "hami.io/vgpu-mig-allocations"
TIME = "hami.io/vgpu-time"

NOW = datetime(2026, 8, 21)  # noqa: DTZ001 - HAMi's stamps have no zone; the cases were recorded about then
"""When the cases happen; only the age of a handshake depends on it."""

UNREGISTERED = "node unregistered"


@dataclass
class Answer:
    """What becomes of a pod.

    ``scores`` and ``per_node`` (the allocation) are about the nodes that fit, ``failed`` about the others; ``best``
    are the nodes with the best score, the first of which by name is taken.
    """

    kind: str  # placed, unschedulable, passthrough, error or refused
    scores: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    per_node: dict[str, dict[str, str]] = field(default_factory=dict)
    best: tuple[str, ...] = ()
    refused: frozenset[Bad] = frozenset()

    @property
    def node(self) -> str | None:
        return min(self.best, default=None)

    def annotations(self, node: str) -> dict[str, str]:
        written = self.per_node[node]
        return {**written, TO_ALLOCATE: written[ALLOCATED], NODE: node, TIME: "<time>"}


Charge = tuple[int, int, int]
"""Slots, memory, cores."""


def decide(case: Obj, quirks: Iterable[Enum] = NONE) -> tuple[Answer, set[Enum]]:
    """Decide a placement case; also tell which quirks were asked for."""
    if case["config"]["deviceConfig"].keys() - {"nvidia"}:
        from tests.naive.vendors import cluster  # noqa: PLC0415 - it builds on this module

        return cluster.decide(case, quirks)
    switch = Switches(quirks)
    return _decide(case, switch), switch.asked


def _decide(case: Obj, switch: Switches) -> Answer:
    names = Names.of(case)
    containers, refused = asks(case["pod"], names, switch)
    annotations = case["pod"]["metadata"].get("annotations") or {}
    weighting: tuple[int, int, int] | None = (1, 1, 1)
    if "hami.io/device-scoring-weights" in annotations:
        weighting = weights(annotations["hami.io/device-scoring-weights"])
    if weighting is None and not switch(Quirk.BAD_WEIGHTS_FAIL_FILTER):
        refused.add(Bad("", "hami.io/device-scoring-weights"))
    if refused:
        return Answer("refused", refused=frozenset(refused))
    if not any(container.asks for container in containers):
        return Answer("passthrough")
    if weighting is None:
        return Answer("error")
    wish = Wish(
        tuple(containers),
        Rules.of(annotations),
        annotations.get("hami.io/gpu-scheduler-policy", case["config"]["gpuSchedulerPolicy"]),
        weights=weighting,
        quotas=quotas(case, case["pod"]["metadata"]["namespace"], names, switch),
    )
    spread = annotations.get("hami.io/node-scheduler-policy", case["config"]["nodeSchedulerPolicy"]) == "spread"
    return _over_nodes(ledger(case, names, switch), wish, spread=spread, switch=switch)


def _over_nodes(nodes: Mapping[str, Sequence[Card]], wish: Wish, *, spread: bool, switch: Switches) -> Answer:
    answer = Answer("unschedulable")
    for name, cards in nodes.items():
        if not cards:
            answer.failed[name] = UNREGISTERED
            continue
        fit = place(cards, wish, switch)
        if not fit.fits:
            answer.failed[name] = fit.text
            continue
        answer.scores[name] = node_score(cards)
        answer.per_node[name] = allocation(fit.picks, cards, switch)
    if answer.scores:
        best = (min if spread else max)(answer.scores.values())
        answer.kind = "placed"
        answer.best = tuple(sorted(name for name, score in answer.scores.items() if score == best))
    return answer


def allocation(picks: Sequence[Sequence[Pick]], cards: Sequence[Card], switch: Switches) -> dict[str, str]:
    """The annotations: an entry per container; HAMi 2.10 leaves out those of containers without devices."""
    if not all(picks) and all(c.type != c.vendor for c in cards) and switch(Quirk.NO_PADDING):
        picks = [container for container in picks if container]
    entries = [[Entry(p.uuid, p.vendor, p.memory, p.cores) for p in container] for container in picks]
    placements = [
        hami_mig.Allocation(number, device, pick.uuid, pick.held)
        for number, container in enumerate(picks)
        for device, pick in enumerate(container)
        if pick.held
    ]
    written = {ALLOCATED: encode_pod(entries)}
    return {**written, MIG: hami_mig.encode(placements)} if placements else written


# Quotas ------------------------------------------------------------------------------------------------------------


def quotas(case: Obj, namespace: str, names: Names, switch: Switches) -> dict[str, Quota]:
    """What a namespace may hold of cards, and what it holds; empty where nothing is limited."""
    memory = limits(case.get("quotas", ()), namespace, names.memory)
    cores = limits(case.get("quotas", ()), namespace, names.cores)
    if memory is None and cores is None:
        return {}
    if memory is not None:
        memory *= names.factor
    used_memory, used_cores = held_by(case, namespace, names, switch)
    return {"NVIDIA": Quota(memory, cores, used_memory, used_cores)}


def held_by(case: Obj, namespace: str, names: Names, switch: Switches) -> tuple[int, int]:
    """Memory and cores that the pods of a namespace hold."""
    used_memory = used_cores = 0
    for pod in case["pods"]:
        if pod["metadata"]["namespace"] == namespace:
            _, charges, blanket = usage(pod, names, switch)
            for _, more_memory, more_cores in [*charges.values(), _anywhere(blanket or ())]:
                used_memory += more_memory
                used_cores += more_cores
    return used_memory, used_cores


def _anywhere(containers: Iterable[Container]) -> Charge:
    """What claims that may sit on any card come to: once, and nothing for percentages of nobody knows what."""
    running = peak = (0, 0, 0)
    for container in containers:
        together = running
        for ask in container.asks:
            together = added(together, (0, ask.nums * max(ask.memory, 0), ask.nums * min(max(ask.cores, 0), 100)))
        peak = larger(peak, together)
        if container.kind != "init":
            running = together
    return peak


# Ledger ------------------------------------------------------------------------------------------------------------


def ledger(case: Obj, names: Names, switch: Switches) -> dict[str, list[Card]]:
    """The cards of every node in the order registered, with what the existing pods use of them."""
    nodes = {node["metadata"]["name"]: node_cards(node, names, switch) for node in case["nodes"]}
    for pod in case["pods"]:
        where, charges, blanket = usage(pod, names, switch)
        if charges:
            _hold_placements(pod, charges, nodes.get(where, []), switch)
        for card in nodes.get(where, ()):
            charge = charges.get(card.uuid)
            if blanket and card.vendor == "NVIDIA":
                charge = on_any_card(blanket, card)
                card.healthy = card.healthy and card.mode != "mig"
            if charge:
                card.used += charge[0]
                card.used_memory += charge[1]
                card.used_cores += charge[2]
    return nodes


def _hold_placements(pod: Obj, charges: Mapping[str, Charge], cards: Sequence[Card], switch: Switches) -> None:
    """Note which placements a pod holds; a card about which anything is odd is out of service."""
    annotations = pod["metadata"].get("annotations") or {}
    listed = hami_mig.decode(annotations.get(MIG, "")) or []
    entries = [entry.uuid for container in decode_pod(annotations[ALLOCATED], switch) for entry in container]
    for card in cards:
        held = [entry.held for entry in listed if entry.uuid == card.uuid]
        numbers = entries.count(card.uuid)
        if 0 < len(held) < numbers and switch(Quirk.MIG_ENTRIES_JOINED):
            numbers = len(held)
        if (card.mode == "mig" and card.uuid in charges and len(held) < numbers) or (card.mode != "mig" and held):
            card.healthy = False
        if card.mode == "mig":
            if any(new.meets(old) for new in held for old in card.in_use) and not switch(Quirk.MIG_OVERLAP_IGNORED):
                card.healthy = False
            card.in_use += held
    if any(entry.uuid not in {card.uuid for card in cards} for entry in listed):
        for card in cards:
            card.healthy = card.healthy and card.mode != "mig"


def node_cards(node: Obj, names: Names, switch: Switches) -> list[Card]:
    annotations = node["metadata"].get("annotations") or {}
    try:
        devices = node_register(annotations, switch)
    except (Unreadable, Panic):
        return []
    if handshake_ended(node, names, NOW) and switch(Quirk.HANDSHAKE_HIDES_NODE):
        return []
    links = pair_scores(annotations.get("hami.io/node-nvidia-score", "[]"))
    cordoned = {uuid.strip() for uuid in annotations.get("hami.io/device-cordon", "").split(",")}
    return [
        Card(
            d["id"], "NVIDIA", d["type"], position, d["index"], d["numa"], d["mode"], d["health"],
            d["count"], d["devmem"], d["devcore"], d["id"] in cordoned, links.get(d["id"], {}),
            profiles=tuple(Profile.of(wire) for wire in d.get("migProfiles") or () if d["mode"] == "mig"),
        )
        for position, d in enumerate(devices)
    ]  # fmt: skip


def usage(pod: Obj, names: Names, switch: Switches) -> tuple[str, dict[str, Charge], list[Container] | None]:
    """Node, charge per UUID, and the claims that may sit on any card (``None`` where it is known where they sit)."""
    metadata, bound = pod["metadata"], pod["spec"].get("nodeName", "")
    annotations = metadata.get("annotations") or {}
    named = annotations.get(NODE, "")
    where = bound
    if named and named != bound and switch(Quirk.UNBOUND_COUNTED):
        where = named
    nothing: tuple[str, dict[str, Charge], list[Container] | None] = (where, {}, None)
    if not where or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return nothing
    if "deletionTimestamp" in metadata and switch(Quirk.TERMINATING_FORGOTTEN):
        return nothing
    wants = [_wants(resources, names) for _, _, resources in raw_containers(pod)]
    if not any(wants) and not switch(Quirk.UNASKED_COUNTED):
        return nothing
    if named == where and ALLOCATED in annotations:
        try:
            entries = decode_pod(annotations[ALLOCATED], switch)
            return where, charges(pod, entries, wants, switch), None
        except Unreadable:
            pass
    if switch(Quirk.UNREADABLE_IGNORED) or not _started(pod):
        return nothing
    return where, {}, claims_of_unreadable(pod, names, switch)


def _wants(resources: Obj, names: Names) -> bool:
    for where in ("limits", "requests"):
        if names.count in (resources.get(where) or {}):
            return str(resources[where][names.count]) not in ("", "0")
    return False


def _started(pod: Obj) -> bool:
    return bool(pod["status"].get("containerStatuses") or pod["status"].get("initContainerStatuses"))


def charges(pod: Obj, entries: list[list[Entry]], wants: list[bool], switch: Switches) -> dict[str, Charge]:
    """What a pod uses of each card."""
    kinds = [kind for _, kind, _ in raw_containers(pod)]
    aligned = aligned_entries(entries, wants)
    by_position = _padded(entries, len(wants))
    if aligned != by_position and switch(Quirk.ENTRIES_BY_POSITION):
        aligned = by_position
    if aligned is None:
        raise Unreadable("it does not match the containers")
    return collapse(kinds, aligned, switch)


def collapse(kinds: list[str], entries: list[list[Entry]], switch: Switches) -> dict[str, Charge]:
    """The larger of what init containers, one after the other, and of what all others together use of each card."""
    running: dict[str, Charge] = {}
    peak: dict[str, Charge] = {}
    for number, container in enumerate(entries):
        kind = kinds[number] if number < len(kinds) else "app"
        if kind == "sidecar" and switch(Quirk.SIDECAR_AS_INIT):
            kind = "init"
        together = dict(running)
        twice = len({entry.uuid for entry in container}) < len(container)
        apart = kind == "init" and twice and switch(Quirk.INIT_SLICES_NOT_ADDED)
        for entry in container:
            charge = (1, entry.memory, entry.cores)
            old = together.get(entry.uuid, (0, 0, 0))
            together[entry.uuid] = larger(old, charge) if apart else added(old, charge)
        for uuid, charge in together.items():
            peak[uuid] = larger(peak.get(uuid, (0, 0, 0)), charge)
        if kind != "init":
            running = together
    return peak


def added(left: Charge, right: Charge) -> Charge:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def larger(left: Charge, right: Charge) -> Charge:
    return max(left[0], right[0]), max(left[1], right[1]), max(left[2], right[2])


def _padded(entries: list[list[Entry]], length: int) -> list[list[Entry]]:
    """Entries by position: one per container, more only if they hold anything."""
    padded = entries + [[]] * (length - len(entries))
    while len(padded) > length and not padded[-1]:
        padded = padded[:-1]
    return padded


def aligned_entries(entries: list[list[Entry]], wants: list[bool]) -> list[list[Entry]] | None:
    """One entry per container; where one stands at a container that asks for nothing, or entries are missing, the
    n-th entry belongs to the n-th container that asks. None if there are too many, or none at all.
    """
    filled = [entry for entry in entries if entry]
    if not filled or len(filled) > sum(wants):
        return None
    padded = _padded(entries, len(wants))
    in_place = len(padded) == len(wants) and all(want for entry, want in zip(padded, wants, strict=True) if entry)
    if len(entries) >= len(wants) and in_place:
        return padded
    return [filled.pop(0) if want and filled else [] for want in wants]


def claims_of_unreadable(pod: Obj, names: Names, switch: Switches) -> list[Container]:
    """What such a pod may use of any card: its claims, or a whole card where those cannot be read either."""
    containers, refused = asks(pod, names, Switches(switch.on - {Quirk.BAD_QUANTITY_DROPPED}))
    if not refused:
        return containers
    whole = Ask("NVIDIA", 1, 0, 100, -1)
    return [
        Container(name, kind, (whole,) if _wants(resources, names) else ())
        for name, kind, resources in raw_containers(pod)
    ]


def on_any_card(containers: Sequence[Container], card: Card) -> Charge:
    """The charge on one card if all claims sat there."""
    running: Charge = (0, 0, 0)
    peak = running
    for container in containers:
        together = running
        for ask in container.asks:
            cores = card.cores if ask.cores < 0 else min(ask.cores, 100)
            together = added(together, (1, ask.memory_on(card), cores))
        peak = larger(peak, together)
        if container.kind != "init":
            running = together
    return peak
