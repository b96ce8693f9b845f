"""Learns card prices from the requests of bound pods.

Sums are over integers, or over floats in the order of names, so that the same pods on the same nodes give the same
prices, in whatever order they were observed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import (
    CORES,
    MEMORY,
    PERCENT,
    SLOTS,
    CardPrices,
    DeviceColumns,
    price_scratch,
    price_shares,
)
from vgpu_scheduler.kube import CPU
from vgpu_scheduler.model import ContainerType, PodClaims
from vgpu_scheduler.state import DeviceMatrix, NodeTable

LEAST_SEEN: Final = 64
"""Minimum number of bound pods with claims on a vendor's cards before these get prices."""
BESIDE: Final = 0.08
"""Weight of the free parts of a pod's cards when there are prices; it limits partly used cards as pods come and go."""
STRANDING: Final = 0.2
"""Weight of cards stranded without cpu when there are prices."""
MOST_CONTENDED: Final = 2.0
"""Upper limit of the contention cost of a card, in cards."""
IN_DEMAND: Final = 50
"""Idle cards are kept together for multi-card pods once this percentage of all cards is in use."""
RESERVE: Final = 1.5
"""Weight of idle cards that multi-card pods could no longer use."""
ROUNDS: Final = 400
"""Number of price updates; the result is within 1 percent of the exact prices for the openb production traces."""
_MOST_SIZES: Final = 32
"""Maximum number of multi-card pod sizes: those that request the most cards are kept."""
_MOST_CARDS: Final = 64
_MOST_AMOUNT: Final = 1 << 40
_PARTS: Final = 1 << 24
"""The demand of a pod is divided among the cards that it may use, in integer parts; a pod has this many."""
_DIMENSIONS: Final = (MEMORY, CORES)


@dataclass(frozen=True, slots=True, eq=False)
class RequestClass:
    """Pods with the same request.

    Attributes
    ----------
    claims
        The device claims of each pod.
    cpu
        The cpu request of each pod, milli.
    pods
        The number of pods.
    reach
        The number of cards of each model that they may use, by the models' numbers; shape (models,).
    """

    claims: PodClaims
    cpu: int
    pods: int
    reach: NDArray[np.int64]


def learn_prices(devices: DeviceMatrix, nodes: NodeTable, asked: Sequence[RequestClass]) -> CardPrices | None:
    """Return the prices of a dialect's cards, or None if too few pods claim them.

    Parameters
    ----------
    devices
        The cards, with their usage.
    nodes
        The nodes of the cards.
    asked
        The requests of bound and assumed pods.
    """
    fleet = _Fleet(devices, nodes)
    found = [
        mix
        for vendor in sorted({name for name, _, _ in devices.models})
        if (mix := _Mix(vendor, fleet, asked)).pods >= LEAST_SEEN and fleet.cards[mix.models].any()
    ]
    if not found:
        return None
    sizes = [(mix, *size) for mix in found for size in mix.sizes()]
    prices = _without_knowledge(len(devices.models), len(sizes))
    solved: dict[bytes, tuple[NDArray[np.float64], float]] = {}
    for mix in found:
        models = mix.models
        prices.known[models] = True
        prices.beside[models], prices.stranding[models] = BESIDE, STRANDING
        prices.per_card[models] = mix.cpu_per_card
        prices.contended[models] = mix.contended()
        for model in models.tolist():
            _price_model(prices, model, mix, solved)
    for number, (mix, cards, cpu) in enumerate(sizes):
        prices.cards[number], prices.cpu[number] = cards, cpu
        prices.reserve[mix.models, number] = mix.reserve(cards, cpu)
    return prices


def same_prices(one: CardPrices | None, other: CardPrices | None) -> bool:
    """Tell whether two sets of prices are equal."""
    if one is None or other is None:
        return one is other
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def _without_knowledge(models: int, sizes: int) -> CardPrices:
    """Return the prices used before anything was learned: a card is worth its free part."""
    linear = np.arange(PERCENT + 1) / PERCENT
    return CardPrices(
        known=np.zeros(models, dtype=np.bool_),
        worth=np.tile(linear, (models, 2, 1)),
        dearest=np.ones(models),
        beside=np.ones(models),
        stranding=np.ones(models),
        per_card=np.zeros(models),
        contended=np.zeros(models),
        cards=np.zeros(sizes, dtype=np.int64),
        cpu=np.zeros(sizes, dtype=np.int64),
        reserve=np.zeros((models, sizes)),
    )


