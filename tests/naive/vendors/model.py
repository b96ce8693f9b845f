"""Devices of any vendor, what a pod takes of them, and what a vendor's rules get to see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.naive.hami_quirks import Switches
from tests.naive.hami_values import Card, Rules, Weights

Obj = dict[str, Any]

LOST = "lost"
"""A field of the pods that hold devices: the vendors of which nobody can tell which devices they hold."""

MOST_WAYS = 1000
"""How many of the outcomes are looked at that a map of HAMi's may lead to."""


@dataclass
class Device(Card):
    """A card with what only some vendors tell of it."""

    custom: Obj = field(default_factory=dict)


@dataclass(frozen=True)
class Taken:
    """What one container gets of one device."""

    device: Device
    type: str  # as the annotation says it
    memory: int
    cores: int
    slots: int = 1
    note: Any = None


@dataclass
class View:
    """What the rules of a vendor may look at beside the devices: the pod, the node, and what the pod took so far."""

    annotations: Mapping[str, str]
    policy: str
    weights: Weights
    switch: Switches
    rules: Rules = field(default_factory=Rules)
    node: Obj = field(default_factory=dict)
    spread: bool = False
    neighbours: Sequence[Obj] = ()
    """The pods that hold devices of the node."""
    devices: Sequence[Device] = ()
    """All devices of the vendor on the node."""
    quota: Any = None
    """What the namespace may still use of the vendor, where that is checked."""
    earlier: Sequence[Sequence[Taken]] = ()
    """What earlier containers, which run along, took of this vendor."""

    def listed(self, key: str) -> tuple[str, ...]:
        """Read a comma-separated list from the pod's annotations."""
        return tuple(item.strip() for item in self.annotations.get(key, "").split(",") if item.strip())

    def true(self, key: str) -> bool:
        return self.annotations.get(key) in {"1", "t", "T", "true", "True", "TRUE"}


@dataclass
class Choice:
    """What a claim gets of a node, or why nothing.

    Where HAMi goes through a map there are several ways; the first is the one that this scheduler goes.
    """

    ways: list[list[Taken]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    of: int | None = None
    """What the reasons are counted against, if not against all devices of the vendor."""


class Ways:
    """Which way to go at each choice: a list of numbers, continued with zeros; all of them one after the other."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.most: list[int] = []
        self.at = 0

    def __call__(self, number: int) -> int:
        if self.at == len(self.taken):
            self.taken.append(0)
            self.most.append(number)
        self.at += 1
        return self.taken[self.at - 1]

    def another(self) -> bool:
        """Go on to the next list; False if there is none."""
        self.at = 0
        while self.taken:
            if self.taken[-1] + 1 < self.most[-1]:
                self.taken[-1] += 1
                return True
            self.taken.pop()
            self.most.pop()
        return False


def go_int32(value: int) -> int:
    """What is left of an integer in 32 bits."""
    return (value + 2**31) % 2**32 - 2**31
