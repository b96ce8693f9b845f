"""Amounts that have to be smaller together: whoever asks for them fits, and one more of any does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running, world_of

from vgpu_scheduler.whatif import Remedy, RemedyType, World, ask, remedies

Object = dict[str, Any]


def quota(name: str, **hard: int) -> Object:
    limits = {f"limits.nvidia.com/{resource}": str(amount) for resource, amount in hard.items()}
    return {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"}, "spec": {"hard": limits}}


def drawn(seed: int) -> list[Object]:
    """Return nodes with room, quotas of which several are exceeded, and a pod of one container or of two."""
    rng = np.random.default_rng(seed)
    held = [running(f"r{n}", "a", f"GPU-a-{n}", 1000 * int(rng.integers(1, 4)), 10) for n in range(2)]
    memory, cores = 1000 * int(rng.integers(6, 14)), int(rng.integers(40, 90))
    used = sum(int(each["spec"]["containers"][0]["resources"]["limits"][MEMORY]) for each in held)
    asked = pod("asked", {GPU: 1, MEMORY: memory, CORES: cores})
    if rng.random() < 0.4:
        limits = {GPU: "1", MEMORY: str(memory), CORES: str(cores)}
        asked["spec"]["containers"].append({"name": "second", "resources": {"limits": limits}})
    if rng.random() < 0.2:  # of which it is not said how much
        del asked["spec"]["containers"][0]["resources"]["limits"][MEMORY]
    left = {"gpumem": used + int(rng.integers(2, memory)), "gpucores": 20 + int(rng.integers(2, cores))}
    hard = [quota("both", **left)] if rng.random() < 0.5 else [quota(name, **{name: left[name]}) for name in left]
    return [node("a", 4), *hard, *held, asked]


def node_of(objects: list[Object], asked: Object) -> str:
    made, waiting = world_of(*objects[:-1], asked)
    return ask(made, waiting).node


def less_of(objects: list[Object]) -> tuple[World, list[Remedy]]:
    made, waiting = world_of(*objects)
    assert not ask(made, waiting).node
    return made, [each for each in remedies(made, waiting) if each.type is RemedyType.ASK_LESS]


@pytest.mark.parametrize("seed", range(100))
def test_asking_less_of_several_is_told_where_less_of_one_would_not_do(seed: int) -> None:
    objects = drawn(seed)
    _, found = less_of(objects)
    assert found
    for remedy in found:
        assert remedy.pod is not None
        assert node_of(objects, dict(remedy.pod)) == remedy.node
        for number, container in enumerate(remedy.pod["spec"]["containers"]):
            limits = container["resources"]["limits"]
            for name in (MEMORY, CORES):
                if str(limits.get(name)) == str(_limits(objects[-1], number).get(name)):
                    continue
                assert f" of {name} " in remedy.text
                more = {**limits, name: str(int(limits[name]) + 1)}
                containers = [*remedy.pod["spec"]["containers"]]
                containers[number] = {**container, "resources": {"limits": more}}
                assert not node_of(objects, {**remedy.pod, "spec": {**remedy.pod["spec"], "containers": containers}})


def _limits(written: Object, number: int) -> dict[str, Any]:
    limits: dict[str, Any] = written["spec"]["containers"][number]["resources"]["limits"]
    return limits


def test_what_two_containers_share_is_shared_between_them() -> None:
    objects = [node("a", 4), quota("q", gpumem=8000, gpucores=50), pod("asked", {GPU: 1, MEMORY: 12000, CORES: 80})]
    limits = {GPU: "1", MEMORY: "12000", CORES: "80"}
    objects[-1]["spec"]["containers"].append({"name": "second", "resources": {"limits": limits}})
    _, (remedy,) = less_of(objects)
    assert remedy.pod is not None
    amounts = [[int(_limits(dict(remedy.pod), n)[name]) for n in range(2)] for name in (MEMORY, CORES)]
    assert [sum(each) for each in amounts] == [8000, 50]
    assert all(min(each) > max(each) // 2 for each in amounts)


def uneven(seed: int) -> list[Object]:
    """Return a node, or quotas, with too little memory and compute for the first of several containers."""
    rng = np.random.default_rng(seed)
    memory, cores = 1000 * int(rng.integers(8, 14)), int(rng.integers(50, 90))
    asked = pod("asked", {GPU: 1, MEMORY: memory, CORES: cores})
    for number in range(int(rng.integers(1, 3))):
        limits = {GPU: "1", MEMORY: str(int(rng.integers(100, 600)))}
        limits |= {CORES: str(int(rng.integers(1, 6)))} if rng.random() < 0.5 else {}
        asked["spec"]["containers"].append({"name": f"small{number}", "resources": {"limits": limits}})
    left = {"gpumem": int(rng.integers(memory // 2, memory)), "gpucores": int(rng.integers(cores // 2, cores))}
    if rng.random() < 0.5:
        return [node("a", 4), quota("q", **left), asked]
    return [node("a", 1), running("r", "a", "GPU-a-0", 16384 - left["gpumem"], 100 - left["gpucores"]), asked]


@pytest.mark.parametrize("seed", range(80))
def test_no_amount_is_made_smaller_that_could_stay_beside_less_of_the_others(seed: int) -> None:
    objects = uneven(seed)
    _, found = less_of(objects)
    assert found
    for remedy in found:
        containers = dict(remedy.pod or {})["spec"]["containers"]
        before = [_limits(objects[-1], number) for number in range(len(containers))]
        changed = [
            (number, name)
            for number, container in enumerate(containers)
            for name, amount in container["resources"]["limits"].items()
            if str(amount) != str(before[number].get(name))
        ]
        assert {number for number, _ in changed} == {0}
        for kept in changed:
            listed = [dict(each) for each in before]
            for number, name in changed:
                listed[number] |= {} if (number, name) == kept else {name: "1"}
            again = [{**each, "resources": {"limits": listed[n]}} for n, each in enumerate(containers)]
            assert not node_of(objects, {**objects[-1], "spec": {"containers": again}})


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_nobody_is_told_to_ask_next_to_nothing_so_that_another_container_keeps_nearly_all(seed: int) -> None:
    """And what has to be for good is said last, beside whatever else is to be done."""
    rng = np.random.default_rng(seed)
    used, first, second = (int(rng.integers(*each)) for each in ((3000, 7000), (14000, 16000), (13000, 16000)))
    held = running("held", "a", "GPU-a-0", used)
    held["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "controller": True}]
    asked = pod("asked", {GPU: 1, MEMORY: first})
    asked["spec"]["containers"].append({"name": "c1", "resources": {"limits": {GPU: "1", MEMORY: str(second)}}})
    objects = [node("a", 1), held, asked]
    made, waiting = world_of(*objects)
    found = [each for each in remedies(made, waiting) if each.pod is not None]
    assert any(not each.ended for each in found)
    for remedy in found:
        amounts = [int(each["resources"]["limits"][MEMORY]) for each in (remedy.pod or {})["spec"]["containers"]]
        assert min(amounts) > 100, remedy.text
    for remedy in remedies(made, waiting):
        assert ("this must be permanent" in remedy.text) is bool(remedy.ended)
        assert not remedy.ended or remedy.text.endswith("or the replacement may take the room first")
