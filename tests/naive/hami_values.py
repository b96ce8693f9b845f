"""Cards, what pods ask of them, and what they get, in plain Python; HAMi's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.naive.hami_mig import Held, Profile
from tests.naive.hami_quota import Quota

UNSET = 101
"""HAMi's mark for a percentage that was not given."""

Weights = tuple[int, int, int]
"""Of slots, cores and memory."""


@dataclass
class Card:
    uuid: str
    vendor: str
    type: str
    position: int
    index: int
    numa: int
    mode: str
    healthy: bool
    count: int
    memory: int
    cores: int
    cordoned: bool = False
    links: dict[str, int] = field(default_factory=dict)
    used: int = 0
    used_memory: int = 0
    used_cores: int = 0
    profiles: tuple[Profile, ...] = ()
    in_use: list[Held] = field(default_factory=list)
    templates: tuple[tuple[int, ...], ...] = ()

    def copy(self) -> Card:
        return replace(self, in_use=list(self.in_use))


@dataclass(frozen=True)
class Ask:
    """What one container asks of one vendor; HAMi's numbers: percent 101 is unset."""

    vendor: str
    nums: int
    memory: int = 0
    percent: int = UNSET
    cores: int = 0

    def memory_on(self, card: Card) -> int:
        if self.memory > 0:
            return self.memory
        return 0 if self.percent == UNSET else card.memory * self.percent // 100


@dataclass(frozen=True)
class Container:
    name: str
    kind: str  # init, sidecar or app
    asks: tuple[Ask, ...] = ()


@dataclass(frozen=True)
class Rules:
    use_types: tuple[str, ...] = ()
    no_use_types: tuple[str, ...] = ()
    use_uuids: tuple[str, ...] = ()
    no_use_uuids: tuple[str, ...] = ()
    mode: str | None = None
    numa_bind: bool = False

    @classmethod
    def of(cls, annotations: dict[str, str]) -> Rules:
        def listed(key: str) -> tuple[str, ...]:
            return tuple(item.strip() for item in annotations.get(key, "").split(",") if item.strip())

        return cls(
            listed("nvidia.com/use-gputype"),
            listed("nvidia.com/nouse-gputype"),
            listed("nvidia.com/use-gpuuuid"),
            listed("nvidia.com/nouse-gpuuuid"),
            annotations.get("nvidia.com/vgpu-mode"),
            annotations.get("nvidia.com/numa-bind") in {"1", "t", "T", "true", "True", "TRUE"},
        )

    def type_fits(self, card: Card) -> bool:
        if card.vendor != "NVIDIA":
            return True
        name = card.type.upper()
        if self.use_types and not any(part.upper() in name for part in self.use_types):
            return False
        if any(part.upper() in name for part in self.no_use_types):
            return False
        return self.mode is None or card.mode in self.mode

    def uuid_fits(self, card: Card) -> bool:
        if card.vendor != "NVIDIA":
            return True
        return (not self.use_uuids or card.uuid in self.use_uuids) and card.uuid not in self.no_use_uuids


@dataclass(frozen=True)
class Limits:
    """What policies forbid; HAMi has none of it."""

    allow: tuple[tuple[str, ...], ...] = ()
    deny: tuple[str, ...] = ()
    modes: tuple[tuple[str, ...], ...] = ()
    most_memory: int | None = None
    exclusive: bool = False

    def forbid(self, card: Card) -> bool:
        name = card.type.upper()
        if any(part.upper() in name for part in self.deny):
            return True
        if any(not any(part.upper() in name for part in one) for one in self.allow):
            return True
        if card.mode and any(card.mode not in one for one in self.modes):
            return True
        if self.most_memory is not None and card.memory > self.most_memory:
            return True
        return self.exclusive and (card.cores != 100 or card.mode == "mig")


@dataclass(frozen=True)
class Pick:
    vendor: str
    uuid: str
    memory: int
    cores: int
    held: Held | None = None


def words(policy: str) -> list[str]:
    return [word.strip() for word in policy.split(",")]


@dataclass(frozen=True)
class Wish:
    """Everything about a pod that matters on a node."""

    containers: tuple[Container, ...]
    rules: Rules = Rules()
    policy: str = "spread"
    numa_first: bool = False
    weights: Weights = (1, 1, 1)
    limits: Limits = Limits()
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    near: bool = False
    """A policy prefers cards that are close to each other."""

    @property
    def topology(self) -> bool:
        return self.near or "topology-aware" in words(self.policy)


@dataclass
class NodeFit:
    fits: bool = True
    picks: list[list[Pick]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    choice: int = 0
    """Cards that the claim which did not fit could choose from."""

    @property
    def text(self) -> str:
        """The node's reason as HAMi words it."""
        if "NodeInsufficientDevice" in self.counts:
            return "NodeInsufficientDevice"
        return ", ".join(sorted(f"{count}/{self.choice} {reason}" for reason, count in self.counts.items() if count))
