"""Golden cases of HAMi with devices of other makers than NVIDIA: placements, requests, and what nodes register.

The naive twin with all quirks on has to say what HAMi said. Where HAMi goes through a map it may have said one of
several things: a recorded score, allocation or outcome then has to be one that the twin knows of for that node. With
its quirks off the twin has to say what the product says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from tests.golden import hami, hami_makers
from tests.golden.hami import as_reported, same_refusal
from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive.hami import NOW, Answer
from tests.naive.hami_cards import f32
from tests.naive.hami_quirks import NONE, Quirk, Switches
from tests.naive.hami_wire import Bad, Panic, Unreadable
from tests.naive.vendors import cluster
from tests.naive.vendors.cluster import MOMENT, VendorAnswer
from tests.naive.vendors.ledger import handshake
from tests.naive.vendors.model import Device
from tests.naive.vendors.quirks import ALL, VendorQuirk

Json = Any

FIXES: dict[str, set[Enum]] = {
    "fix-score": {Quirk.SCORE_IGNORES_CLAIM},
    "fix-padding": {Quirk.NO_PADDING, VendorQuirk.UNASKED_KEYS_WRITTEN},
    "fix-terminating": {Quirk.TERMINATING_FORGOTTEN},
}
"""HAMi with one bug fixed is the twin with these quirks off."""


def makers(case: Case) -> list[str]:
    """Return the sections of other makers in a case's device configuration."""
    return sorted((case.get("config") or {}).get("deviceConfig", {}).keys() - {"nvidia"})


def runs(case: Case) -> bool:
    """Tell whether a case is one of these."""
    return bool(makers(case)) and (case.get("op") or case.get("kind")) in KINDS


class Kind(NamedTuple):
    """How to run one kind of case.

    Attributes
    ----------
    twin
        What the twin says with some quirks on, and which it asked for.
    against
        Where that differs from the case, for the twin with all quirks on.
    product
        What the product says, in the twin's form; None for a twin alone.
    shared
        What of the twin's answer the product says, too.
    """

    twin: Callable[[Case, frozenset[Any]], tuple[Any, set[Any]]]
    against: Callable[[Case, Any], Iterator[str]]
    product: Callable[[Case], Any] | None = None
    shared: Callable[[Any], Any] = lambda answer: answer


def run_case(case: Case) -> Outcome:
    """Run a case of any kind and compare."""
    return compare(case, KINDS[case.get("op") or case["kind"]])


def compare(case: Case, kind: Kind) -> Outcome:
    """Hold the twin against the case, and the product, if there is one, against the twin."""
    case = as_reported(case)
    theirs, asked = kind.twin(case, ALL)
    ours, asked_too = kind.twin(case, NONE)
    found = list(kind.against(case, theirs))
    if kind.product:
        found += _product_against(kind.shared(ours), kind.product(case))
    if found:
        return Outcome("failed", "; ".join(found))
    quirks = responsible(theirs, ours, lambda some: kind.twin(case, some)[0], asked | asked_too, ALL)
    if kind.product is None:
        return Outcome("not_implemented", missing(case), quirks)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _product_against(ours: Any, made: Any) -> Iterator[str]:
    if not same_refusal(_refused(ours), _refused(made)):
        yield f"product: refused for {sorted(map(str, _refused(made)))}, not {sorted(map(str, _refused(ours)))}"
    elif not _refused(ours):
        yield from differences("product", _comparable(ours), _comparable(made))


def _refused(answer: Any) -> frozenset[Bad]:
    found = answer.refused if isinstance(answer, Answer) else answer.get("refused", ())
    return frozenset(found)


def _comparable(answer: Any) -> Json:
    return hami._comparable(answer) if isinstance(answer, Answer) else answer


def missing(case: Case) -> str:
    """Say what in a case the product does not know yet."""
    return f"devices of {', '.join(makers(case))}"


# Placement ---------------------------------------------------------------------------------------------------------


def _against_placement(case: Case, answer: VendorAnswer) -> Iterator[str]:
    expect = case["expect"]
    kind = "passthrough" if expect.get("passthrough") else "error" if "error" in expect else None
    if kind or answer.kind in ("passthrough", "error"):
        if kind != answer.kind:
            yield f"twin: {answer.kind}, HAMi: {kind or 'a decision'}"
        return
    yield from differences("twin.fits", sorted(expect["scores"]), sorted(answer.possible))
    for node, ways in answer.possible.items():
        yield from _against_ways(expect, node, ways)
    for node, reason in answer.failed.items():
        if reason not in [expect["failed"].get(node), *expect.get("failed_any", {}).get(node, ())]:
            yield f"twin.failed.{node}: {reason}, HAMi: {expect['failed'].get(node)}"
    yield from differences("twin.failed", sorted(expect["failed"]), sorted(answer.failed))
    yield from _against_outcomes(expect, answer)
    for fix, nodes in expect.get("variants", {}).items():
        yield from _against_fix(case, fix, nodes)


