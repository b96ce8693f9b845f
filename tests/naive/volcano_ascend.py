"""What Volcano does with Ascend cards that HAMi's plugin registers, in plain Python.

Volcano looks at the cards of a node in an order that starts anywhere, so several outcomes are its answer. The twin
tells whether an outcome is one of them, with some of the quirks on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.naive.go_quantity import as_int64
from tests.naive.hami_quirks import Switches
from tests.naive.volcano_quirks import VolcanoQuirk

Obj = dict[str, Any]
Part = tuple[str, int, str]
"""A card that a container gets: its id, how much memory of it, and the template; empty for the whole card."""
Parts = list[list[Part]]
"""Those of each container that asks for any."""

FEW, SEVERAL = "no enough ascend device available", "vNPU does not support partial memory allocation"
"""Why Volcano refuses a pod, as its messages say it."""


@dataclass
class Card:
    """A card of the node, and what pods have of it."""

    id: str
    slots: int
    memory: int
    healthy: bool
    used: int = 0
    used_memory: int = 0


@dataclass
class World:
    """A case as Volcano reads it."""

    case: Obj
    switch: Switches
    chip: Obj = field(init=False)
    cards: list[Card] = field(init=False)

    def __post_init__(self) -> None:
        (self.chip,) = self.case["args"]["deviceConfig"]["vnpus"]["configs"]
        self.cards = self._cards()

    @property
    def word(self) -> str:
        return str(self.chip["commonWord"])

    def _cards(self) -> list[Card]:
        listed = json.loads(self.case["node"]["metadata"]["annotations"][f"hami.io/node-register-{self.word}"])
        cards = {each["id"]: Card(each["id"], each["count"], each["devmem"], each["health"]) for each in listed}
        for pod in self.case["pods"]:
            self._charge(cards, pod["metadata"]["annotations"][f"hami.io/{self.word}-devices-allocated"])
        return list(cards.values())

    def charge(self, text: str) -> None:
        """Charge the cards with what an annotation says that a pod has."""
        self._charge({card.id: card for card in self.cards}, text)

    def _charge(self, cards: dict[str, Card], text: str) -> None:
        whole = not self.switch(VolcanoQuirk.ASCEND_FIRST_CARD_FORGOTTEN)
        for entry in (text.replace(";", "") if whole else text).split(":"):
            identity, _, rest = entry.partition(",")
            if identity in cards:
                cards[identity].used += 1
                cards[identity].used_memory += int(rest.split(",")[1])

    def asks(self) -> list[tuple[int, int, str]]:
        """How many cards each container asks for, how much memory of each, and the template that this is."""
        found = []
        for container in self.case["pod"]["spec"]["containers"]:
            limits = container["resources"]["limits"]
            count, memory = limits.get(self.chip["resourceName"]), limits.get(self.chip["resourceMemoryName"])
            if count is not None:
                found.append((int(count), *self._rounded(None if memory is None else as_int64(memory))))
        return found

    def _rounded(self, memory: int | None) -> tuple[int, str]:
        templates = sorted((each["memory"], each["name"]) for each in self.chip["templates"])
        whole = self.chip["memoryAllocatable"]
        if memory is None:
            return whole, ""
        if memory > self.chip["memoryCapacity"] and self.switch(VolcanoQuirk.ASCEND_BEYOND_A_CARD):
            return 0, templates[0][1]
        if memory > self.chip["memoryCapacity"]:
            return memory, ""
        return next(((size, name) for size, name in templates if size >= memory), (whole, ""))

    def fits(self, card: Card, memory: int, taken: Parts) -> bool:
        """Whether a card has room for a part, beside what containers before have taken."""
        mine = [part for container in taken for part in container if part[0] == card.id]
        if mine and self.switch(VolcanoQuirk.ASCEND_CONTAINERS_APART):
            return False
        if not card.healthy and not self.switch(VolcanoQuirk.ASCEND_HEALTH_IGNORED):
            return False
        if not self._allowed(card) and not self.switch(VolcanoQuirk.ASCEND_IDS_IGNORED):
            return False
        left = card.memory - card.used_memory - sum(part[1] for part in mine)
        return left >= memory and card.used + len(mine) < card.slots

    def _allowed(self, card: Card) -> bool:
        given = self.case["pod"]["metadata"].get("annotations") or {}
        only, never = (given.get(f"hami.io/{way}-{self.word}-uuid", "") for way in ("use", "no-use"))
        return (not only or card.id in only.split(",")) and card.id not in never.split(",")


def outcomes(case: Obj, switch: Switches) -> Iterator[Parts | str]:
    """Yield Volcano's answers, one for each card that it may look at first: the parts, or why it refuses the pod."""
    world = World(case, switch)
    for start in range(len(world.cards)):
        yield _from(world, world.cards[start:] + world.cards[:start])


def _from(world: World, ring: list[Card]) -> Parts | str:
    way = {"binpack": -1, "spread": 1}.get(world.case["args"]["schedulePolicy"], 0)
    taken: Parts = []
    for count, memory, template in world.asks():
        if count > 1 and template and world.switch(VolcanoQuirk.ASCEND_SEVERAL_PARTS):
            return SEVERAL
        fitting = [card for card in ring if world.fits(card, memory, taken)]
        if len(fitting) < count:
            return FEW
        fitting.sort(key=lambda card: way * card.used_memory)
        taken.append([(card.id, memory, template) for card in fitting[:count]])
    return taken


def allows(case: Obj, answer: Parts | None, switch: Switches) -> bool:
    """Tell whether an answer is one of Volcano's, with these quirks on; None refuses the pod."""
    if switch(VolcanoQuirk.ASCEND_RING):
        found = list(outcomes(case, switch))
        return any(isinstance(each, str) for each in found) if answer is None else answer in found
    world = World(case, switch)
    if answer is None:
        return any(isinstance(each, str) for each in outcomes(case, switch))
    taken: Parts = []
    for (count, memory, template), parts in zip(world.asks(), answer, strict=True):
        several = count > 1 and template and switch(VolcanoQuirk.ASCEND_SEVERAL_PARTS)
        cards = [card for card in world.cards if world.fits(card, memory, taken)]
        if several or {part[0] for part in parts} - {card.id for card in cards} or len(parts) != count:
            return False
        if any(part[1:] != (memory, template) for part in parts):
            return False
        taken.append(parts)
    return True
