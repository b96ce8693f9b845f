"""Other vendors' plugins, several on a node, and MIG cards: what they do, and say of a scheduler that errs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.contract.client import Api, Object, container

from vgpu_devcluster import (
    A100_PROFILES,
    BEHAVIOUR,
    CAMBRICON,
    ENFLAME_DRS,
    HYGON,
    MTHREADS,
    NVIDIA,
    Card,
    NodeSide,
    Vendor,
    equip,
    made_cards,
)

MUTEX = "hami.io/mutex.lock"


@pytest_asyncio.fixture
async def side(api: Api) -> AsyncIterator[NodeSide]:
    async with NodeSide(api.server.url, token=api.server.token, tls=api.server.tls) as nodes:
        yield nodes


def _node(api: Api) -> str:
    return f"{api.namespace}-gpu"


def made(vendor: Vendor) -> Callable[[str], list[Card]]:
    return lambda node: made_cards(node, vendor, 2, 49152)


def mig(node: str) -> list[Card]:
    """Two cards that are cut by placements."""
    return [replace(card, profiles=A100_PROFILES) for card in equip(node, ["A100-40G"] * 2, count=7, mode="mig")]


async def _fit(api: Api, side: NodeSide, cards: Mapping[Vendor, Callable[[str], list[Card]]]) -> list[str]:
    """Register a node; return its cards."""
    await side.register([_node(api)], cards)
    await side.start()
    return [card.uuid for card in side.cards(_node(api))]


async def _lock(api: Api, key: str, owner: str = "") -> None:
    value = f"2026-08-21T06:20:39Z,{api.namespace},{owner}" if owner else "2026-08-21T06:20:39Z"
    await api.merge(f"/api/v1/nodes/{_node(api)}", {"metadata": {"annotations": {key: value}}})


async def _has_lock(api: Api, key: str) -> bool:
    node = (await api.get(f"/api/v1/nodes/{_node(api)}")).ok()
    return key in node["metadata"].get("annotations", {})


def written(vendor: Vendor, *entries: str, **more: str) -> dict[str, str]:
    """What a scheduler writes for one vendor: an entry per container."""
    value = "".join(f"{entry};" for entry in entries)
    names = [name for name in (vendor.allocated, vendor.to_allocate) if name]
    return {**dict.fromkeys(names, value), **dict.fromkeys(vendor.told, "0"), **more}


async def _bind(api: Api, name: str, *limits: Object, behaviour: str = "", **annotations: str) -> None:
    """Create a pod and bind it."""
    metadata = {"annotations": {BEHAVIOUR: behaviour}} if behaviour else None
    await api.pod(name, metadata, containers=[container(f"c{i}", limits=asked) for i, asked in enumerate(limits)])
    common = {"hami.io/vgpu-node": _node(api), "hami.io/bind-phase": "allocating", "hami.io/bind-time": "1767225600"}
    assert (await api.bind(name, _node(api), {"annotations": {**common, **annotations}})).code == 201


async def _phase(api: Api, name: str) -> str:
    return str((await api.get(f"{api.pods}/{name}")).ok()["status"]["phase"])


# Cards in pieces ---------------------------------------------------------------------------------------------------

GPU = {"nvidia.com/gpu": 1}


def placed(card: str, start: int, size: int, profile: str = "1g.5gb") -> dict[str, str]:
    place = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": card, "profile": profile}
    listed = [{**place, "placement": {"start": start, "size": size}}]
    return written(NVIDIA, f"{card},NVIDIA,4864,15:", **{"hami.io/vgpu-mig-allocations": json.dumps(listed)})


def instance(card: str, template: int, number: int) -> dict[str, str]:
    return written(NVIDIA, f"{card}[{template}-{number}],NVIDIA,4864,0:")


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        (("placed", 0, 4), ("placed", 3, 1), "slices 3 to 3 and slices 0 to 3"),
        (("placed", 0, 4), ("placed", 4, 4), ""),
        (("instance", 1, 0), ("instance", 1, 0), "instance 1-0 and instance 1-0"),
        (("instance", 1, 0), ("instance", 2, 1), "instance 2-1 and instance 1-0"),
        (("instance", 1, 0), ("placed", 4, 4), "slices 4 to 7 and instance 1-0"),
        (("instance", 1, 0), ("instance", 1, 1), ""),
    ],
)
async def test_a_part_of_a_card_is_given_out_once(
    api: Api, side: NodeSide, first: tuple[str, int, int], second: tuple[str, int, int], clash: str
) -> None:
    card, other = await _fit(api, side, {NVIDIA: mig})
    make = {"placed": placed, "instance": instance}
    given = [make[kind](card, *numbers) for kind, *numbers in (first, second)]
    for name, told in {"a": given[0], "elsewhere": placed(other, 0, 8), "b": given[1]}.items():
        await _lock(api, MUTEX, name)
        running = side.counts["running"]
        await _bind(api, name, GPU, **told)
        await side.until(lambda before=running: side.counts["running"] > before)  # type: ignore[misc]
    expected = [f"{api.namespace}/b on {_node(api)}: card {card} is allocated twice: {clash}"] if clash else []
    assert side.violations == expected
    assert side.slices(_node(api)).keys() == {card, other}


async def test_a_part_of_a_card_that_was_given_back_is_free(api: Api, side: NodeSide) -> None:
    card, _ = await _fit(api, side, {NVIDIA: mig})
    for number in range(2):
        await _lock(api, MUTEX, f"p{number}")
        await _bind(api, f"p{number}", GPU, **placed(card, 2, 2))
        await side.until(lambda before=number: side.counts["running"] > before)  # type: ignore[misc]
        assert side.slices(_node(api)) == {card: [2, 3]}
        await side.finish(api.namespace, f"p{number}")
        assert side.slices(_node(api)) == {}
    assert side.violations == []


# Plugins that guess ------------------------------------------------------------------------------------------------

GUESSING = {
    "scan": (HYGON, {"hygon.com/dcunum": 1}, {}),
    "oldest": (MTHREADS, {"mthreads.com/vgpu": 1}, {"mthreads.com/predicate-time": "{number}"}),
    "flag": (CAMBRICON, {"cambricon.com/vmlu": 1}, {"CAMBRICON_DSMLU_ASSIGNED": "false"}),
    "flag and time": (
        ENFLAME_DRS,
        {"enflame.com/drs-gcu": 3},
        {"enflame.com/gcu-assigned": "false", "enflame.com/gcu-assigned-time": "{number}"},
    ),
}


async def _bind_two(api: Api, side: NodeSide, how: str, *, at_once: bool) -> None:
    vendor, limits, marks = GUESSING[how]
    card, _ = await _fit(api, side, {vendor: made(vendor)})
    for number, name in enumerate("ab", 1):
        if vendor.lock and vendor is not MTHREADS:
            await _lock(api, vendor.lock, name if vendor.lock == MUTEX else "")
        told = {key: value.format(number=number) for key, value in marks.items()}
        behaviour = "held" if at_once and name == "a" else ""
        await _bind(api, name, limits, behaviour=behaviour, **written(vendor, f"{card},{vendor.word},100,1:", **told))
        if not behaviour:
            await side.until(lambda ended=number: side.counts["allocated"] == ended or at_once)  # type: ignore[misc]
            await side.until(lambda: at_once or not side.busy)


@pytest.mark.parametrize("how", GUESSING)
async def test_one_pod_at_a_time_leaves_a_plugin_no_choice(api: Api, side: NodeSide, how: str) -> None:
    await _bind_two(api, side, how, at_once=False)
    await side.until(lambda: side.counts["running"] == 2)
    assert side.violations == []


@pytest.mark.parametrize("how", GUESSING)
async def test_a_second_pod_beside_one_that_is_allocating_is_recorded(api: Api, side: NodeSide, how: str) -> None:
    await _bind_two(api, side, how, at_once=True)
    side.let_go()
    await side.until(lambda: bool(side.violations))
    assert "the plugin may take any of" in side.violations[0]
    assert all(f"{api.namespace}/{name}" in side.violations[0] for name in "ab")


async def test_slices_of_one_card_are_counted_as_shares(api: Api, side: NodeSide) -> None:
    card, _ = await _fit(api, side, {ENFLAME_DRS: made(ENFLAME_DRS)})
    limits, marks = GUESSING["flag and time"][1:]
    sizes = {"assigned-containers": json.dumps({"c0": {"request": 3}})}
    for number in range(3):
        told = {**{key: value.format(number=number) for key, value in marks.items()}, **sizes}
        await _bind(api, f"p{number}", limits, **written(ENFLAME_DRS, f"{card},Enflame,1,1:", **told))
        await side.until(lambda before=number: side.counts["running"] > before)  # type: ignore[misc]
    assert side.used(_node(api))[card].slots == 9
    [violation] = side.violations
    assert f"card {card} has 9 of 6 slots handed out" in violation


# Several vendors on one node ----------------------------------------------------------------------------------------

BOTH = {HYGON: made(HYGON), NVIDIA: lambda node: equip(node, ["A10"])}
DCU = {"hygon.com/dcunum": 1}


def of_both(side: NodeSide, api: Api, order: str) -> tuple[list[Object], dict[str, str]]:
    """Two containers, in an order of vendors, and what a scheduler writes for them."""
    cards = {"d": side.cards(_node(api))[0].uuid, "n": side.cards(_node(api))[-1].uuid}
    first = order == "dn"
    dcu, gpu = f"{cards['d']},DCU,100,1:", f"{cards['n']},NVIDIA,100,1:"
    annotations = {
        **written(HYGON, *((dcu, "") if first else ("", dcu))),
        **written(NVIDIA, *(("", gpu) if first else (gpu, ""))),
    }
    return ([DCU, GPU] if first else [GPU, DCU]), annotations


async def test_a_node_shows_the_cards_of_all_its_makers(api: Api, side: NodeSide) -> None:
    await _fit(api, side, BOTH)
    node = (await api.get(f"/api/v1/nodes/{_node(api)}")).ok()
    assert {"hami.io/node-dcu-register", "hami.io/node-nvidia-register"} <= node["metadata"]["annotations"].keys()
    amounts = {name: node["status"]["allocatable"][name] for name in ("hygon.com/dcunum", "nvidia.com/gpu")}
    assert amounts == {"hygon.com/dcunum": "8", "nvidia.com/gpu": "10"}
    await side.kill_plugin(_node(api))
    node = (await api.get(f"/api/v1/nodes/{_node(api)}")).ok()
    assert (node["status"]["allocatable"]["hygon.com/dcunum"], node["status"]["capacity"]["nvidia.com/gpu"]) == (
        "0",
        "10",
    )
    await side.kill_plugin(_node(api), forgotten=True)
    node = (await api.get(f"/api/v1/nodes/{_node(api)}")).ok()
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "0"
    await side.revive_plugin(_node(api))
    node = (await api.get(f"/api/v1/nodes/{_node(api)}")).ok()
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "10"


async def test_the_first_of_two_plugins_ends_the_lock_and_the_second_guesses(api: Api, side: NodeSide) -> None:
    await _fit(api, side, BOTH)
    limits, annotations = of_both(side, api, "dn")
    await _lock(api, MUTEX, "a")
    await _bind(api, "a", *limits, **annotations)
    await side.until(lambda: side.counts["running"] == 1)
    assert side.violations == []
    assert not await _has_lock(api, MUTEX)
    assert len(side.used(_node(api))) == 2
    await side.finish(api.namespace, "a")
    assert side.used(_node(api)) == {}


async def test_a_plugin_that_wants_pods_that_are_allocating_comes_too_late(api: Api, side: NodeSide) -> None:
    """HAMi's plugins cannot do better, whatever a scheduler writes: so this is nobody's mistake."""
    await _fit(api, side, BOTH)
    limits, annotations = of_both(side, api, "nd")
    await _lock(api, MUTEX, "a")
    await _bind(api, "a", *limits, **annotations)
    await side.until(lambda: side.counts["failed"] == 1 and not side.busy)
    assert await _phase(api, "a") == "Failed"
    assert side.violations == []
    assert side.used(_node(api)) == {}


@pytest.mark.parametrize("locked", [True, False], ids=["the next pod has the lock", "nobody has the lock"])
async def test_a_pod_that_comes_between_two_plugins_is_recorded(api: Api, side: NodeSide, *, locked: bool) -> None:
    await _fit(api, side, BOTH)
    limits, annotations = of_both(side, api, "dn")
    await _lock(api, MUTEX, "a")
    await _bind(api, "a", *limits, behaviour="slow=0.3", **annotations)
    async with asyncio.timeout(30.0):
        while await _has_lock(api, MUTEX):
            pass  # the first plugin has not ended it yet
    if locked:
        await _lock(api, MUTEX, "b")
    await _bind(api, "b", GPU, **written(NVIDIA, f"{side.cards(_node(api))[-1].uuid},NVIDIA,100,1:"))
    await side.until(lambda: bool(side.violations))
    expected = f"the node lock leads to {api.namespace}/b" if locked else ""
    assert expected in side.violations[0]
