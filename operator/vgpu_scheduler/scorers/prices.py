"""Learns what cards are worth from what bound pods ask for.

All that is summed up is whole numbers, and what is not is added up in the order of names, so that the same pods on the
same nodes give the same prices, whatever was seen first.
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
from vgpu_scheduler.model import ContainerKind, PodClaims
from vgpu_scheduler.state import DeviceMatrix, NodeTable

LEAST_SEEN: Final = 64
"""How many bound pods must have claimed cards of a vendor before there are prices for them."""
BESIDE: Final = 0.08
"""Weight of what is left beside a pod, where rests have prices; it keeps them few where pods come and go."""
STRANDING: Final = 0.2
"""Weight of what is stranded without cpu, where there are prices."""
MOST_CONTENDED: Final = 2.0
"""The most that contention makes a card cost, in cards."""
IN_DEMAND: Final = 50
"""Idle cards are kept together for pods with several cards once so many percent of all cards are in use."""
RESERVE: Final = 1.5
"""Weight of idle cards that pods with several cards could not use any more."""
ROUNDS: Final = 400
"""How often prices of shares are adjusted: within 1 percent of the exact ones for the production traces of openb."""
_MOST_SIZES: Final = 32
"""How many sizes of pods with several cards are looked at: those that ask for the most cards."""
_MOST_CARDS: Final = 64
_MOST_AMOUNT: Final = 1 << 40
_PARTS: Final = 1 << 24
"""What a pod asks for is divided among the cards that it may use, in whole parts; so many each pod has."""
_DIMENSIONS: Final = (MEMORY, CORES)


@dataclass(frozen=True, slots=True, eq=False)
class RequestClass:
    """Pods with the same request, and how many there are.

    Attributes
    ----------
    claims
        What each asks of devices.
    cpu
        What each requests, milli.
    pods
        How many they are.
    reach
        How many cards of each model they may use, by the models' numbers; shape (models,).
    """

    claims: PodClaims
    cpu: int
    pods: int
    reach: NDArray[np.int64]


def learn_prices(devices: DeviceMatrix, nodes: NodeTable, asked: Sequence[RequestClass]) -> CardPrices | None:
    """Return the prices of a dialect's cards, or None where too little was asked for.

    Parameters
    ----------
    devices
        The cards, with what is used of them.
    nodes
        The nodes that they are on.
    asked
        What bound and assumed pods ask for.
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
    """Return the prices used before anything was learned: a card is worth the share of it that is free."""
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
    """The cards that may be given out, summed up by model and by node.

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
        """Return how many idle cards of some models are on nodes where pods with so many cards, and cpu, fit."""
        idle = (self._left == PERCENT) & np.isin(self._model, models)
        by_row = np.bincount(self._row_of[idle], minlength=self._cpu.shape[0])
        fits = by_row[self._cpu[: by_row.shape[0]] >= cpu]
        return int((fits // cards).sum()) * cards


def _percent_left(columns: DeviceColumns, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what is left of cards: the least of their free shares in whole percent, 0 without a free slot."""
    left = np.full(numbers.shape[0], PERCENT, dtype=np.int64)
    total, used = columns.total[numbers], columns.used[numbers]
    for dimension in _DIMENSIONS:
        has = total[:, dimension] > 0
        free = np.maximum(total[:, dimension] - used[:, dimension], 0) * PERCENT // np.maximum(total[:, dimension], 1)
        left = np.where(has, np.minimum(left, free), left)
    left[total[:, SLOTS] <= used[:, SLOTS]] = 0
    return left


