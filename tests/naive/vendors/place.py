"""One pod on the devices of one node, whoever made them: score, order, checks, booking, container by container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.naive.hami_cards import f32, ratio_score, sort_key
from tests.naive.hami_quirks import Quirk
from tests.naive.hami_values import Ask, Container, Wish
from tests.naive.vendors import gosort
from tests.naive.vendors.maker import Maker
from tests.naive.vendors.model import Device, Taken, View, Ways
from tests.naive.vendors.quirks import VendorQuirk

Makers = Mapping[str, Maker]


@dataclass
class Fit:
    """What a pod gets of a node, by vendor and container; or why it does not fit."""

    taken: dict[str, list[list[Taken]]] = field(default_factory=dict)
    reason: str = ""


def places(devices: Sequence[Device], containers: Sequence[Container], view: View, makers: Makers) -> Iterator[Fit]:
    """Yield the ways in which a pod may be fitted on a node; the first is this scheduler's, all of them are HAMi's."""
    ways = Ways()
    yield place(devices, containers, view, makers, ways)
    while ways.another():
        yield place(devices, containers, view, makers, ways)


def place(devices: Sequence[Device], containers: Sequence[Container], view: View, makers: Makers, ways: Ways) -> Fit:
    """Fit a pod on a node; the devices are left as they are."""
    fit = Fit({vendor: [] for vendor in makers})
    running = [copied(device) for device in devices]
    beside: dict[str, list[list[Taken]]] = {vendor: [] for vendor in makers}
    for container in containers:
        kind = container.kind
        if kind == "sidecar" and view.switch(Quirk.SIDECAR_AS_INIT):
            kind = "init"
        group, earlier = running, beside
        if kind == "init":  # it runs alone with what is running by then, and leaves nothing behind
            group = sorted((copied(device) for device in running), key=lambda d: d.position)
            earlier = {vendor: list(taken) for vendor, taken in beside.items()}
        got = {vendor: list[Taken]() for vendor in makers}
        scores = {device.uuid: score(device, container.asks, view, makers) for device in group}
        for ask in container.asks:
            maker = makers[ask.vendor]
            fit.reason = _fill(group, ask, replace(view, earlier=earlier[ask.vendor]), maker, scores, got, ways)
            if fit.reason:
                return fit
        for vendor in makers:
            fit.taken[vendor].append(got[vendor])
            earlier[vendor].append(got[vendor])
    return fit


def copied(device: Device) -> Device:
    twin = device.copy()
    assert isinstance(twin, Device)
    return twin


def _fill(
    group: list[Device],
    ask: Ask,
    view: View,
    maker: Maker,
    scores: dict[str, float],
    got: dict[str, list[Taken]],
    ways: Ways,
) -> str:
    """Take what is asked for; returns the reason if there is not enough of it."""
    key = sort_key(Wish((), view.rules, view.policy), ask, scores)
    if len(group) > gosort.INSERTION and view.switch(VendorQuirk.EQUALS_SHUFFLED):
        gosort.go_sort(group, key)
    else:
        group.sort(key=key)
    choice = [device for device in group if matches(device, ask, view)]
    if not maker.enough(ask, choice, view):
        return "NodeInsufficientDevice"
    found = maker.choose(choice[::-1], ask, replace(view, devices=choice))
    if not found.ways:
        of = len(choice) if found.of is None else found.of
        return ", ".join(sorted(f"{count}/{of} {reason}" for reason, count in found.counts.items()))
    got[ask.vendor] += [maker.book(taken) for taken in found.ways[ways(len(found.ways))]]
    return ""


def matches(device: Device, ask: Ask, view: View) -> bool:
    """Whether a device is one of those asked for: by its vendor, where HAMi looks for a piece of its type."""
    exactly = device.vendor == ask.vendor
    by_name = ask.vendor.lower() in device.type.lower()
    if exactly != by_name and view.switch(VendorQuirk.TYPE_BY_SUBSTRING):
        return by_name
    return exactly


def score(device: Device, asks: Sequence[Ask], view: View, makers: Makers) -> float:
    """The load of a device as if all that the container asks of its vendor were placed there."""
    used, memory, cores = device.used, device.used_memory, device.used_cores
    for ask in asks:
        if ask.vendor == device.vendor:
            slots, more_memory, more_cores = makers[ask.vendor].in_score(device, ask, view.switch)
            used, memory, cores = used + slots, memory + more_memory, cores + more_cores
    return ratio_score(view.weights, (used, cores, memory), (device.count, device.cores, device.memory))


def written(
    fit: Fit, devices: Sequence[Device], containers: Sequence[Container], view: View, makers: Makers
) -> dict[str, str]:
    """The annotations of a pod on a node: an entry per container for every vendor that it asks."""
    found: dict[str, str] = {}
    for vendor, maker in makers.items():
        asked = [any(ask.vendor == vendor for ask in container.asks) for container in containers]
        entries, names = fit.taken[vendor], [container.name for container in containers]
        padded = any(device.type == vendor for device in devices)
        if any(asked):
            if not all(asked) and not padded and view.switch(Quirk.NO_PADDING):
                entries = [entry for entry, ask in zip(entries, asked, strict=True) if ask]
                names = [name for name, ask in zip(names, asked, strict=True) if ask]
        elif not padded or not view.switch(VendorQuirk.UNASKED_KEYS_WRITTEN):
            continue
        found |= maker.written(entries, view, names)
    return found


def added_score(fit: Fit, devices: Sequence[Device], view: View, makers: Makers) -> float:
    """What the allocation adds to the score of its node."""
    added = 0.0
    for vendor, maker in makers.items():
        if any(fit.taken[vendor]):
            more = maker.added_score(fit.taken[vendor], devices, view)
            against = more and view.spread and not maker.knows_direction  # the lowest score wins
            if against and not view.switch(VendorQuirk.ADDED_SCORE_ONE_WAY):
                more = -more
            added = f32(added + more)
    return added
