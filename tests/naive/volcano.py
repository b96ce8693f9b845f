"""The naive twin of Volcano's vGPU placement on one node: from raw objects to an answer, in plain Python.

With every quirk on it says what Volcano says, with every quirk off what this scheduler says.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.naive.hami_quirks import Switches
from tests.naive.volcano_mig import Kind, Mig, PanicError, mig_of, split
from tests.naive.volcano_quirks import VolcanoQuirk

from vgpu_scheduler.kube import parse_quantity

Obj = dict[str, Any]

UNSET = 101
"""Volcano's mark for a percentage that was not given."""

TRUE = {"1", "t", "T", "TRUE", "true", "True"}

CORE, MIG = "hami-core", "mig"
REGISTER = "volcano.sh/node-vgpu-register"
ALLOCATED = "volcano.sh/vgpu-ids-new"
NODE = "volcano.sh/vgpu-node"


@dataclass(frozen=True)
class Names:
    count: str
    memory: str
    percent: str
    cores: str

    @classmethod
    def of(cls, case: Obj) -> Names:
        config = (case["args"]["deviceConfig"] or {}).get("nvidia") or {}
        return cls(
            config.get("resourceCountName", "volcano.sh/vgpu-number"),
            config.get("resourceMemoryName", "volcano.sh/vgpu-memory"),
            config.get("resourceMemoryPercentageName", ""),
            config.get("resourceCoreName", "volcano.sh/vgpu-cores"),
        )

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(name for name in (self.count, self.memory, self.percent, self.cores) if name)