class _Mix:
    """What pods ask of one vendor's cards.

    Parameters
    ----------
    vendor
        The vendor.
    fleet
        The cards.
    asked
        What pods ask for, of any vendor.
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
        """Return what each claim asks of a card of a model in memory and cores, whole percent; shape (claims, 2)."""
        found = np.zeros((len(self._claimed), 2), dtype=np.int64)
        for number, dimension in enumerate(_DIMENSIONS):
            total = int(self._fleet.total[model, dimension])
            amounts = self._amounts[:, dimension]
            share = -(-amounts * PERCENT // max(total, 1)) if total else np.zeros_like(amounts)
            found[:, number] = np.where(amounts > 0, share, self._percent[:, dimension])
        return np.clip(found, 0, PERCENT)

    def parts(self, model: int) -> NDArray[np.int64]:
        """Return how much each claim asks of the cards of a model; shape (claims,)."""
        return np.where(self._reach[:, model] > 0, self._parts, 0)

    @property
    def cpu_per_card(self) -> float:
        """The cpu that pods request for each card, milli."""
        return PERCENT * sum(pods.cpu * pods.pods for pods, _ in self._asked) / self._demand

    def contended(self) -> NDArray[np.float64]:
        """Return what a card costs because of pods that only some models will do for, by model.

        It is the part of all demand that asks for these models alone, against the part of all that is left which is
        theirs: 1 where both are the same.
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
        """Return how many whole cards of each model each kind of pods asks for, 0 where it cannot use them."""
        found = np.zeros((len(self._asked), len(self._named)), dtype=np.int64)
        kinds = np.repeat(np.arange(len(self._asked)), [len(claims) for _, claims in self._asked])
        wanted = np.array([wanted for _, wanted, _, _ in self._claimed], dtype=np.int64)
        usable = whole & (self._reach[:, self.models] > 0)
        np.add.at(found, kinds, np.where(usable, wanted[:, np.newaxis], 0))
        return found

    def sizes(self) -> list[tuple[int, int]]:
        """Return the sizes of pods with several whole cards: cards and cpu, those that ask for the most cards."""
        together: dict[tuple[int, int], int] = defaultdict(int)
        for (pods, _), whole in zip(self._asked, self._whole, strict=True):
            for cards in np.unique(whole[whole > 1]).tolist():
                together[cards, pods.cpu] += cards * pods.pods
        most = sorted(together.items(), key=lambda size: (-size[1], size[0]))[:_MOST_SIZES]
        return sorted(size for size, _ in most)

    def reserve(self, cards: int, cpu: int) -> NDArray[np.float64]:
        """Return what an idle card costs, by model, where pods of a size cannot use it any more.

        It rests on the part of all demand that comes in this size, while what pods with so many cards ask for is as
        much as there is room for; less where there is more room.
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
    """Yield the claims on a vendor's cards that last: number of cards, amounts and percent of slots, memory, cores."""
    for container in claims:
        if container.kind is not ContainerKind.INIT:
            for claim in container.claims:
                if claim.vendor == vendor:
                    amounts = [min(amount, _MOST_AMOUNT) for amount in claim.amounts[: CORES + 1]]
                    yield min(claim.count, _MOST_CARDS), amounts, list(claim.percent[: CORES + 1])


def _price_model(
    prices: CardPrices, model: int, mix: _Mix, solved: dict[bytes, tuple[NDArray[np.float64], float]]
) -> None:
    """Price what may be left of a card of a model, unless nobody asks for such cards."""
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
        elif parts[~whole].any():  # shares ask for the other dimension only: any rest of this one will do
            prices.worth[model, number, 1:] = 1.0
        prices.dearest[model] = max(prices.dearest[model], dearest)
    prices.dearest[model] = prices.dearest[model] or 1.0


def _solve(asked: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Return what each rest of a card is worth, and the dearest share, when so much is asked by percent of a card."""
    shares = np.flatnonzero(asked)
    worth = np.zeros(PERCENT + 1)
    if not shares.shape[0]:
        return worth, 0.0
    scratch = price_scratch(shares.shape[0])
    price_shares(shares, asked[shares] / int(asked.sum()), ROUNDS, scratch, worth)
    return worth, float(worth[shares].max())
