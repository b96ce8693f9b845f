"""Remedies on the nodes of other ecosystems: amounts that depend on each other stay claims that are understood."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import check_remedies, kinds, pod, world_of

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import RemedyType, World, ask, explain_pod, make_dialect, remedies
from vgpu_scheduler.whatif.objects.cards import WRITERS, Card, CardShare
from vgpu_scheduler.whatif.policy_checks.forms import annotations_of, device_of

Object = dict[str, Any]
NUMBER, MEMORY, CORES = (f"volcano.sh/vgpu-{name}" for name in ("number", "memory", "cores"))
SHARED, CORE, RATIO, BYTES, PERCENT = (
    f"koordinator.sh/{name}" for name in ("gpu.shared", "gpu-core", "gpu-memory-ratio", "gpu-memory", "gpu")
)
SIZE = 16384


def cluster(dialect: str, *nodes: list[list[tuple[int, int]]]) -> list[Object]:
    """Return nodes of cards of tenants, each with so much memory in MiB and so many percent of compute."""
    writer, objects, world = WRITERS[dialect], [], World(EngineOptions([make_dialect(dialect)]))
    for number, cards in enumerate(nodes):
        name = f"n{number}"
        listed = [
            Card(f"{name}-{i}", i, "NVIDIA-A100", SIZE, 10, 100, 0, "hami-core", healthy=True)
            for i in range(len(cards))
        ]
        made = writer.register(name, listed)
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **made.allocatable}
        status = {"allocatable": amounts, "capacity": amounts}
        written = {"kind": "Node", "metadata": {"name": name, "annotations": dict(made.annotations)}, "status": status}
        world.add([*made.objects, written])
        objects += [*made.objects, written]
        for index, tenants in enumerate(cards):
            for memory, cores in tenants:
                device = device_of(world, name, f"{name}-{index}")
                assert device is not None
                piece = CardShare(device, memory, cores)
                tenant = pod(f"p{len(objects)}", dict(writer.asked([piece])), nodeName=name)
                tenant["metadata"]["annotations"] = annotations_of(world, name, [writer.assignment(piece)])
                tenant["status"] = {"phase": "Running", "containerStatuses": [{"name": "main"}]}
                objects.append(tenant)
    return objects


def suggested(dialect: str, objects: list[Object], **limits: object) -> list[str]:
    made, waiting = world_of(*objects, pod("asked", limits), dialect=dialect)
    return kinds(remedies(made, waiting)).get(RemedyType.ASK_LESS, [])


HALF = (SIZE // 2, 50)


@pytest.mark.parametrize(
    ("limits", "texts"),
    [
        ({PERCENT: 300}, [f"ask 200 of {PERCENT} instead of 300 in container main, 100 less"]),
        (
            {CORE: 300, RATIO: 300},
            [f"ask for 2 cards instead of 3 in container main: 200 of {CORE}, 200 of {RATIO}"],
        ),
        (
            {SHARED: 4, CORE: 400, RATIO: 400},
            [f"ask for 2 cards instead of 4 in container main: 2 of {SHARED}, 200 of {CORE}, 200 of {RATIO}"],
        ),
        (
            {SHARED: 4, CORE: 120, RATIO: 200},
            [
                f"ask for 3 cards instead of 4 in container main: 3 of {SHARED}, 90 of {CORE}, 150 of {RATIO}",
            ],
        ),
        ({SHARED: 3, RATIO: 240}, [f"ask 150 of {RATIO} instead of 240 in container main, 90 less"]),
    ],
)
def test_amounts_of_koordinator_change_together(limits: Object, texts: list[str]) -> None:
    found = suggested("koordinator", cluster("koordinator", [[], [], [HALF]]), **limits)
    assert [text for text in texts if text not in found] == []


def test_memory_that_koordinator_must_be_told() -> None:
    (text,) = suggested("koordinator", cluster("koordinator", [[HALF]]), **{SHARED: 1, CORE: 10})
    assert text == f"ask 8192Mi of {BYTES} (it does not say how much) in container main"


def _tenants(rng: np.random.Generator) -> list[tuple[int, int]]:
    return [(int(rng.integers(500, 5000)), int(rng.integers(0, 4)) * 10) for _ in range(int(rng.integers(0, 3)))]


def _random_cluster(dialect: str, rng: np.random.Generator) -> list[Object]:
    classes = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(1, 4)))]
    return cluster(dialect, *([_tenants(rng) for _ in range(cards)] for cards in classes))


def _of_volcano(rng: np.random.Generator) -> Object:
    limits: Object = {NUMBER: int(rng.integers(1, 5)), "cpu": str(int(rng.integers(1, 80)))}
    if rng.random() < 0.8:
        limits[MEMORY] = int(rng.integers(4000, 20000))
    if rng.random() < 0.6:
        limits[CORES] = int(rng.integers(1, 101))
    return limits


def _of_koordinator(rng: np.random.Generator) -> Object:
    shared, whole = int(rng.integers(1, 6)), 100 * int(rng.integers(1, 5))
    cores, ratio = (shared * int(rng.integers(1, 101)) for _ in range(2))
    memory = f"{shared * int(rng.integers(1000, 20000))}Mi"
    ways: list[Object] = [
        {PERCENT: whole},
        {PERCENT: int(rng.integers(1, 100))},
        {"nvidia.com/gpu": shared},
        {CORE: whole, RATIO: whole},
        {CORE: int(rng.integers(1, 101)), RATIO: whole},
        {CORE: int(rng.integers(1, 101)), BYTES: memory},
        {SHARED: shared, RATIO: ratio},
        {SHARED: shared, CORE: cores, RATIO: ratio},
        {SHARED: shared, CORE: cores, BYTES: memory},
    ]
    return ways[int(rng.integers(len(ways)))]


@pytest.mark.long
@pytest.mark.parametrize(("dialect", "seeds"), [("volcano", 40), ("koordinator", 120)])
def test_each_remedy_helps_and_is_minimal(dialect: str, seeds: int) -> None:
    seen: set[RemedyType] = set()
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        limits = _of_volcano(rng) if dialect == "volcano" else _of_koordinator(rng)
        seen |= check_remedies([*_random_cluster(dialect, rng), pod("asked", limits)], dialect)
    assert seen >= {RemedyType.ASK_LESS, RemedyType.END_PODS, RemedyType.ADD_NODE}


@pytest.mark.parametrize("seed", range(30))
def test_of_each_resource_one_amount_is_told_and_it_is_the_largest(seed: int) -> None:
    """What is asked of all cards together cannot be divided by their number, and is too much."""
    rng = np.random.default_rng(seed)
    shared, other = int(rng.integers(2, 4)), str(rng.choice([CORE, RATIO]))
    both = {CORE: shared * int(rng.integers(30, 60)), RATIO: shared * int(rng.integers(30, 60))}
    both[other] += 1
    objects = cluster("koordinator", [[(SIZE * 6 // 10, 60)] for _ in range(int(rng.integers(1, 3)))])
    made, waiting = world_of(*objects, pod("asked", {SHARED: shared, **both}), dialect="koordinator")
    for remedy in remedies(made, waiting):
        told = re.findall(r"(\d+) of (koordinator\S+\w)", remedy.text)
        assert len(told) == len({resource for _, resource in told}), remedy.text
        if remedy.type is not RemedyType.TOGETHER or remedy.pod is None or remedy.ended:
            continue
        ended = {made.bound[uid].name for uid in remedy.ended}
        left = [each for each in objects if each["metadata"]["name"] not in ended]
        assert ask(*world_of(*left, dict(remedy.pod), dialect="koordinator")).node == remedy.node
        limits = remedy.pod["spec"]["containers"][0]["resources"]["limits"]
        assert {resource: str(limits[resource]) for _, resource in told} == {name: amount for amount, name in told}
        more = pod("asked", {**limits, other: int(limits[other]) + 1})
        is_told = any(resource == other for _, resource in told)
        assert not is_told or not ask(*world_of(*left, more, dialect="koordinator")).node, remedy.text


def test_cards_of_pods_are_looked_up_in_the_dialect_that_they_are_of() -> None:
    made = World(EngineOptions([make_dialect("hami"), make_dialect("volcano")]))
    made.add(cluster("volcano", [[HALF]]))
    assert made.problems == []
    made.add([each for each in cluster("volcano", [[HALF]], [[HALF]]) if each["kind"] == "Pod"][1:])
    assert [str(each) for each in made.problems] == ["Pod default/p3: there is no node n1"]


@pytest.mark.parametrize("device", [{"type": "rdma", "minor": 0, "id": "0000:1f:00.0"}, {"type": "gpu", "minor": 7}])
def test_devices_of_several_nodes_may_be_called_alike_where_that_tells_no_card(device: Object) -> None:
    objects = cluster("koordinator", [[]], [[]])
    for listed in (each["spec"]["devices"] for each in objects if each["kind"] == "Device"):
        listed.append({**device, "health": True, "resources": {}})
    made = World(EngineOptions([make_dialect("koordinator")]), strict=True)
    made.add(objects)
    assert made.problems == []


def test_of_cards_that_there_are_devices_that_are_none_are_left_out() -> None:
    objects = cluster("koordinator", [[], []])
    for listed in (each["spec"]["devices"] for each in objects if each["kind"] == "Device"):
        listed.append({"type": "rdma", "minor": 0, "id": "0000:1f:00.0", "health": True, "resources": {}})
    asked = pod("asked", {"koordinator.sh/gpu": 100, "example.com/none": 1})
    made, waiting = world_of(*objects, asked, dialect="koordinator")
    (cause,) = explain_pod(made, waiting).causes
    assert re.fullmatch(r"No node offers any example\.com/none; the cards that there are: \S+ \(\d\)\.", cause), cause


def test_cards_without_a_model_are_listed_by_their_kind() -> None:
    objects = cluster("koordinator", [[]])
    for each in objects:
        each["metadata"].pop("labels", None)
    made, waiting = world_of(*objects, pod("asked", {PERCENT: 50, "example.com/none": 1}), dialect="koordinator")
    assert explain_pod(made, waiting).causes == (
        "No node offers any example.com/none; the cards that there are: gpu (1).",
    )


@pytest.mark.parametrize(("asked", "kept"), [(101, 100), (150, 100), (399, 300)])
def test_percentages_that_are_no_whole_number_of_devices_are_told_together(asked: int, kept: int) -> None:
    limits = {CORE: asked, RATIO: asked}
    made, waiting = world_of(*cluster("koordinator", [[]] * 4), pod("asked", limits), dialect="koordinator")
    (remedy,) = [each for each in remedies(made, waiting) if each.node and CORE in each.text and RATIO in each.text]
    corrected = (f"ask {kept} of {name} instead of {asked} in container main" for name in (CORE, RATIO))
    assert remedy.text == " and ".join(corrected)


@pytest.mark.parametrize("seed", range(50))
def test_less_of_compute_and_of_memory_together_is_told_where_less_of_one_would_not_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    used = [(int(rng.integers(1, 100)), int(rng.integers(1, 100))) for _ in range(int(rng.integers(1, 4)))]
    cards = [[(SIZE * ratio // 100, core)] for core, ratio in used]
    asks = {CORE: 101 - min(core for core, _ in used), RATIO: 102 - min(ratio for _, ratio in used)}
    asks |= {SHARED: 1} if rng.random() < 0.5 else {}
    objects = cluster("koordinator", cards)
    made, waiting = world_of(*objects, pod("asked", asks), dialect="koordinator")
    found = [each for each in remedies(made, waiting) if each.type is RemedyType.ASK_LESS and each.pod]
    both = [each for each in found if f" of {CORE} " in each.text and f" of {RATIO} " in each.text]
    assert both, [each.text for each in found]
    for remedy in both:
        assert remedy.pod is not None
        again, waiting = world_of(*objects, dict(remedy.pod), dialect="koordinator")
        assert ask(again, waiting).node == "n0"