class _Fleet:
    """The cards in service, summed up by model and by node.

    Parameters
    ----------
    devices, nodes
        The cards, and the nodes that they are on.
    """

    def __init__(self, devices: DeviceMatrix, nodes: NodeTable) -> None:
        self.names = devices.models
        columns, count = devices.columns, len(devices.models)
        numbers, self._row_of = devices.listed_numbers()
        usable = columns.in_service(numbers)
        numbers, self._row_of = numbers[usable], self._row_of[usable]
        self._model = columns.model[numbers]
        self._left = _percent_left(columns, numbers)
        self.cards = np.bincount(self._model, minlength=count)
        self.left = np.bincount(self._model, self._left, minlength=count).astype(np.int64)  # exact: far below 2**53
        self.total = np.zeros((count, devices.dimensions), dtype=np.int64)
        for model in np.flatnonzero(self.cards).tolist():
            self.total[model] = columns.total[numbers[self._model == model]].max(axis=0)
        column = nodes.resources.columns[CPU]
        self._cpu = nodes.allocatable.T[column] - nodes.used.T[column]

    def room(self, models: NDArray[np.int64], cards: int, cpu: int) -> int:
        """Return how many idle cards pods with a number of cards and a cpu request could use on all nodes."""
        idle = (self._left == PERCENT) & np.isin(self._model, models)
        by_row = np.bincount(self._row_of[idle], minlength=self._cpu.shape[0])
        fits = by_row[self._cpu[: by_row.shape[0]] >= cpu]
        return int((fits // cards).sum()) * cards


def _percent_left(columns: DeviceColumns, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the free part of cards in whole percent: the least over their dimensions, 0 without a free slot."""
    left = np.full(numbers.shape[0], PERCENT, dtype=np.int64)
    total, used = columns.total[numbers], columns.used[numbers]
    for dimension in _DIMENSIONS:
        has = total[:, dimension] > 0
        free = np.maximum(total[:, dimension] - used[:, dimension], 0) * PERCENT // np.maximum(total[:, dimension], 1)
        left = np.where(has, np.minimum(left, free), left)
    left[total[:, SLOTS] <= used[:, SLOTS]] = 0
    return left


class _Mix:
    """The demand for one vendor's cards.

    Parameters
    ----------
    vendor
        The vendor.
    fleet
        The cards.
    asked
        The requests of pods, for all vendors.
    """

    def __init__(self, vendor: str, fleet: _Fleet, asked: Sequence[RequestClass]) -> None:
        self._fleet = fleet
        self._named = [model for model, (of_vendor, _, _) in enumerate(fleet.names) if of_vendor == vendor]
        self.models = np.array(self._named, dtype=np.int64)
        can = np.array([pods.reach for pods in asked], dtype=np.int64).reshape(len(asked), len(fleet.names))
        some = can[:, self.models].sum(axis=1)
        self._asked = [
            (asked[number], claims)
            for number in np.flatnonzero(some).tolist()
            if (claims := list(_running_claims(asked[number].claims, vendor)))
        ]
        self.pods = sum(pods.pods for pods, _ in self._asked)
        self._claimed = [(pods, *claim) for pods, claims in self._asked for claim in claims]
        self._amounts = np.array([amounts for _, _, amounts, _ in self._claimed], dtype=np.int64).reshape(-1, 3)
        self._percent = np.array([percent for _, _, _, percent in self._claimed], dtype=np.int64).reshape(-1, 3)
        self._wanted = np.array([pods.pods * wanted for pods, wanted, _, _ in self._claimed], dtype=np.int64)
        reach = np.array([pods.reach for pods, _, _, _ in self._claimed], dtype=np.int64)
        self._reach = reach.reshape(len(self._claimed), len(fleet.names))
        together = np.maximum(self._reach[:, self.models].sum(axis=1), 1)
        self._parts = self._wanted * (_PARTS // together)
        shares = np.stack([self.shares(model).max(axis=1, initial=0) for model in self._named], axis=1)
        self._cards = self._wanted * ((shares * self._reach[:, self.models]).sum(axis=1) // together)
        self._demand = max(int(self._cards.sum()), 1)
        self._left = int(fleet.left[self.models].sum())
        self._whole = self._whole_cards(shares >= PERCENT)

    def shares(self, model: int) -> NDArray[np.int64]:
        """Return the memory and cores of each claim in whole percent of a card of a model; shape (claims, 2)."""
        found = np.zeros((len(self._claimed), 2), dtype=np.int64)
        for number, dimension in enumerate(_DIMENSIONS):
            total = int(self._fleet.total[model, dimension])
            amounts = self._amounts[:, dimension]
            share = -(-amounts * PERCENT // max(total, 1)) if total else np.zeros_like(amounts)
            found[:, number] = np.where(amounts > 0, share, self._percent[:, dimension])
        return np.clip(found, 0, PERCENT)

    def parts(self, model: int) -> NDArray[np.int64]:
        """Return the part of each claim's demand that falls on a model; shape (claims,)."""
        return np.where(self._reach[:, model] > 0, self._parts, 0)

    @property
    def cpu_per_card(self) -> float:
        """The cpu that pods request for each card, milli."""
        return PERCENT * sum(pods.cpu * pods.pods for pods, _ in self._asked) / self._demand

    def contended(self) -> NDArray[np.float64]:
        """Return the contention cost of a card by model, caused by pods that can use only some models.

        It is the fraction of the demand that is restricted to these models, divided by their fraction of the free
        cards: 1 if both are equal.
        """
        there = [model for model in self._named if self._fleet.cards[model]]
        pinned: dict[tuple[int, ...], int] = defaultdict(int)
        for reach, cards in zip(self._reach, self._cards.tolist(), strict=True):
            models = tuple(model for model in there if reach[model])
            if len(models) < len(there):
                pinned[models] += cards
        found = np.zeros(len(self._named))
        by_name = sorted(pinned, key=lambda models: sorted(self._fleet.names[model] for model in models))
        for models in by_name:
            left = max(int(self._fleet.left[list(models)].sum()), 1)
            found[np.isin(self.models, models)] += pinned[models] / self._demand * (self._left / left)
        return np.minimum(found, MOST_CONTENDED)

    def _whole_cards(self, whole: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many whole cards of each model each request class asks for, 0 if it cannot use the model."""
        found = np.zeros((len(self._asked), len(self._named)), dtype=np.int64)
        kinds = np.repeat(np.arange(len(self._asked)), [len(claims) for _, claims in self._asked])
        wanted = np.array([wanted for _, wanted, _, _ in self._claimed], dtype=np.int64)
        usable = whole & (self._reach[:, self.models] > 0)
        np.add.at(found, kinds, np.where(usable, wanted[:, np.newaxis], 0))
        return found

    def sizes(self) -> list[tuple[int, int]]:
        """Return the sizes (cards and cpu) of pods with several whole cards: those that request the most cards."""
        together: dict[tuple[int, int], int] = defaultdict(int)
        for (pods, _), whole in zip(self._asked, self._whole, strict=True):
            for cards in np.unique(whole[whole > 1]).tolist():
                together[cards, pods.cpu] += cards * pods.pods
        most = sorted(together.items(), key=lambda size: (-size[1], size[0]))[:_MOST_SIZES]
        return sorted(size for size, _ in most)

    def reserve(self, cards: int, cpu: int) -> NDArray[np.float64]:
        """Return the cost of an idle card, by model, that pods of a size could no longer use.

        It is proportional to this size's fraction of the demand; it is reduced if there is more room than pods with
        this number of cards demand.
        """
        every = PERCENT * int(self._fleet.cards[self.models].sum())
        if every - self._left < IN_DEMAND * every // PERCENT:
            return np.zeros(len(self._named))
        alike = (self._whole == cards).any(axis=1)
        pods = [pods for (pods, _), is_alike in zip(self._asked, alike.tolist(), strict=True) if is_alike]
        number, models = sum(each.pods for each in pods), self.models[(self._whole == cards).any(axis=0)]
        room = self._fleet.room(models, cards, sum(each.cpu * each.pods for each in pods) // number)
        wanted = cards * number * self._left / self._demand
        of_size = np.array([cards * each.pods if each.cpu == cpu else 0 for each in pods], dtype=np.int64)
        asked = (of_size[:, np.newaxis] * (self._whole[alike] == cards)).sum(axis=0)
        part: NDArray[np.float64] = np.minimum(PERCENT * asked / self._demand, 1.0)
        return RESERVE * part * min(wanted / max(room, cards), 1.0)


def _running_claims(claims: PodClaims, vendor: str) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield the claims of non-init containers on a vendor: count, amounts and percent of slots, memory, cores."""
    for container in claims:
        if container.type is not ContainerType.INIT:
            for claim in container.claims:
                if claim.vendor == vendor:
                    amounts = [min(amount, _MOST_AMOUNT) for amount in claim.amounts[: CORES + 1]]
                    yield min(claim.count, _MOST_CARDS), amounts, list(claim.percent[: CORES + 1])


def _price_model(
    prices: CardPrices, model: int, mix: _Mix, solved: dict[bytes, tuple[NDArray[np.float64], float]]
) -> None:
    """Price the free parts of a model's cards, if any pod requests such cards."""
    shares, parts = mix.shares(model), mix.parts(model)
    whole = shares.max(axis=1, initial=0) >= PERCENT
    prices.dearest[model] = 1.0 if parts[whole].any() else 0.0
    for number in range(len(_DIMENSIONS)):
        asked = np.zeros(PERCENT + 1, dtype=np.int64)
        np.add.at(asked, shares[~whole, number], parts[~whole])
        asked[0] = 0
        key = asked.tobytes()
        if key not in solved:
            solved[key] = _solve(asked)
        worth, dearest = solved[key]
        if asked.any():
            prices.worth[model, number] = worth
        elif parts[~whole].any():  # pods request only the other dimension: any free part of this one has full worth
            prices.worth[model, number, 1:] = 1.0
        prices.dearest[model] = max(prices.dearest[model], dearest)
    prices.dearest[model] = prices.dearest[model] or 1.0


def _solve(asked: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Return the worth by free percentage and the highest share price, given the demand by percentage of a card."""
    shares = np.flatnonzero(asked)
    worth = np.zeros(PERCENT + 1)
    if not shares.shape[0]:
        return worth, 0.0
    scratch = price_scratch(shares.shape[0])
    price_shares(shares, asked[shares] / int(asked.sum()), ROUNDS, scratch, worth)
    return worth, float(worth[shares].max())