def _against_ways(expect: Json, node: str, ways: list[tuple[float, dict[str, str]]]) -> Iterator[str]:
    score = expect["scores"].get(node)
    if score is not None and f32(score) not in {found for found, _ in ways}:
        yield f"twin.scores.{node}: {sorted({found for found, _ in ways})}, HAMi: {score}"
    keys = [_without_times(keys) for _, keys in ways]
    if node not in expect["per_node"]:
        if keys.count(keys[0]) == len(keys):
            yield f"twin.per_node.{node}: one allocation, HAMi: several"
    elif expect["per_node"][node] not in keys:
        yield from differences(f"twin.per_node.{node}", expect["per_node"][node], keys[0])


def _against_outcomes(expect: Json, answer: VendorAnswer) -> Iterator[str]:
    """Compare the outcomes for the order given: all of them where the twin knows one way for each node."""
    given = {_text(outcome["node"], outcome["annotations"]) for outcome in expect["acceptable"] if _given(outcome)}
    first = {_text(node, answer.annotations(node)) for node in answer.best}
    every = {_text(node, answer.whole(node, keys)) for node, ways in answer.possible.items() for _, keys in ways}
    if not given <= every:
        yield f"twin.acceptable: {sorted(every)}, HAMi also: {sorted(given - every)}"
    if len(every) == len(answer.possible) and given != first:
        yield f"twin.acceptable: {sorted(first)}, HAMi: {sorted(given)}"
    if expect["node"] is None or answer.node is None:
        yield from differences("twin.node", expect["node"], answer.node)
    elif _text(expect["node"], expect["annotations"]) not in every:
        yield f"twin.annotations: {sorted(every)}, HAMi: {expect['annotations']}"


def _against_fix(case: Case, fix: str, nodes: Json) -> Iterator[str]:
    """Compare what HAMi would say with a bug fixed; ``None`` for a node that does not fit any more."""
    fixed = cluster.decide(case, ALL - FIXES[fix])[0]
    for node, keys in nodes.items():
        if keys is None:
            if node not in fixed.failed:
                yield f"twin.{fix}.{node}: fits, HAMi: does not"
        elif keys not in [fixed.whole(node, ways) for _, ways in fixed.possible.get(node, ())]:
            yield from differences(f"twin.{fix}.{node}", keys, fixed.annotations(node))


def _given(outcome: Json) -> bool:
    return bool(outcome["order"] == "given")


def _text(node: str, annotations: dict[str, str]) -> str:
    return json.dumps([node, annotations], sort_keys=True)


def _without_times(keys: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in keys.items() if value != MOMENT}


# Requests ----------------------------------------------------------------------------------------------------------


def _twin_requests(case: Case, quirks: frozenset[Any]) -> tuple[Json, set[Any]]:
    switch = Switches(quirks)
    containers, refused = cluster.requests(case["pod"], cluster.makers_of(case), switch)
    if refused:
        return {"refused": frozenset(refused)}, switch.asked
    found = [
        {
            ask.vendor: {
                "type": ask.vendor,
                "nums": ask.nums,
                "mem": ask.memory,
                "mem_percentage": ask.percent,
                "cores": ask.cores,
            }
            for ask in container.asks
        }
        for container in containers
    ]
    return {"requests": found}, switch.asked


def _against_requests(case: Case, found: Json) -> Iterator[str]:
    yield from differences("twin", case["expect"], found)


# Registration ------------------------------------------------------------------------------------------------------


def _twin_node_devices(case: Case, quirks: frozenset[Any]) -> tuple[Json, set[Any]]:
    switch = Switches(quirks)
    found: Json = {}
    for node in case["nodes"]:
        by_maker = found.setdefault(node["metadata"]["name"], {})
        for vendor, maker in cluster.makers_of(case).items():
            try:
                by_maker[vendor] = {"devices": [_device(device) for device in maker.devices(node, switch)]}
            except (Unreadable, Panic):
                by_maker[vendor] = {"error": True}
    return found, switch.asked


def _device(device: Device) -> Json:
    found = {
        "id": device.uuid,
        "index": device.index,
        "count": device.count,
        "devmem": device.memory,
        "devcore": device.cores,
        "type": device.type,
        "numa": device.numa,
        "mode": device.mode,
        "health": device.healthy,
        "vendor": device.vendor,
    }
    return {**found, "custominfo": device.custom} if device.custom else found


def _against_node_devices(case: Case, found: Json) -> Iterator[str]:
    """Compare the devices, and whether HAMi takes the plugin for alive, which is no part of what is read."""
    for node in case["nodes"]:
        name = node["metadata"]["name"]
        for vendor, entry in case["expect"]["nodes"][name].items():
            alive, anew = handshake(node, cluster.makers_of(case)[vendor], NOW)
            expected = {**entry, "error": True} if "error" in entry else entry  # its words are those of Go's libraries
            answer = {**found[name][vendor], "healthy": alive, "need_update": anew}
            yield from differences(f"twin.{name}.{vendor}", expected, answer)


KINDS = {
    "placement": Kind(cluster.decide, _against_placement, hami_makers.placement),
    "requests": Kind(_twin_requests, _against_requests, hami_makers.requests, hami_makers.shared_requests),
    "node_devices": Kind(_twin_node_devices, _against_node_devices, hami_makers.node_devices, hami_makers.shared),
}
