"""Namespace quotas in plain Python: everything that a pod would hold is added up anew for every question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.naive.hami_quirks import Quirk, Switches

Obj = Mapping[str, Any]


class Share(Protocol):
    """What a container gets of a card."""

    @property
    def vendor(self) -> str: ...
    @property
    def uuid(self) -> str: ...
    @property
    def memory(self) -> int: ...
    @property
    def cores(self) -> int: ...


@dataclass(frozen=True)
class Quota:
    """What a namespace may hold of a vendor's cards, ``None`` for any amount, and what it holds without the pod."""

    memory: int | None = None
    cores: int | None = None
    used_memory: int = 0
    used_cores: int = 0

    def admits(self, memory: int, cores: int) -> bool:
        if self.memory is not None and self.used_memory + memory > self.memory:
            return False
        return self.cores is None or self.used_cores + cores <= self.cores


class Tally:
    """What a pod holds, as container after container is placed."""

    def __init__(self, quotas: Mapping[str, Quota], inits: int, *, padded: bool, switch: Switches) -> None:
        self.quotas = quotas
        self.inits = inits
        self.padded = padded
        self.switch = switch
        self.kinds: list[str] = []
        self.shares: list[list[Share]] = []

    def begin(self, kind: str) -> None:
        """Go on to the next container."""
        self.kinds.append(kind)
        self.shares.append([])

    def give(self, shares: Iterable[Share]) -> None:
        """Give the container at hand something."""
        self.shares[-1] += shares

    def admits(self, vendor: str, more: Sequence[Share]) -> bool:
        """Whether the namespace is within its quota if the container at hand gets this, too."""
        if vendor not in self.quotas:
            return True
        kinds, shares = self.kinds, [*self.shares[:-1], [*self.shares[-1], *more]]
        if self.inits and kinds[-1] != "init" and self.switch(Quirk.QUOTA_INIT_OFFSET):
            # HAMi forgets the init containers by then, and takes the first others for them.
            shares = [s for kind, s in zip(kinds, shares, strict=True) if kind != "init" and (self.padded or s)]
            kinds = ["init" if number < self.inits else "app" for number in range(len(shares))]
        return self.quotas[vendor].admits(*total(vendor, kinds, shares))


NO_TALLY = Tally({}, 0, padded=False, switch=Switches())
"""Where nothing is limited."""


def total(vendor: str, kinds: Sequence[str], shares: Sequence[Sequence[Share]]) -> tuple[int, int]:
    """Memory and cores on all cards of a vendor together, of each card the most that is held at any time."""
    cards = {_card(share) for container in shares for share in container if share.vendor == vendor}
    memory = cores = 0
    for card in cards:
        running, peak = (0, 0), (0, 0)
        for kind, container in zip(kinds, shares, strict=True):
            own = [share for share in container if _card(share) == card]
            together = (running[0] + sum(s.memory for s in own), running[1] + sum(s.cores for s in own))
            peak = (max(peak[0], together[0]), max(peak[1], together[1]))
            if kind != "init":
                running = together
        memory, cores = memory + peak[0], cores + peak[1]
    return memory, cores


def _card(share: Share) -> str:
    return share.uuid.partition("[")[0]


def limits(quotas: Iterable[Obj], namespace: str, resource: str) -> int | None:
    """The limit of a resource in a namespace: the smallest. HAMi's would be the last, but no case has several."""
    found = []
    for quota in quotas:
        text = (quota["spec"].get("hard") or {}).get(f"limits.{resource}")
        if quota["metadata"]["namespace"] == namespace and text is not None:
            found.append(int(text.removesuffix("k")) * (1000 if text.endswith("k") else 1))
    return min(found, default=None)
