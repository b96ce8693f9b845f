"""The naive twin of Volcano's MIG cards: groups of instances, which one a claim gets, and what is booked for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.naive.hami_quirks import Switches
from tests.naive.volcano_quirks import VolcanoQuirk

Obj = dict[str, Any]
_INSTANCE = re.compile(r"(.*)\[([^\[\]]*)-([0-9]+)\]")


class PanicError(Exception):
    """Volcano breaks."""


@dataclass(frozen=True)
class Kind:
    """Instances of one size of a group; ``first`` is the position of the first one."""

    name: str
    memory: int
    count: int
    first: int


@dataclass
class Mig:
    """A card in MIG mode.

    ``groups`` are its names with their kinds of instances; ``group`` is the number of the one it follows, -1 if none;
    ``usage`` has the indexes in use of the kinds in use, by name.
    """

    groups: list[tuple[str, list[Kind]]]
    factor: int
    group: int = -1
    usage: dict[str, list[int]] = field(default_factory=dict)
    explained: bool = True
    """Whether all that is on the card has a place on it; this scheduler gives nothing else of one that is not."""

    def memory(self, kind: Kind) -> int:
        return kind.memory // self.factor

    def choose(self, asked: int, switch: Switches) -> tuple[int, Kind, int] | None:
        """The group, the kind and the index within it that a claim of so many blocks gets."""
        for number, (_, kinds) in enumerate(self.groups):
            if self.group not in (-1, number):
                continue
            for kind in sorted(kinds, key=lambda kind: kind.memory):
                if kind.memory < asked * self.factor:
                    continue
                if self.usage and kind.name not in self.usage and switch(VolcanoQuirk.ONLY_KINDS_IN_USE):
                    continue
                free = [index for index in range(kind.count) if index not in self.usage.get(kind.name, [])]
                if free:
                    return number, kind, free[0]
        return None

    def take(self, number: int, kind: Kind, index: int) -> None:
        if number != self.group:
            self.group, self.usage = number, {}
        self.usage.setdefault(kind.name, []).append(index)
        self.usage[kind.name].sort()

    def find(self, group: str, position: int) -> tuple[int, Kind, int] | None:
        """What a name stands for; None if there is no such group."""
        for number, (name, kinds) in enumerate(self.groups):
            if name == group:
                for kind in kinds:
                    if kind.first <= position < kind.first + kind.count:
                        return number, kind, position - kind.first
                raise PanicError
        return None

    def give_back(self, number: int, kind: Kind, index: int, switch: Switches) -> bool:
        """Free an instance; tell whether it was in use."""
        if switch(VolcanoQuirk.GROUP_KEPT):
            self.group = number
        indexes = self.usage.get(kind.name, [])
        if index not in indexes:
            return False
        indexes.remove(index)
        if not indexes:
            del self.usage[kind.name]
        if not self.usage and not switch(VolcanoQuirk.GROUP_KEPT):
            self.group = -1
        return True

    @property
    def positions(self) -> list[int]:
        """All positions in use."""
        kinds = self.groups[self.group][1] if self.group >= 0 else []
        return sorted(kind.first + index for kind in kinds for index in self.usage.get(kind.name, []))

    def as_vector(self) -> Obj:
        kinds = self.groups[self.group][1] if self.group >= 0 else []
        return {
            "group": self.group,
            "usage": [
                {"memory": kind.memory, "name": kind.name, "usedIndex": self.usage[kind.name]}
                for kind in kinds
                if kind.name in self.usage
            ],
        }


def mig_of(config: Obj, model: str) -> Mig | None:
    """The groups of a model; None if it is not known."""
    for entry in config.get("knownMigGeometries") or []:
        if any(part in model for part in entry["models"]):
            groups = []
            for group in entry["allowedGeometries"]:
                kinds: list[Kind] = []
                for kind in group["geometries"]:
                    first = sum(known.count for known in kinds)
                    kinds.append(Kind(kind["name"], kind["memory"], kind["count"], first))
                groups.append((group["group"], kinds))
            return Mig(groups, config.get("gpuMemoryFactor", 1) or 1)
    return None


def split(name: str) -> tuple[str, tuple[str, int] | None]:
    """The card that an entry names, and group and position of an instance."""
    found = _INSTANCE.fullmatch(name)
    return (name.partition("[")[0], None) if found is None else (found[1], (found[2], int(found[3])))
