"""What usage by node, card, model, pod and namespace consists of: the rows of ``top``.

Memory is in MiB, compute in percent of a card.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

from vgpu_scheduler.engine import QuotaReport


@dataclass(frozen=True, slots=True)
class UsedAmount:
    """How much is used of an amount.

    Attributes
    ----------
    free
        What a pod can still get: what cards in service have left. An overcommitted card does not reduce what other
        cards have left.
    """

    used: int
    total: int
    free: int

    @classmethod
    @lru_cache(4096)
    def of_card(cls, used: int, total: int, *, in_service: bool) -> UsedAmount:
        """Return the usage of one card; cached, since many cards have equal amounts."""
        return cls(used, total, max(total - used, 0) if in_service else 0)

    def __add__(self, other: UsedAmount) -> UsedAmount:
        """Add the amounts of other cards."""
        return UsedAmount(self.used + other.used, self.total + other.total, self.free + other.free)

    @property
    def percent(self) -> int:
        """The used part, rounded down; 0 if the total is 0."""
        return 100 * self.used // self.total if self.total else 0

    def __str__(self) -> str:
        """Format as used/total."""
        return f"{self.used}/{self.total}"


@dataclass(frozen=True, slots=True)
class CardUsage:
    """Usage of one card.

    Attributes
    ----------
    vendor
        The vendor's name in the dialect.
    pods
        The pods that hold a part of the card, as ``namespace/name``.
    state
        ``ready``, ``unhealthy``, ``cordoned``, or ``plugin-silent`` if the node lists the card and its kubelet offers
        none of that vendor.
    node_status
        The status of the node, as ``kubectl get nodes`` shows it.
    """

    node: str
    card: str
    dialect: str
    vendor: str
    model: str
    mode: str
    numa: int
    memory: UsedAmount
    cores: UsedAmount
    slots: UsedAmount
    pods: tuple[str, ...]
    state: str
    node_status: str = ""

    @property
    def idle(self) -> bool:
        """Whether nothing of the card is used."""
        return not (self.memory.used or self.cores.used or self.slots.used)


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Usage of the cards of one node, or of all nodes.

    Attributes
    ----------
    status
        As ``kubectl get nodes`` shows it: ``Ready`` or ``NotReady``, and ``SchedulingDisabled`` if it is cordoned.
        Empty for all nodes.
    idle
        Cards in service of which nothing is used.
    fragmentation
        Percent of the free memory of cards in service that lies on partly used cards, where a pod that asks for whole
        cards cannot use it.
    """

    node: str
    cards: int
    idle: int
    memory: UsedAmount
    cores: UsedAmount
    slots: UsedAmount
    pods: int
    fragmentation: int
    status: str = ""


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Usage of the cards of one model in one dialect.

    Attributes
    ----------
    idle
        Cards in service of which nothing is used.
    unhealthy, cordoned, plugin_silent
        Cards out of service, by their state; see :class:`CardUsage`.
    free_memory, free_cores
        What is left of the cards in service.
    pods
        Number of pods that hold a part of a card.
    """

    model: str
    dialect: str
    cards: int
    idle: int
    unhealthy: int
    cordoned: int
    memory: UsedAmount
    free_memory: int
    cores: UsedAmount
    free_cores: int
    slots: UsedAmount
    pods: int
    plugin_silent: int = 0


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What one pod holds of cards.

    Attributes
    ----------
    cards
        The cards of which the pod holds a part.
    memory, cores
        Sums over these cards; None if the node, and so the card by which to convert compute to percent, is unknown.
    """

    namespace: str
    pod: str
    node: str
    cards: tuple[str, ...]
    memory: int
    cores: int | None


@dataclass(frozen=True, slots=True)
class NamespaceUsage:
    """What the pods of a namespace hold of cards, how many pods wait, and the status of its quotas of cards."""

    namespace: str
    pods: int
    waiting: int
    cards: int
    memory: int
    cores: int
    quotas: tuple[QuotaReport, ...] = ()


NO_AMOUNT: Final = UsedAmount(0, 0, 0)
PLUGIN_SILENT: Final = "plugin-silent"
"""The state of a card that its node lists, while the kubelet offers none of that vendor."""
Usage = CardUsage | NodeUsage | ModelUsage | PodUsage | NamespaceUsage


def as_json(row: Usage) -> dict[str, object]:
    """Return the fields of a row as plain values, for scripts."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(row).items()}
