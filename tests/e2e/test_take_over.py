"""Taking a cluster over from HAMi: from objects as HAMi leaves them to equal books, and back.

Generations and vendors are mixed in one cluster: a node of each, with what HAMi has left there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.as_hami import (
    DONE,
    HAMI,
    LOCK,
    NODE,
    NVIDIA_2_4,
    NVIDIA_2_5,
    Limits,
    annotate,
    bound,
    decided,
    gpu,
    hami_pod,
)
from tests.e2e.conftest import Cluster, dump, played

from vgpu_devcluster import A100_PROFILES, ASCEND_910B3, HYGON, NVIDIA, Card, Vendor, equip, made_cards
from vgpu_devcluster.process import OperatorProcess

Obj = dict[str, Any]
Used = tuple[int, int, int]
"""Slots, MiB, cores."""

NONE: Limits = {}
A, B, INIT = gpu(5000, 10), gpu(3000, 20), gpu(9000, 40)
A_, B_, INIT_ = (f"{{0}},NVIDIA,{amounts}:" for amounts in ("5000,10", "3000,20", "9000,40"))
"""What HAMi gives for them; {0} stands for the first card of the node."""


def a10(number: int) -> Callable[[str], list[Card]]:
    return lambda node: equip(node, ["A10"] * number, count=4)


def mig(node: str) -> list[Card]:
    return equip(node, ["A100-40G"], count=7, mode="mig")


def placements(node: str) -> list[Card]:
    return [replace(card, profiles=A100_PROFILES) for card in mig(node)]


def dcu(memory: int, cores: int = 10) -> Limits:
    return {"hygon.com/dcunum": "1", "hygon.com/dcumem": str(memory), "hygon.com/dcucores": str(cores)}


def npu(memory: int) -> Limits:
    return {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": str(memory)}


@dataclass(frozen=True)
class Left:
    """What is on a node when HAMi goes.

    Attributes
    ----------
    vendor, cards
        Whose plugin, of which generation, and its cards.
    init, apps
        What the containers of the pod there ask for.
    value, left
        Its allocation, and what the plugin has left of the entries to be handed out.
    used
        What that comes to of each card, by its number.
    fits, too_large
        A claim for which there is room, and one for which there is not, but would be if a container were forgotten.
    phase
        Of the pod; a pending one runs its init containers.
    more
        Other annotations of the pod.
    slices
        Which slices or instances of the first card are in use.
    """

    vendor: Vendor
    cards: Callable[[str], list[Card]]
    init: Sequence[Limits]
    apps: Sequence[Limits]
    value: str
    left: str
    used: Mapping[int, Used]
    fits: Limits
    too_large: Limits
    phase: str = "Running"
    more: Mapping[str, str] = field(default_factory=dict)
    slices: Sequence[int] = ()


MADE = (
    '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"{0}","profile":"1g.5gb","placement":{"start":6,"size":1},'
    '"migUUID":"MIG-1","gpuInstanceID":7,"computeInstanceID":0},'
    '{"containerIndex":1,"deviceIndex":0,"gpuUUID":"{0}","profile":"2g.10gb","placement":{"start":0,"size":2},'
    '"migUUID":"MIG-2","gpuInstanceID":8,"computeInstanceID":0}]'
)
"""Placements of the first and the second container that has any: 2.10.0 does not count the others."""
LEFT = {
    # No entries for what comes before the first container with a card, and none for init containers.
    "2.4": Left(NVIDIA_2_4, a10(1), [NONE], [NONE, A, B], f"{A_};{B_};", ";", {0: (2, 8000, 30)},
                gpu(15028), gpu(15029)),
    "2.5": Left(NVIDIA_2_5, a10(1), [NONE], [A, NONE, B], f"{A_};;{B_};", ";", {0: (2, 8000, 30)},
                gpu(15028), gpu(15029)),
    "2.8": Left(NVIDIA, a10(1), [NONE], [NONE, A, B], f"{A_};{B_};", ";", {0: (2, 8000, 30)},
                gpu(15028), gpu(15029)),
    # An entry for every container.
    "2.9 while init runs": Left(NVIDIA, a10(1), [INIT], [NONE, A, B], f"{INIT_};;{A_};{B_};", f";;{A_};{B_};",
                                {0: (2, 9000, 40)}, gpu(14028), gpu(14029), phase="Pending"),
    # What the init containers have needed stays charged: they may run again.
    "2.9 when init is done": Left(NVIDIA, a10(1), [INIT], [NONE, A, B], f"{INIT_};;{A_};{B_};", ";;;;;;;",
                                  {0: (2, 9000, 40)}, gpu(14028), gpu(14029)),
    # No entry for any container without a card, wherever it stands.
    "2.10.0": Left(NVIDIA, a10(1), [NONE], [A, NONE, B], f"{A_};{B_};", ";;;;", {0: (2, 8000, 30)},
                   gpu(15028), gpu(15029)),
    "mig templates": Left(NVIDIA, mig, [NONE], [gpu(5000), NONE, gpu(5000)],
                          "{0}[0-2],NVIDIA,5120,0:;;{0}[0-5],NVIDIA,5120,0:;", ";", {0: (2, 10240, 0)},
                          gpu(5120, 0), gpu(5121, 0), slices=[2, 5]),
    "mig placements": Left(NVIDIA, placements, [NONE], [gpu(4864), NONE, gpu(9856)],
                           "{0},NVIDIA,4864,15:;{0},NVIDIA,9856,29:;", ";;;;", {0: (2, 14720, 44)},
                           gpu(9856, 0), gpu(9857, 0), more={"hami.io/vgpu-mig-allocations": MADE}, slices=[0, 1, 6]),
    # Chips of this vendor are called as what is asked for, so 2.10.0 writes an entry for every container.
    "ascend": Left(ASCEND_910B3, lambda node: made_cards(node, ASCEND_910B3, 1, 65536), [NONE],
                   [npu(16384), NONE, npu(32768)], ";{0},Ascend910B3,16384,5:;;{0},Ascend910B3,32768,10:;", ";;;;;;",
                   {0: (2, 49152, 15)}, npu(16384), npu(32768)),
    "hygon": Left(HYGON, lambda node: made_cards(node, HYGON, 1, 16368), [NONE], [dcu(5000), NONE, dcu(3000, 20)],
                  "{0},DCU,5000,10:;{0},DCU,3000,20:;", ";;;;", {0: (2, 8000, 30)}, dcu(8368), dcu(8369)),
    # It may have any card, with both of its containers.
    "unreadable": Left(NVIDIA, a10(2), [NONE], [A, NONE, B], "{0},NVIDIA,5000:;{0};", ";;;;",
                       {0: (2, 8000, 30), 1: (2, 8000, 30)}, gpu(15028), gpu(15029)),
}  # fmt: skip


def node_of(case: str) -> str:
    return case.replace(" ", "-")


@dataclass
class Story:
    """What was seen."""

    cards: dict[str, list[str]] = field(default_factory=dict)
    ledger: Obj = field(default_factory=dict)
    """Before anything new was decided."""
    fitting: dict[str, str] = field(default_factory=dict)
    """The nodes of the pods that should fit."""
    told: dict[str, str] = field(default_factory=dict)
    """What those are told that should not."""
    events: list[tuple[str, str]] = field(default_factory=list)
    problems: float = 0
    violations: list[str] = field(default_factory=list)
    drift: Any = None


async def told(cluster: Cluster) -> Story:
    """Leave everything as HAMi does, start the operator, and see what it makes of it."""
    story, side = Story(), cluster.nodes
    for case, left in LEFT.items():
        node = node_of(case)
        await side.register([node], left.cards, vendor=left.vendor)
        story.cards[case] = [card.uuid for card in side.cards(node)]
        card = story.cards[case][0]
        value, more = (
            left.value.replace("{0}", card),
            {key: text.replace("{0}", card) for key, text in left.more.items()},
        )
        pod = hami_pod(f"old-{node}", *left.apps, init=left.init)
        await decided(cluster, pod, node, value, left.left.replace("{0}", card), left.vendor, **{**DONE, **more})
        await bound(cluster, f"old-{node}", node, left.phase)
    operator = cluster.operator(VGPU_SCHEDULER_NAMES=f"vgpu-scheduler,{HAMI}")
    operator.start()
    try:
        await side.start()
        await operator.until_leading()
        story.ledger = (await operator.ledger())["ledger"]
        for case, left in LEFT.items():
            for name, limits in (("new", left.fits), ("large", left.too_large)):
                await cluster.create(hami_pod(f"{name}-{node_of(case)}", limits, node=node_of(case)))
        for case in LEFT:
            node = node_of(case)
            await cluster.until(lambda name=f"large-{node}": cluster.message(name), f"{case} to be told", 20.0)
            story.told[case] = await cluster.message(f"large-{node}")
        await side.until(lambda: side.counts["running"] == len(LEFT))
        await cluster.until(lambda: no_drift(operator), "the books to be in order")
        story.fitting = {case: await cluster.bound(f"new-{node_of(case)}") for case in LEFT}
        story.events = await cluster.events("old-unreadable")
        labels = {"kind": "pod", "reason": "AllocationUnreadable"}
        story.problems = await operator.metric("vgpu_scheduler_problems_total", **labels)
    except (AssertionError, TimeoutError) as error:
        stuck = {
            pod["metadata"]["name"]: pod["status"]
            for pod in await cluster.pods()
            if pod["status"]["phase"] != "Running"
        }
        pytest.fail(f"{error!r}\n{dump([stuck, side.violations, story.ledger])}")
    finally:
        operator.stop()
    story.violations = side.violations
    return story


async def no_drift(operator: OperatorProcess) -> bool:
    return not (await operator.ledger())["drift"]


@pytest.fixture(scope="module")
def story(installed_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """What was seen; the cluster is gone again."""
    return played(installed_plane, tmp_path_factory.mktemp("take-over"), told)


@pytest.mark.parametrize("case", LEFT)
def test_what_runs_is_charged_where_it_is(story: Story, case: str) -> None:
    booked = story.ledger[node_of(case)]
    expected = {story.cards[case][number]: used for number, used in LEFT[case].used.items()}
    assert {card: tuple(used[:3]) for card, used in booked.items()} == expected
    first = booked[story.cards[case][0]]
    assert [number for number, taken in enumerate(first[4:]) if taken] == list(LEFT[case].slices)


@pytest.mark.parametrize("case", LEFT)
def test_what_is_free_is_given_out_and_no_more(story: Story, case: str) -> None:
    assert story.fitting[case] == node_of(case)
    assert "1 Card" in story.told[case] or "1 AllocatedCards" in story.told[case]
    assert [text for text in story.violations if f" on {node_of(case)}: " in text] == []


def test_what_cannot_be_read_is_told_and_the_rest_goes_on(story: Story) -> None:
    [reason] = [reason for reason, note in story.events if "hami.io/vgpu-devices-allocated" in note]
    assert reason == "AllocationUnreadable"
    assert story.problems == 1


async def test_a_cluster_with_pods_in_every_state_is_taken_over(cluster: Cluster) -> None:
    side = cluster.nodes
    await side.register(["node-a", "node-b"], ["A10", "A10"], count=4)
    first, _ = (card.uuid for card in side.cards("node-a"))
    third, _ = (card.uuid for card in side.cards("node-b"))
    # Running, with the lock of its node left over from one that is long gone.
    await decided(cluster, hami_pod("running"), "node-a", f"{first},NVIDIA,2000,10:;", ";;", **DONE)
    await bound(cluster, "running", "node-a", "Running")
    await annotate(cluster, "node-a", {LOCK: "2026-01-01T00:00:00Z,default,long-gone"})
    # Bound, and its plugin has not answered yet: it holds the lock of its node.
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    await annotate(cluster, "node-b", {LOCK: f"{stamp},default,allocating"})
    allocating = {"hami.io/bind-phase": "allocating", "hami.io/bind-time": str(int(time.time()))}
    await decided(cluster, hami_pod("allocating"), "node-b", f"{third},NVIDIA,2000,10:;", **allocating)
    await bound(cluster, "allocating", "node-b")
    # Decided, never bound: HAMi went away in between. There is no room any more where it was to go.
    await decided(cluster, hami_pod("announced", gpu(22000)), "node-a", f"{first},NVIDIA,22000,10:;")

    operator = cluster.operator(VGPU_SCHEDULER_NAMES=f"vgpu-scheduler,{HAMI}")
    operator.start()
    try:
        await operator.until_leading()
        await cluster.create(hami_pod("new", gpu(3000, 20), node="node-b"))
        await cluster.until(lambda: cluster.bound("announced"), "the pod to be decided anew")
        await side.start()
        await side.until(lambda: side.counts["running"] == 3, within=60.0)  # allocating, announced and new
        assert side.violations == []
        await cluster.until(lambda: no_drift(operator), "the books to be in order")
        used = {card: held[:3] for node in (await operator.ledger())["ledger"].values() for card, held in node.items()}
        assert used[first] == [1, 2000, 10]
        assert sorted(used.values()) in (
            [[1, 2000, 10], [1, 2000, 10], [1, 3000, 20], [1, 22000, 10]],
            [[1, 2000, 10], [1, 22000, 10], [2, 5000, 30]],
        )
        notes = (await cluster.pod("announced"))["metadata"]["annotations"]
        assert notes[NODE] == await cluster.bound("announced")
        assert not notes["hami.io/vgpu-devices-allocated"].startswith(first)
        assert LOCK not in (await cluster.node("node-b"))["metadata"]["annotations"]
    finally:
        operator.stop()
