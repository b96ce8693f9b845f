"""Cards as nodes register them, and a small catalogue of models."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

REGISTER = "hami.io/node-nvidia-register"
_NAMESPACE = uuid.UUID("5b0d9e4c-3f0a-4c55-9d0b-6c6f2f1a7e11")  # any constant: the same node gets the same cards


@dataclass(frozen=True, slots=True)
class CardModel:
    """A model: its name as a node registers it and its memory in MiB."""

    name: str
    memory: int


CATALOGUE = {
    "A100-80G": CardModel("NVIDIA A100-SXM4-80GB", 81920),
    "A100-40G": CardModel("NVIDIA A100-SXM4-40GB", 40960),
    "H100": CardModel("NVIDIA H100 80GB HBM3", 81559),
    "H200": CardModel("NVIDIA H200", 143771),
    "L40S": CardModel("NVIDIA L40S", 46068),
    "A10": CardModel("NVIDIA A10", 23028),
    "V100": CardModel("NVIDIA-Tesla V100-PCIE-32GB", 32768),
    "T4": CardModel("NVIDIA-Tesla T4", 15360),
}


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A MIG profile: MiB, percent of compute, compute slices, possible starts, and the number of slices taken."""

    name: str
    memory: int
    cores: int
    slices: int
    starts: tuple[int, ...]
    size: int


A100_PROFILES = (
    MigProfile("1g.5gb", 4864, 15, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    MigProfile("2g.10gb", 9856, 29, 2, (0, 2, 4), 2),
    MigProfile("3g.20gb", 19968, 43, 3, (0, 4), 4),
    MigProfile("7g.40gb", 40192, 100, 7, (0,), 8),
)
"""The MIG profiles of an A100 with 40 GB."""


@dataclass(frozen=True, slots=True)
class Card:
    """One card: ``count`` sharers, ``memory`` in MiB, ``cores`` in percent, MIG profiles in MIG mode."""

    uuid: str
    index: int
    count: int
    memory: int
    cores: int
    model: str
    numa: int = 0
    mode: str = "hami-core"
    healthy: bool = True
    profiles: tuple[MigProfile, ...] = ()


def equip(
    node: str, models: Sequence[str], *, count: int = 10, numa_domains: int = 2, mode: str = "hami-core"
) -> list[Card]:
    """Return the cards of a node, one per model (a key of :data:`CATALOGUE`), spread over the NUMA domains in blocks.

    The UUIDs are a function of the node's name and the index.
    """
    cards = []
    for index, key in enumerate(models):
        model = CATALOGUE[key]
        identity = f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"
        numa = index * numa_domains // len(models) if numa_domains else 0
        cards.append(Card(identity, index, count, model.memory, 100, model.name, numa, mode))
    return cards


def registration(cards: Iterable[Card]) -> str:
    """Return the value of the annotation, with the plugin's order of keys and without keys whose value is zero."""
    return json.dumps([_registered(card) for card in cards], separators=(",", ":"))


def _registered(card: Card) -> dict[str, Any]:
    full = {
        "id": card.uuid,
        "index": card.index,
        "count": card.count,
        "devmem": card.memory,
        "devcore": card.cores,
        "type": card.model,
        "numa": card.numa,
        "mode": card.mode,
        "migProfiles": [_profile(profile) for profile in card.profiles],
        "health": card.healthy,
    }
    return {key: value for key, value in full.items() if value}


def _profile(profile: MigProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory,
        "core": profile.cores,
        "sliceCount": profile.slices,
        "placements": [{"start": start, "size": profile.size} for start in profile.starts],
    }