@dataclass
class Card:
    uuid: str
    index: int
    number: int
    memory: int
    type: str
    healthy: bool
    used: int = 0
    used_memory: int = 0
    used_cores: int = 0
    pods: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Memory and cores by UID."""
    groups: dict[str, str] = field(default_factory=dict, compare=False)
    """The group of each of these pods."""
    explained: bool = True
    """Whether all that is on a card has a place on it; this scheduler gives nothing of one on which that is not so."""
    mode: str = "hami-core"
    mig: Mig | None = None
    """Of a card in MIG mode whose model is known."""

    def add(self, uid: str, memory: int, cores: int, group: str = "", booked: int | None = None) -> None:
        self.used += 1
        self.used_memory += memory if booked is None else booked
        self.used_cores += cores
        if uid:
            old = self.pods.get(uid, (0, 0))
            self.pods[uid] = (old[0] + memory, old[1] + cores)
            self.groups[uid] = group


@dataclass(frozen=True)
class Ask:
    """What a container asks; ``None`` in its place is a container that asks for nothing."""

    cards: int
    memory: int
    percent: int
    cores: int

    def memory_on(self, card: Card) -> int:
        return self.memory if self.percent == UNSET else card.memory * self.percent // 100


@dataclass
class Answer:
    """``kind`` is passed (nothing is asked), placed, unfit, refused, no-cards or panic."""

    kind: str
    before: list[Card] = field(default_factory=list)
    written: str = ""
    after: list[Card] = field(default_factory=list)
    replayed: list[Card] = field(default_factory=list)


def decide(case: Obj, switch: Switches) -> Answer:
    names = Names.of(case)
    cards = node_cards(case["node"], names, nvidia_of(case))
    if not cards:
        return Answer("no-cards")
    try:
        for pod in case["pods"]:
            charge(cards, pod, names, switch)
    except PanicError:
        return Answer("panic")
    asked = asks(case["pod"], names, switch)
    if asked is None:
        return Answer("refused", cards, after=cards)
    if not has_request(case["pod"], names, switch):
        return Answer("passed", cards, after=cards, replayed=cards)
    picks, after = place(cards, case["pod"], asked, case["args"]["schedulePolicy"], switch)
    if picks is None:
        return Answer("unfit", cards, after=after)
    written = encode(picks, switch)
    replayed = copy.deepcopy(cards)
    replay(replayed, case["pod"], entries(written), switch)
    return Answer("placed", cards, written, after, replayed)


# Nodes -------------------------------------------------------------------------------------------------------------


def nvidia_of(case: Obj) -> Obj:
    return (case["args"]["deviceConfig"] or {}).get("nvidia") or {}


def node_cards(node: Obj, names: Names, config: Obj) -> list[Card]:
    """The registered cards; none without allocatable cards, memory and cores, or when the list cannot be read."""
    allocatable = node["status"]["allocatable"]
    value = (node["metadata"].get("annotations") or {}).get(REGISTER, "")
    if any(not parse_quantity(allocatable.get(name, "0")) for name in (names.count, names.memory, names.cores)):
        return []
    items = [item.split(",") for item in value.split(":") if item]
    if ":" not in value or any(len(fields) < 6 for fields in items):
        return []
    cards = []
    for index, fields in enumerate(items):
        card = Card(fields[0], index, int(fields[1]), int(fields[2]), fields[3], fields[4] in TRUE)
        card.mode = MIG if fields[5] == MIG else CORE
        card.mig = mig_of(config, card.type) if card.mode == MIG else None
        cards.append(card)
    return cards


def mode_of(card: Card, cards: Sequence[Card], switch: Switches) -> str:
    """How a card is shared; for Volcano all are as the last one, and as others are if the model is not known."""
    if all(each.mode == CORE for each in cards):
        return CORE
    if switch(VolcanoQuirk.MIG_CARD_SHARED):
        return MIG if cards[-1].mig is not None else CORE
    return MIG if MIG in (card.mode, cards[-1].mode) else CORE


# Pods --------------------------------------------------------------------------------------------------------------


def limits(container: Obj) -> Obj:
    return (container.get("resources") or {}).get("limits") or {}


def given(container: Obj, name: str) -> str | None:
    """The limit, else the request."""
    found = limits(container).get(name)
    return found if found is not None else ((container.get("resources") or {}).get("requests") or {}).get(name)


def has_request(pod: Obj, names: Names, switch: Switches) -> bool:
    """Whether any regular container has a limit of cards or of memory, be it 0."""
    containers = [c for c in pod["spec"]["containers"] if names.count in limits(c) or names.memory in limits(c)]
    above_0 = any(str(limits(c).get(names.count, "1")) != "0" for c in containers)
    return above_0 or (bool(containers) and switch(VolcanoQuirk.NO_CARD_COUNTED))


def asks(pod: Obj, names: Names, switch: Switches) -> list[Ask | None] | None:
    """What each regular container asks; ``None`` when the pod is refused for it."""
    for container in pod["spec"].get("initContainers") or []:
        asked = any(given(container, name) is not None for name in names.all)
        if asked and not switch(VolcanoQuirk.INIT_CONTAINERS_IGNORED):
            return None
    found: list[Ask | None] = []
    for container in pod["spec"]["containers"]:
        limit = limits(container)
        if names.count not in limit and names.memory not in limit:
            amounts = [name for name in names.all if given(container, name) is not None]
            if amounts and not switch(VolcanoQuirk.AMOUNT_WITHOUT_CLAIM_DROPPED):
                return None
            found.append(None)
            continue
        ask = _ask(container, names, switch)
        if ask is None:
            return None
        found.append(ask)
    return found


def _ask(container: Obj, names: Names, switch: Switches) -> Ask | None:
    def integer(name: str, unset: int) -> int | None:
        text = given(container, name) if name else None
        if text is None:
            return unset
        value = parse_quantity(text)
        if value.denominator == 1:
            return int(value)
        return unset if switch(VolcanoQuirk.FRACTION_DROPPED) else None

    cards = integer(names.count, 0) if names.count in limits(container) else 1
    if cards == 0 and not switch(VolcanoQuirk.NO_CARD_COUNTED):
        return Ask(0, 0, 0, 0)
    percent, cores = integer(names.percent, UNSET), integer(names.cores, 0)
    wins = percent not in (None, UNSET) and not switch(VolcanoQuirk.FRACTION_DROPPED)
    memory = 0 if wins else integer(names.memory, 0)
    if cards is None or memory is None or percent is None or cores is None:
        return None
    stated = [given(container, names.percent)] if names.percent else []
    beyond = cores > 100 or (any(text is not None for text in stated) and not 0 < percent <= 100)
    if beyond and not switch(VolcanoQuirk.PERCENTAGE_NOT_CHECKED):
        return None
    if percent == UNSET and memory == 0:
        percent = 100
    return Ask(cards, memory, percent, cores)


# Placement ---------------------------------------------------------------------------------------------------------


def place(
    cards: Sequence[Card], pod: Obj, asked: Sequence[Ask | None], policy: str, switch: Switches
) -> tuple[list[list[str]] | None, list[Card]]:
    """The entry of each container, and the cards afterwards; no entries when it does not fit."""
    annotations, uid = pod["metadata"].get("annotations") or {}, pod["metadata"]["uid"]
    after = copy.deepcopy(list(cards))
    picks: list[list[str]] = []
    drift: dict[str, int] = {}

    def unfit() -> tuple[None, list[Card]]:
        left = copy.deepcopy(list(cards))
        for card in left:
            if drift.get(card.uuid) and switch(VolcanoQuirk.ROLLBACK_DRIFT):
                card.used_memory += drift[card.uuid]
        return None, left

    wanted = annotations.get("volcano.sh/vgpu-mode")
    if wanted is not None and wanted not in {mode_of(card, after, switch) for card in after}:
        return unfit()
    for ask in asked:
        picks.append([])
        if ask is None or (ask.cards == 0 and not switch(VolcanoQuirk.NO_CARD_COUNTED)):
            continue
        divided = any(card.mig for card in after) and not switch(VolcanoQuirk.ONE_INSTANCE_OF_A_CARD)
        if ask.cards > len(after) and not divided:
            return unfit()
        for card in tried(after, policy):
            mode = mode_of(card, after, switch)
            if wanted not in (None, mode) or (mode == MIG and card.mig is None):
                continue
            if not passes(card, ask, annotations, switch) or not is_apart(card, pod):
                continue
            memory = ask.memory_on(card)
            if mode == MIG and ask.cards:
                instances(card, ask, pod, picks[-1], drift, switch)
                if len(picks[-1]) == ask.cards:
                    break
                continue
            if ask.cards == 0:  # Volcano counts before it sees that no card is wanted
                found = None if card.mig is None else card.mig.choose(memory, switch)
                if card.mig is not None and found is not None:
                    memory = card.mig.memory(found[1])
                card.add("", memory, ask.cores)
                break
            card.add(uid, memory, ask.cores, group_of(pod))
            picks[-1].append(f"{card.uuid},NVIDIA,{memory},{ask.cores}:")
            if len(picks[-1]) == ask.cards:
                break
        if len(picks[-1]) < ask.cards:
            return unfit()
    return [own if ask is not None else None for own, ask in zip(picks, asked, strict=True)], after  # type: ignore[misc]


def instances(card: Card, ask: Ask, pod: Obj, picks: list[str], drift: dict[str, int], switch: Switches) -> None:
    """Add the instances of a card that a claim gets, and book them."""
    assert card.mig is not None
    asked = ask.memory_on(card)
    while len(picks) < ask.cards and (found := card.mig.choose(asked, switch)) is not None:
        number, kind, index = found
        memory = card.mig.memory(kind)
        told = asked if switch(VolcanoQuirk.INSTANCE_MEMORY_BY_PLACE) else memory
        card.add(pod["metadata"]["uid"], told, ask.cores, group_of(pod), booked=memory)
        name = f"{card.uuid}[{card.mig.groups[number][0]}-{kind.first + index}]"
        picks.append(f"{name},NVIDIA,{told},{ask.cores}:")
        drift[card.uuid] = drift.get(card.uuid, 0) + memory - asked
        if not switch(VolcanoQuirk.INSTANCE_GIVEN_TWICE):
            card.mig.take(number, kind, index)
        if switch(VolcanoQuirk.ONE_INSTANCE_OF_A_CARD):
            return


def tried(cards: Sequence[Card], policy: str) -> list[Card]:
    if policy == "binpack":
        return sorted(cards, key=lambda card: (-card.used_memory, card.index))
    if policy == "spread":
        return sorted(cards, key=lambda card: (card.used, card.index))
    return sorted(cards, key=lambda card: -card.index)


def passes(card: Card, ask: Ask, annotations: Obj, switch: Switches) -> bool:
    if not card.healthy and not switch(VolcanoQuirk.HEALTH_IGNORED):
        return False
    if not card.explained:
        return False
    if not uuid_passes(card, annotations) or not type_passes(card, annotations):
        return False
    if card.number <= card.used or card.memory - card.used_memory < ask.memory_on(card):
        return False
    if card.used_cores + ask.cores > 100 or (ask.cores == 100 and card.used > 0):
        return False
    return not (card.used_cores == 100 and ask.cores == 0)


def group_of(pod: Obj) -> str:
    annotations = pod["metadata"].get("annotations") or {}
    keys = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
    name = next((annotations[key] for key in keys if annotations.get(key)), "")
    return f"{pod['metadata']['namespace']}/{name}" if name else ""


def is_apart(card: Card, pod: Obj) -> bool:
    """Whether no other pod of its group is on the card, for a pod that wants to be spread within that."""
    metadata, group = pod["metadata"], group_of(pod)
    if not group or (metadata.get("annotations") or {}).get("volcano.sh/vgpu-podgroup-policy") != "spread":
        return True
    return all(uid == metadata["uid"] or other != group for uid, other in card.groups.items())


def uuid_passes(card: Card, annotations: Obj) -> bool:
    use, no_use = (
        [part.strip() for part in annotations.get(key, "").split(",") if part.strip()]
        for key in ("volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid")
    )
    return card.uuid not in no_use and (not use or card.uuid in use)


def type_passes(card: Card, annotations: Obj) -> bool:
    name = card.type.upper()
    if "NVIDIA" not in card.type:
        return False
    if "nvidia.com/use-gputype" in annotations:
        return any(part.upper() in name for part in annotations["nvidia.com/use-gputype"].split(","))
    if "nvidia.com/nouse-gputype" in annotations:
        return not any(part.upper() in name for part in annotations["nvidia.com/nouse-gputype"].split(","))
    return True


# Annotations -------------------------------------------------------------------------------------------------------


def encode(picks: Sequence[Sequence[str] | None], switch: Switches) -> str:
    """An entry per container; Volcano leaves out those of containers that ask for nothing."""
    if any(own is None for own in picks) and switch(VolcanoQuirk.NO_ENTRY_WITHOUT_CLAIM):
        picks = [own for own in picks if own is not None]
    return ";".join("".join(own or ()) for own in picks)


def entries(value: str) -> Iterator[tuple[str, int, int] | None]:
    """UUID, memory and cores of each card; ``None`` for one that cannot be read."""
    for text in value.replace(";", ":").split(":"):
        fields = text.split(",")
        if len(fields) == 1:
            continue
        readable = len(fields) >= 4 and all(number.isascii() and number.isdigit() for number in fields[2:4])
        yield (fields[0], int(fields[2]), int(fields[3])) if readable else None


def charge(cards: Sequence[Card], pod: Obj, names: Names, switch: Switches) -> None:
    """Count an existing pod by its annotation."""
    value = (pod["metadata"].get("annotations") or {}).get(ALLOCATED, "")
    claims = has_request(pod, names, Switches())
    found = list(entries(value))
    if not claims:
        if found and switch(VolcanoQuirk.COUNTED_WITHOUT_CLAIM):
            replay(cards, pod, found, switch)
        return
    assert all(found), f"the twin of this scheduler does not know pods without a readable allocation: {value!r}"
    replay(cards, pod, found, switch)


def replay(
    cards: Sequence[Card], pod: Obj, found: Sequence[tuple[str, int, int] | None] | Iterator[Any], switch: Switches
) -> None:
    """Count the entries of one pod. Volcano finds cards by a part of the UUID; where that matters it is a toss-up."""
    uid = pod["metadata"]["uid"]
    for entry in found:
        if entry is None:
            continue
        name, memory, cores = entry
        uuid, instance = split(name)
        for card in cards:
            if uuid != card.uuid or (uid in card.pods and switch(VolcanoQuirk.SECOND_ENTRY_NOT_REPLAYED)):
                continue
            if mode_of(card, cards, switch) == MIG and card.mig is not None:
                if switch(VolcanoQuirk.INSTANCE_MEMORY_BY_PLACE):
                    if instance is None and "[" in name:
                        continue
                    memory = by_place(card.mig, instance, switch)
                elif not has_place(card.mig, instance):
                    card.explained = False
            elif instance is not None and not switch(VolcanoQuirk.MIG_CARD_SHARED):
                card.explained = False
            card.add(uid, memory, cores, group_of(pod))


def by_place(mig: Mig, instance: tuple[str, int] | None, switch: Switches) -> int:
    """Take an instance; the memory of it."""
    found = None
    try:
        found = None if instance is None else mig.find(*instance)
    except PanicError:
        if switch(VolcanoQuirk.POSITION_PANICS):
            raise
    if found is None:
        return 0
    mig.take(*found)
    return mig.memory(found[1])


def has_place(mig: Mig, instance: tuple[str, int] | None) -> bool:
    """Take an instance; whether it is one that is free, of the group that the card follows."""
    if instance is None:
        return False
    name, position = instance
    numbers = [number for number, (group, _) in enumerate(mig.groups) if group == name]
    most = max(kinds[-1].first + kinds[-1].count for _, kinds in mig.groups)
    if not numbers or mig.group not in (-1, numbers[0]) or position >= most or position in mig.positions:
        return False
    try:
        found = mig.find(name, position)
    except PanicError:
        found = numbers[0], Kind(f"beyond-{position}", 0, 1, position), 0
    assert found is not None
    mig.take(*found)
    return True
