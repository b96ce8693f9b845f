"""Devices of one node in the order of Koordinator's device score, in plain Python. Slow and obvious.

Two allocators tell them apart: devices that are shared by amounts alone, and HAMi's cards in this order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.naive import deviceshare, hami_cards, partitions, scopes
from tests.naive.deviceshare import Held, Weighed
from tests.naive.hami_values import UNSET, Ask, Card, NodeFit, Pick, Wish


@dataclass(frozen=True)
class Order:
    strategy: str
    weighed: tuple[Weighed, ...]


# Amounts alone -----------------------------------------------------------------------------------------------------


@dataclass
class Device:
    name: str
    vendor: str
    index: int
    healthy: bool
    cordoned: bool
    model: str
    total: list[int]
    used: list[int]
    numa: int = 0
    switch: int = -1  # unknown
    mode: str = ""
    label: str = ""
    table: partitions.Table | None = None  # the same on all GPUs of a node
    only: bool = False

    def held(self) -> Held:
        return Held(self.vendor, self.healthy, self.total, self.used)


@dataclass(frozen=True)
class Want:
    """What a container asks of one vendor."""

    vendor: str
    count: int
    amounts: tuple[int, ...]
    percents: tuple[int, ...]
    mode: str | None = None  # any


@dataclass(frozen=True)
class Container:
    kind: str  # init, sidecar or app
    wants: tuple[Want, ...] = ()


@dataclass(frozen=True)
class Pod:
    containers: tuple[Container, ...]
    order: Order
    denied: str = ""
    most_memory: int | None = None
    exclusive: bool = False
    idle: bool = False
    by_tree: bool = False
    scope: int = 0  # how deep one must be that all cards are in
    selected: tuple[tuple[str, str], ...] = ()  # by vendor, the label that devices must have
    every: frozenset[str] = frozenset()  # vendors of whose devices the pod wants all that it selects
    partition: tuple[bool, int | None] | None = None  # restricted or not, and the least bandwidth; if it wants one
    joint: tuple[str, ...] = ()  # vendors, of which the others follow the first below its switches
    same_switch: bool = False
    functions: frozenset[str] = frozenset()  # vendors of whose devices it wants a function with each


@dataclass
class Outcome:
    fits: bool = True
    picks: list[list[str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    choice: int = 0


REASONS = ("CardTimeSlicingExhausted", "CardInsufficientMemory", "CardInsufficientCore", "CardInsufficientMemory")
"""Of the dimensions: share, memory, cores, memory ratio."""


def forbidden(device: Device, pod: Pod) -> bool:
    """What policies say is about cards, not about devices of other kinds."""
    if device.vendor != "gpu":
        return False
    named = bool(pod.denied) and pod.denied.lower() in device.model.lower()
    large = pod.most_memory is not None and device.total[1] > pod.most_memory
    return named or large or (pod.exclusive and device.total[2] != 100)


def selects(pod: Pod, device: Device) -> bool:
    return dict(pod.selected).get(device.vendor, device.label) == device.label


def why_not(device: Device, want: Want, pod: Pod) -> str:
    if not device.healthy:
        return "CardNotHealth"
    if device.cordoned:
        return "CardCordoned"
    if not selects(pod, device):
        return "CardLabelMismatch"
    if forbidden(device, pod):
        return "CardDeniedByPolicy"
    if want.mode is not None and device.mode != want.mode:
        return "ModeNotFit"
    free = [max(total - used, 0) for total, used in zip(device.total, device.used, strict=True)]
    for dimension, asked in enumerate(want.amounts):
        there_is_any = device.total[dimension] or device.used[dimension]
        if there_is_any and asked > free[dimension]:
            return REASONS[dimension]
    if not any(free):
        return "CardTimeSlicingExhausted"
    return "ExclusiveDeviceAllocateConflict" if pod.idle and any(device.used) else ""


def place(devices: Sequence[Device], pod: Pod) -> Outcome:
    result = Outcome()
    running = [replace(device, used=list(device.used)) for device in devices]
    for container in pod.containers:
        group = running
        if container.kind == "init":
            group = [replace(device, used=list(device.used)) for device in running]
        by_want: dict[str, list[str]] = {}
        near: set[int] = set()
        for want in sorted(container.wants, key=lambda want: rank(want, pod)):
            own = [device for device in group if device.vendor == want.vendor]
            result.choice = len(own)
            if want.vendor in pod.every:
                want = replace(want, count=max(sum(selects(pod, device) for device in own), 1))  # noqa: PLW2901
            if len(own) < want.count:
                return replace(result, fits=False, counts=Counter({"NodeInsufficientDevice": 1}))
            there = group if want.vendor in pod.functions else None
            follows = 0 < rank(want, pod) < len(pod.joint)
            chosen, counts = choose(own, want, pod, there, near if follows and want.vendor != "gpu" else None)
            if len(chosen) < want.count:
                return replace(result, fits=False, counts=counts)
            below = {device.switch for device in chosen} - {-1}
            if follows and pod.same_switch and below != near:
                return replace(result, fits=False, counts=counts + Counter({"NumaNotFit": len(chosen)}))
            near = near if rank(want, pod) else below
            with_them = [] if there is None else [free_functions(device, there, pod)[0] for device in chosen]
            for device in chosen:
                device.used = [used + asked for used, asked in zip(device.used, want.amounts, strict=True)]
            for device in with_them:
                device.used = list(device.total)
            by_want[want.vendor] = [device.name for device in [*chosen, *with_them]]
        result.picks.append([name for want in container.wants for name in by_want[want.vendor]])
    return result


def rank(want: Want, pod: Pod) -> int:
    return pod.joint.index(want.vendor) if want.vendor in pod.joint else len(pod.joint)


def free_functions(device: Device, group: Sequence[Device], pod: Pod) -> list[Device]:
    """The functions of a device that nobody has; the switch of a function is the index of its device."""
    own = [other for other in group if other.vendor == f"{device.vendor}-vf" and other.switch == device.index]
    free = [own for own in own if own.healthy and not own.cordoned and not any(own.used) and selects(pod, own)]
    return sorted(free, key=lambda function: function.index)


def choose(
    own: Sequence[Device], want: Want, pod: Pod, there: Sequence[Device] | None, near: set[int] | None
) -> tuple[list[Device], Counter[str]]:
    order = pod.order
    scores = [
        deviceshare.share([d.held()], d.vendor, order.weighed, want.amounts, want.percents, order.strategy) for d in own
    ]
    if want.vendor == "gpu" and pod.by_tree and is_whole(want):
        found, counts = choose_partition(own, want, pod)
        if found or own[0].only or pod.partition:
            return found, counts
    if goes_by_tree(own, want, pod):
        return choose_by_tree(own, want, pod, scores)
    chosen: list[Device] = []
    counts: Counter[str] = Counter()
    order_of_trial = deviceshare.order(scores, [device.index for device in own])
    least = most = want.count
    if near is not None:
        order_of_trial = in_turns(order_of_trial, own, near, [not why_not(device, want, pod) for device in own])
        most = max(want.count, len(near))
        least = most if pod.same_switch else least
    for position in order_of_trial:
        reason = why_not(own[position], want, pod)
        if not reason and there is not None and not free_functions(own[position], there, pod):
            reason = "CardVirtualFunctionsExhausted"
        if reason:
            counts[reason] += 1
        else:
            chosen.append(own[position])
        if len(chosen) == most:
            break
    if 0 < len(chosen) < least:
        counts["AllocatedCardsInsufficientRequest"] = len(chosen)
    return chosen if len(chosen) >= least else [], counts


def in_turns(order: Sequence[int], own: Sequence[Device], near: set[int], fits: Sequence[bool]) -> list[int]:
    """The best that fits of each switch, then the second best, and so on; then all others."""
    turns: dict[int, int] = {}
    seen: Counter[int] = Counter()
    for position in order:
        if fits[position] and own[position].switch in near:
            turns[position] = seen[own[position].switch]
            seen[own[position].switch] += 1
    return sorted(order, key=lambda position: turns.get(position, len(own)))


def choose_partition(own: Sequence[Device], want: Want, pod: Pod) -> tuple[list[Device], Counter[str]]:
    reasons = [why_not(device, want, pod) for device in own]
    in_use = [d.healthy and any(has and used for has, used in zip(d.total, d.used, strict=True)) for d in own]
    there = list(zip(own, reasons, in_use, strict=True))
    restricted, bandwidth = pod.partition or (False, None)
    members = partitions.choose(
        own[0].table,
        want.count,
        frozenset(device.index for device, reason, used in there if not reason and not used),
        frozenset(device.index for device, _, used in there if used),
        bandwidth,
        restricted=restricted,
    )
    if members is not None:
        found = [device for member in sorted(members) for device in own if device.index == member]
        return found, Counter(reason for reason in reasons if reason)
    counts = Counter(reason for reason in reasons if reason)
    if room := reasons.count(""):
        counts["CardPartitionNotFit"] = room
    return [], counts


def is_whole(want: Want) -> bool:
    return want.amounts[3] >= 100


def goes_by_tree(own: Sequence[Device], want: Want, pod: Pod) -> bool:
    if not pod.by_tree or want.vendor != "gpu":
        return False
    known = all(device.switch >= 0 for device in own)
    return pod.scope > 0 or (known and (is_whole(want) or want.count == 1))


def choose_by_tree(
    own: Sequence[Device], want: Want, pod: Pod, scores: Sequence[int]
) -> tuple[list[Device], Counter[str]]:
    reasons = [why_not(device, want, pod) for device in own]
    counts = Counter(reason for reason in reasons if reason)
    room = reasons.count("")
    if room < want.count:
        if room:
            counts["AllocatedCardsInsufficientRequest"] = room
        return [], counts
    leaves = [
        scopes.Leaf(
            (device.numa, device.switch),
            device.index,
            not reason,
            device.healthy and any(has and used for has, used in zip(device.total, device.used, strict=True)),
            score,
        )
        for device, reason, score in zip(own, reasons, scores, strict=True)
    ]
    found = scopes.choose(leaves, want.count, whole=is_whole(want), level=pod.scope)
    if found is None or any(device.switch < 0 for device in own):
        counts["NumaNotFit"] = room
        return [], counts
    return [own[position] for position in found], counts


# HAMi's cards ------------------------------------------------------------------------------------------------------


def place_cards(cards: Sequence[Card], wish: Wish, order: Order) -> NodeFit:
    """As :func:`hami_cards.place`, in the order of the device score; the words of the policy say nothing."""
    result = NodeFit()
    running = [card.copy() for card in cards]
    for container in wish.containers:
        group = running
        if container.kind == "init":
            group = sorted((card.copy() for card in running), key=lambda card: card.position)
        picks: list[Pick] = []
        result.picks.append(picks)
        scores = [card_share(card, container.asks, order) for card in group]
        named = {card.uuid: score for card, score in zip(group, scores, strict=True)}
        for ask in container.asks:
            bind = wish.rules.numa_bind
            group.sort(key=lambda card: (-card.numa if bind else 0, named[card.uuid], -card.index))
            choice = [card for card in group if card.vendor == ask.vendor]
            result.choice = len(choice)
            if not hami_cards.enough(ask, choice, wish.rules):
                return replace(result, fits=False, counts=Counter({"NodeInsufficientDevice": 1}))
            chosen, counts = hami_cards.choose(choice[::-1], ask, replace(wish, policy="spread"))
            if len(chosen) < ask.nums:
                return replace(result, fits=False, counts=counts)
            picks += [hami_cards.book(card, ask) for card in chosen]
    return result


def card_share(card: Card, asks: Sequence[Ask], order: Order) -> int:
    """The score of a card for what the container asks of its vendor; 0 if that is nothing."""
    ask = next((ask for ask in asks if ask.vendor == card.vendor), None)
    if ask is None:
        return 0
    percent = 0 if ask.percent == UNSET else ask.percent
    held = Held(
        card.vendor,
        card.healthy,
        (card.count, card.memory, card.cores),
        (card.used, card.used_memory, card.used_cores),
    )
    return deviceshare.share(
        [held], card.vendor, order.weighed, (1, ask.memory, ask.cores), (0, percent, 0), order.strategy
    )
