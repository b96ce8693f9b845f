"""Limits of policies: each that a pod is beyond is named, and what is suggested keeps them or has them raised."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, kinds, node, pod, world_of

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import (
    Remedy,
    RemedyType,
    World,
    ask,
    make_dialect,
    remedies,
    remedies_from_condition,
)

Object = dict[str, Any]

FIELDS = ("devicesPerPod", "coresPerPod", "memoryPerPod", "exclusiveCardsPerPod")
GIB = 2**30


def policy(name: str, limits: Object) -> Object:
    return {"kind": "ClusterVGPUPolicy", "metadata": {"name": name}, "spec": {"limits": limits}}


def drawn(seed: int) -> tuple[list[Object], Object]:
    """Return policies with limits, and a pod of some containers that may say nothing of memory or compute."""
    rng = np.random.default_rng(seed)
    most = {"devicesPerPod": 4, "coresPerPod": 300, "memoryPerPod": 24, "exclusiveCardsPerPod": 3}
    policies = []
    for number in range(int(rng.integers(1, 4))):
        chosen = rng.choice(FIELDS, size=int(rng.integers(1, 4)), replace=False)
        limits: Object = {str(field): int(rng.integers(0, most[str(field)])) for field in chosen}
        if "memoryPerPod" in limits:
            limits["memoryPerPod"] = f"{limits['memoryPerPod'] + 1}Gi"
        policies.append(policy(f"p{number}", limits))
    asked = pod("asked", share(rng))
    if rng.random() < 0.4:
        limits = {key: str(value) for key, value in share(rng).items()}
        asked["spec"]["containers"].append({"name": "beside", "resources": {"limits": limits}})
    return policies, asked


def share(rng: np.random.Generator) -> Object:
    found: Object = {GPU: int(rng.integers(1, 4))}
    if rng.random() < 0.7:
        found[MEMORY] = 1024 * int(rng.integers(1, 12))
    if rng.random() < 0.6:
        found[CORES] = int(rng.choice([10, 30, 60, 100]))
    return found


def sums(asked: Object) -> dict[str, int]:
    """Return what a pod counts as, by the field of the limit."""
    found = dict.fromkeys(FIELDS, 0)
    for container in asked["spec"]["containers"]:
        limits = {key: int(value) for key, value in container["resources"]["limits"].items()}
        count, memory, cores = limits.get(GPU, 0), limits.get(MEMORY, 0), limits.get(CORES, 0)
        found["devicesPerPod"] += count
        found["coresPerPod"] += count * (cores or 100)
        found["memoryPerPod"] += count * memory * 2**20
        found["exclusiveCardsPerPod"] += count * (cores == 100 or not memory)
    return found


def bounds(policies: list[Object]) -> dict[str, int]:
    """Return the smallest limit of each field."""
    found: dict[str, int] = {}
    for each in policies:
        for field, limit in each["spec"]["limits"].items():
            value = int(str(limit).removesuffix("Gi")) * (GIB if field == "memoryPerPod" else 1)
            found[field] = min(value, found.get(field, value))
    return found


def cluster() -> list[Object]:
    nodes = [node(name, cards=6) for name in "ab"]
    for each in nodes:
        each["status"]["allocatable"]["memory"] = "1Ti"
    return nodes


def placed(objects: list[Object]) -> str:
    made, waiting = world_of(*objects)
    return ask(made, waiting).node


def changed(objects: list[Object], remedy: Remedy) -> list[Object]:
    """Return a cluster with what a remedy changes."""
    given = {(each["kind"], each["metadata"]["name"]): dict(each) for each in remedy.objects}
    found = [given.pop((each["kind"], each["metadata"]["name"]), each) for each in objects]
    return [*(remedy.pod if remedy.pod and each["kind"] == "Pod" else each for each in found), *given.values()]


@pytest.mark.parametrize("seed", range(200))
def test_limits_are_all_named_and_what_is_suggested_keeps_them_or_has_them_raised(seed: int) -> None:
    policies, asked = drawn(seed)
    objects = [*cluster(), *policies, asked]
    made, waiting = world_of(*objects)
    answer, now, most = ask(made, waiting), sums(asked), bounds(policies)
    beyond = {field for field, bound in most.items() if now[field] > bound}
    message = answer.decision.message
    assert {field for field in FIELDS if f"limits.{field} of" in message} == beyond
    unnamed = any(CORES not in each["resources"]["limits"] for each in asked["spec"]["containers"])
    if "coresPerPod" in beyond:
        assert ("(it asks for no cores of" in message) is unnamed
        assert (f"asks for {now['coresPerPod']} percent" in message) is not unnamed
    if answer.node or not beyond:
        return
    found = remedies(made, waiting)
    raised = [remedy for remedy in found if remedy.type is RemedyType.RAISE_LIMIT]
    assert len(raised) == 1
    for remedy in found:
        after = changed(objects, remedy)
        assert placed(after) == remedy.node, remedy.text
        if remedy.pod is not None and "exclusiveCardsPerPod" in beyond:
            then = sums(dict(remedy.pod))
            freed = now["exclusiveCardsPerPod"] - then["exclusiveCardsPerPod"]
            assert freed <= now["devicesPerPod"] - then["devicesPerPod"], f"a way around a limit: {remedy.text}"
    for each in map(deepcopy, raised[0].objects):
        before = next(every for every in policies if every["metadata"]["name"] == each["metadata"]["name"])
        for field, limit in each["spec"]["limits"].items():
            if limit != before["spec"]["limits"][field]:
                lower = {**each["spec"]["limits"], field: now[field] - 1}
                others = [other for other in raised[0].objects if other["metadata"]["name"] != each["metadata"]["name"]]
                less = Remedy(raised[0].type, (), "", objects=(*others, {**each, "spec": {"limits": lower}}))
                assert not placed(changed(objects, less)), f"{field} need not be {limit}"


@pytest.mark.long
def test_what_is_suggested_is_of_every_kind() -> None:
    texts = []
    for seed in range(80):
        policies, asked = drawn(seed)
        made, waiting = world_of(*cluster(), *policies, asked)
        texts += [] if ask(made, waiting).node else [remedy.text for remedy in remedies(made, waiting)]
    assert any(f"of {CORES} (it asks for none, and counts as all of its cards)" in text for text in texts)
    assert any(" and ask " in text for text in texts)
    assert any(text.count(" to ") > 1 for text in texts)


def test_a_pod_that_names_no_cores_is_told_what_it_counts_as() -> None:
    made, waiting = world_of(*cluster(), policy("half", {"coresPerPod": 50}), pod("asked", {GPU: 1, MEMORY: 1024}))
    assert ask(made, waiting).decision.message == (
        "0/2 nodes are available: pod counts as 100 percent of compute (it asks for no cores of 1 device),"
        " limits.coresPerPod of ClusterVGPUPolicy half allows 50."
    )
    told = kinds(remedies(made, waiting))
    assert told[RemedyType.ASK_LESS] == [
        f"ask 50 of {CORES} (it asks for none, and counts as all of its cards) in container main"
    ]
    assert told[RemedyType.RAISE_LIMIT] == [
        "have limits.coresPerPod of ClusterVGPUPolicy half raised to 100 (it is 50)"
    ]


@pytest.mark.parametrize("seed", range(60))
def test_who_may_not_see_policies_is_told_of_each_limit(seed: int) -> None:
    policies, asked = drawn(seed)
    made, waiting = world_of(*cluster(), *policies, asked)
    now, most = sums(asked), bounds(policies)
    beyond = {field for field, bound in most.items() if now[field] > bound}
    alone, same = world_of(*cluster(), asked)
    told = remedies_from_condition(alone, same, ask(made, waiting).decision.message, "").remedies
    assert {field for field in FIELDS if any(f"limits.{field} of ClusterVGPUPolicy" in text for text in told)} == beyond


@pytest.mark.parametrize(("most", "asked"), [(1, 400), (2, 300), (3, 800)])
def test_who_may_not_see_policies_is_told_the_most_whole_devices_of_koordinator(most: int, asked: int) -> None:
    world = World(EngineOptions([make_dialect("koordinator")]))
    waits = world.pod(pod("p", {"koordinator.sh/gpu": asked}))
    limit = f"limits.devicesPerPod of VGPUPolicy team/mine allows {most}"
    message = f"0/6 nodes are available: pod asks for {asked // 100} devices, {limit}."
    first, _ = remedies_from_condition(world, waits, message, "").remedies
    assert first.startswith(f"ask {100 * most} of koordinator.sh/gpu instead of {asked} in container main")
