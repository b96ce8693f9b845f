"""The node side on both servers: lock, Allocate, release, and what it says about a scheduler that errs."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from tests.contract.client import Api, Object, container

from vgpu_devcluster import BEHAVIOUR, Behaviour, NodeSide

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LOCK = "hami.io/mutex.lock"
POINTER = "/metadata/annotations/hami.io~1mutex.lock"


@pytest_asyncio.fixture
async def side(api: Api) -> AsyncIterator[NodeSide]:
    """A node side with one node of two cards."""
    async with NodeSide(api.server.url, token=api.server.token, tls=api.server.tls) as nodes:
        await nodes.register([_node(api)], ["A100-80G", "T4"], count=2)
        await nodes.start()
        yield nodes


def _node(api: Api) -> str:
    return f"{api.namespace}-gpu"


def _entry(side: NodeSide, api: Api, index: int = 0, memory: int = 4000, cores: int = 30) -> str:
    return f"{side.cards(_node(api))[index].uuid},NVIDIA,{memory},{cores}:"


async def _take_lock(api: Api, owner: str) -> None:
    value = f"2026-08-21T06:20:39Z,{api.namespace},{owner}"
    taken = await api.json_patch(
        f"/api/v1/nodes/{_node(api)}",
        {"op": "test", "path": POINTER, "value": None},
        {"op": "add", "path": POINTER, "value": value},
    )
    assert taken.code == 200, taken


async def _bind(api: Api, name: str, assignment: str, **annotations: str) -> None:
    node = _node(api)
    written = {
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-devices-to-allocate": assignment,
        "hami.io/vgpu-devices-allocated": assignment,
        "hami.io/bind-phase": "allocating",
        **annotations,
    }
    assert (await api.bind(name, node, {"annotations": written})).code == 201


async def _gpu_pod(api: Api, name: str, cards: int = 1, metadata: Object | None = None) -> None:
    await api.pod(name, metadata, containers=[container(limits={"nvidia.com/gpu": cards})])


async def _annotations(api: Api, path: str) -> Object:
    annotations = (await api.get(path)).ok()["metadata"].get("annotations", {})
    assert isinstance(annotations, dict)
    return annotations


async def test_nodes_are_ready_and_registered(api: Api, side: NodeSide) -> None:
    node = (await api.get(f"/api/v1/nodes/{_node(api)}")).ok()
    assert "taints" not in node["spec"]
    assert node["status"]["allocatable"] == {
        "cpu": "64",
        "ephemeral-storage": "1Ti",
        "memory": "512Gi",
        "nvidia.com/gpu": "4",
        "pods": "110",
    }
    assert next(one for one in node["status"]["conditions"] if one["type"] == "Ready")["status"] == "True"
    register = node["metadata"]["annotations"]["hami.io/node-nvidia-register"]
    first, second = json.loads(register)
    assert list(first) == ["id", "count", "devmem", "devcore", "type", "mode", "health"]  # zeros are left out
    assert list(second) == ["id", "index", "count", "devmem", "devcore", "type", "numa", "mode", "health"]
    assert (first["devmem"], second["devmem"], second["numa"]) == (81920, 15360, 1)
    await side.heartbeat(_node(api))
    shuffled = (await _annotations(api, f"/api/v1/nodes/{_node(api)}"))["hami.io/node-nvidia-register"]
    assert sorted(json.loads(shuffled), key=lambda card: card.get("index", 0)) == [first, second]


async def test_a_pod_gets_its_cards_and_runs(api: Api, side: NodeSide) -> None:
    await _gpu_pod(api, "a")
    await _take_lock(api, "a")
    await _bind(api, "a", _entry(side, api) + ";")
    await side.until(lambda: side.counts["running"] == 1)
    pod = (await api.get(f"{api.pods}/a")).ok()
    annotations = pod["metadata"]["annotations"]
    assert annotations["hami.io/bind-phase"] == "success"
    assert annotations["hami.io/vgpu-devices-to-allocate"] == ";;"
    assert annotations["hami.io/vgpu-devices-allocated"] == _entry(side, api) + ";"
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["containerStatuses"][0]["ready"] is True
    assert {one["type"]: one["status"] for one in pod["status"]["conditions"]}["PodScheduled"] == "True"
    assert LOCK not in await _annotations(api, f"/api/v1/nodes/{_node(api)}")
    assert side.violations == []
    card = side.cards(_node(api))[0].uuid
    used = side.used(_node(api))[card]
    assert (used.slots, used.memory, used.cores) == (1, 4000, 30)
    await side.finish(api.namespace, "a")
    assert (await api.get(f"{api.pods}/a")).ok()["status"]["phase"] == "Succeeded"
    assert side.used(_node(api)) == {}


@pytest.mark.parametrize("seen", [False, True], ids=["just-bound", "being-allocated"])
async def test_a_pod_that_ends_while_it_is_admitted_stays_ended(api: Api, side: NodeSide, *, seen: bool) -> None:
    await _gpu_pod(api, "a", metadata={"annotations": {BEHAVIOUR: "slow=0.2"}})
    await _take_lock(api, "a")
    await _bind(api, "a", _entry(side, api) + ";")
    if seen:
        await side.until(lambda: side.busy)
    await side.finish(api.namespace, "a")
    await side.until(lambda: not side.busy)
    assert side.counts["running"] == 1
    assert (await api.get(f"{api.pods}/a")).ok()["status"]["phase"] == "Succeeded"
    assert side.used(_node(api)) == {}


async def test_containers_are_served_one_by_one(api: Api, side: NodeSide) -> None:
    one, two = {"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}
    await api.pod(
        "a",
        initContainers=[container("init", limits=one)],
        containers=[container("first", limits=one), container("idle"), container("last", limits=two)],
    )
    await _take_lock(api, "a")
    big, small = _entry(side, api, 0, 5000, 20), _entry(side, api, 1, 1000, 10)
    await _bind(api, "a", f"{big};{small};;{small}{big};")
    await side.until(lambda: side.counts["running"] == 1)
    assert side.violations == []
    left = (await _annotations(api, f"{api.pods}/a"))["hami.io/vgpu-devices-to-allocate"]
    assert left == ";" * 7  # four entries, and one more for each of three round trips
    first, second = (side.used(_node(api))[card.uuid] for card in side.cards(_node(api)))
    assert (first.memory, second.memory, second.slots) == (5000, 2000, 2)


async def test_pods_without_devices_just_run_and_end(api: Api, side: NodeSide) -> None:
    await api.pod("a")
    await api.bind("a", _node(api))
    await side.until(lambda: side.counts["running"] == 1)
    assert (await api.delete(f"{api.pods}/a")).code == 200
    await side.until(lambda: side.counts["deleted"] == 1)
    assert (await api.get(f"{api.pods}/a")).code == 404
    assert side.violations == []


async def test_allocate_can_fail(api: Api, side: NodeSide) -> None:
    await _gpu_pod(api, "a", metadata={"annotations": {BEHAVIOUR: "fail"}})
    await _take_lock(api, "a")
    await _bind(api, "a", _entry(side, api) + ";")
    await side.until(lambda: side.counts["failed"] == 1 and not side.busy)
    pod = (await api.get(f"{api.pods}/a")).ok()
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert pod["metadata"]["annotations"]["hami.io/bind-phase"] == "failed"
    assert LOCK not in await _annotations(api, f"/api/v1/nodes/{_node(api)}")
    assert side.used(_node(api)) == {}
    assert side.violations == []


async def test_allocate_may_never_answer(api: Api, side: NodeSide) -> None:
    await _gpu_pod(api, "a", metadata={"annotations": {BEHAVIOUR: "never"}})
    await _take_lock(api, "a")
    await _bind(api, "a", _entry(side, api) + ";")
    await side.until(lambda: side.counts["unanswered"] == 1)
    assert LOCK in await _annotations(api, f"/api/v1/nodes/{_node(api)}")
    assert (await _annotations(api, f"{api.pods}/a"))["hami.io/bind-phase"] == "allocating"


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("no lock", "bound without the node lock"),
        ("foreign lock", "the node lock leads to"),
        ("wrong number", "asks for 1 cards and gets 2"),
        ("unknown card", "unknown card GPU-none"),
        ("no annotation", "bound without devices to allocate"),
        ("malformed", "malformed device"),
        ("missing entry", "0 entries for 1 containers"),
        ("phase", "bind-phase is 'success'"),
        ("other node", "vgpu-node is 'elsewhere'"),
    ],
)
async def test_mistakes_of_a_scheduler_are_recorded(api: Api, side: NodeSide, case: str, text: str) -> None:
    entry = _entry(side, api)
    assignment = {
        "wrong number": entry + entry + ";",
        "unknown card": "GPU-none,NVIDIA,1,1:;",
        "malformed": "GPU-none,NVIDIA:;",
        "missing entry": entry,
    }.get(case, entry + ";")
    await _gpu_pod(api, "a")
    if case == "foreign lock":
        await _take_lock(api, "other")
    elif case != "no lock":
        await _take_lock(api, "a")
    if case == "no annotation":
        await api.bind("a", _node(api))
    elif case == "phase":
        await _bind(api, "a", assignment, **{"hami.io/bind-phase": "success"})
    elif case == "other node":
        await _bind(api, "a", assignment, **{"hami.io/vgpu-node": "elsewhere"})
    else:
        await _bind(api, "a", assignment)
    await side.until(lambda: bool(side.violations))
    assert text in side.violations[0]
    assert side.violations[0].startswith(f"{api.namespace}/a on {_node(api)}: ")


@pytest.mark.parametrize(
    ("memory", "cores", "times", "what"), [(50_000, 1, 2, "memory"), (1, 60, 2, "cores"), (1, 1, 3, "slots")]
)
async def test_overcommitted_cards_are_recorded(
    api: Api, side: NodeSide, memory: int, cores: int, times: int, what: str
) -> None:
    for index in range(times):
        assert side.violations == []
        await _gpu_pod(api, f"p{index}")
        await _take_lock(api, f"p{index}")
        await _bind(api, f"p{index}", _entry(side, api, 0, memory, cores) + ";")
        await side.until(lambda served=index + 1: side.counts["running"] == served)  # type: ignore[misc]
    [violation] = side.violations
    assert f"{what} handed out" in violation


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_lock_that_is_taken_away_is_recorded(api: Api) -> None:
    held = Behaviour(held=True)
    async with NodeSide(api.server.url, token=api.server.token, tls=api.server.tls, behave=lambda _: held) as side:
        await side.register([_node(api)], ["A10"])
        await side.start()
        await _gpu_pod(api, "a")
        await _take_lock(api, "a")
        await _bind(api, "a", _entry(side, api) + ";")
        await _until(lambda: side.held)  # its plugin has found it
        await api.merge(f"/api/v1/nodes/{_node(api)}", {"metadata": {"annotations": {LOCK: None}}})
        await _until(lambda: not side._nodes[_node(api)].locks[LOCK])
        side.let_go()
        await side.until(lambda: side.counts["running"] == 1)
        assert len(side.violations) == 1
        assert "taken away before Allocate was done" in side.violations[0]


async def test_a_pod_that_is_gone_before_it_was_served_gets_nothing(api: Api) -> None:
    held = Behaviour(held=True)
    async with NodeSide(api.server.url, token=api.server.token, tls=api.server.tls, behave=lambda _: held) as side:
        await side.register([_node(api)], ["A10"])
        await side.start()
        await _gpu_pod(api, "a")
        await _take_lock(api, "a")
        await _bind(api, "a", _entry(side, api) + ";")
        await _until(lambda: side.held)  # its plugin has found the lock
        await api.merge(f"/api/v1/nodes/{_node(api)}", {"metadata": {"annotations": {LOCK: None}}})
        await side.delete(api.namespace, "a")
        await side.until(lambda: not side.busy)
        assert side.counts["running"] == 0
        assert side.used(_node(api)) == {}
        assert side.violations == []


async def test_a_pod_that_has_the_name_of_one_that_ended_is_not_deleted_for_it(api: Api, side: NodeSide) -> None:
    await _gpu_pod(api, "a")
    ended = (await api.get(f"{api.pods}/a")).ok()
    await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 0})
    await _gpu_pod(api, "a")
    await side._terminate(ended)
    assert (await api.get(f"{api.pods}/a")).code == 200
    await side.delete(api.namespace, "a")
    assert (await api.get(f"{api.pods}/a")).code == 404


async def test_what_ran_before_is_counted(api: Api, side: NodeSide) -> None:
    await _gpu_pod(api, "a")
    await _take_lock(api, "a")
    await _bind(api, "a", _entry(side, api) + ";")
    await side.until(lambda: side.counts["running"] == 1)
    before = side.used(_node(api))
    assert len(before) == 1
    await side.stop()
    assert side.used(_node(api)) == {}
    await side.start()
    assert side.used(_node(api)) == before
