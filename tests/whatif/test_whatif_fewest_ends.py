"""Pods that would have to end where a quota counts: no fewer would do, wherever they are, of no higher priority."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_ending import budget, owned
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import RemedyType, World, make_dialect, remedies, simulate

Object = dict[str, Any]

ASKED = "asked"


def world_of(objects: list[Object]) -> World:
    made = World(EngineOptions([make_dialect("hami")]))
    made.add(objects)
    return made


def placed(objects: list[Object], gone: Collection[str] = ()) -> bool:
    """Tell whether the pod gets a place once others are gone: those that fit now have theirs, then those before it."""
    made = world_of(deepcopy(objects))
    answers = simulate(made, made.pending.values(), as_they_are=True, explained=False)
    there = {answer.pod.uid for answer in answers if answer.node}
    for uid in gone:
        made.remove_pod(uid)
    left = [each for each in made.pending.values() if each.uid not in there]
    answers += simulate(made, left, as_they_are=True, explained=False)
    return any(answer.node for answer in answers if answer.pod.name == ASKED)


def quota(namespace: str, name: str, **hard: int) -> Object:
    limits = {f"limits.nvidia.com/{resource}": str(amount) for resource, amount in hard.items()}
    return {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": namespace}, "spec": {"hard": limits}}


def in_namespace(obj: Object, namespace: str) -> Object:
    obj["metadata"] |= {"namespace": namespace, "uid": f"{namespace}/{obj['metadata']['name']}"}
    return obj


def drawn(seed: int, most_nodes: int = 3, most_pods: int = 6) -> list[Object]:
    """Return nodes, pods of two namespaces with quotas of which some wait, and in the end a pod that waits for long."""
    rng = np.random.default_rng(seed)
    names = [f"n{number}" for number in range(int(rng.integers(1, most_nodes + 1)))]
    objects = [node(name, int(rng.integers(1, 3)), labels={"node": name}) for name in names]
    held = {"t": [0, 0], "v": [0, 0]}
    for number in range(int(rng.integers(2, most_pods + 1))):
        home, name = str(rng.choice(["t", "t", "v"])), str(rng.choice(names))
        listed = next(each for each in objects if each["metadata"]["name"] == name)
        cards = int(listed["status"]["allocatable"][GPU]) // 10
        memory, cores = int(rng.integers(1, 9)) * 1000, int(rng.integers(0, 4)) * 10
        card = f"GPU-{name}-{rng.integers(cards)}"
        made = running(f"r{number}", name, card, memory, cores, priority=int(rng.integers(0, 2)))
        made["metadata"]["labels"] = {"app": str(rng.choice(["a", "b"]))}
        if rng.random() < 0.25:
            owned(made, "ReplicaSet", "web")
        if rng.random() < 0.1:
            made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        objects.append(in_namespace(made, home))
        held[home] = [held[home][0] + memory, held[home][1] + cores]
    for home, (memory, cores) in held.items():
        over = int(rng.integers(-4, 9)) * 1000
        hard = {"gpumem": max(memory + over, 0)} if home == "t" or rng.random() < 0.3 else {}
        hard |= {"gpucores": max(cores + int(rng.integers(-2, 6)) * 10, 0)} if rng.random() < 0.4 else {}
        if hard:
            objects.append(quota(home, "q", **hard))
    if rng.random() < 0.3:
        protected = budget("b", "a", int(rng.integers(0, 2)))
        protected["metadata"]["namespace"] = "t"
        objects.append(protected)
    for number in range(int(rng.integers(0, 3)) if rng.random() < 0.4 else 0):
        before = pod(
            f"w{number}", {GPU: 1, MEMORY: int(rng.integers(1, 14)) * 1000}, priority=1, schedulerName="vgpu-scheduler"
        )
        objects.append(in_namespace(before, str(rng.choice(["t", "v"]))))
    selector = {"nodeSelector": {"node": str(rng.choice(names))}} if rng.random() < 0.3 else {}
    limits = {
        GPU: int(rng.integers(1, 3)),
        MEMORY: int(rng.integers(1, 15)) * 1000,
        CORES: int(rng.integers(0, 5)) * 10,
    }
    return [*objects, in_namespace(pod(ASKED, limits, priority=1, schedulerName="vgpu-scheduler", **selector), "t")]


@cache
def checked(seed: int) -> tuple[int, ...]:
    """Hold what is said of a cluster against all sets of pods; return how many would have to end, for each answer."""
    objects = drawn(seed)
    made = world_of(objects)
    (asked,) = [each for each in made.pending.values() if each.name == ASKED]
    if placed(objects):
        return ()
    found = [each for each in remedies(made, asked) if each.type in {RemedyType.END_PODS, RemedyType.WAIT}]
    bound, budgets = list(made.bound.values()), made.engine.budgets.all()
    going = {each.uid for each in bound if each.deleting}
    staying = [each for each in bound if not each.deleting]
    counts = []
    for remedy in found:
        uids = set(remedy.ended)
        ended = [each for each in staying if each.uid in uids]
        assert placed(objects, uids), remedy.text
        for uid in uids:
            assert not placed(objects, uids - {uid}), f"{uid} could stay: {remedy.text}"
        priority = max((each.priority for each in ended), default=0)
        for size in range(len(ended)):
            for fewer in combinations(staying, size):
                if not all(each.allows(fewer) for each in budgets):
                    continue
                comes_back = (*fewer, *(each for each in bound if each.deleting))
                worse = any(each.priority > priority for each in fewer) or any(each.owner_kind for each in comes_back)
                assert worse or not placed(objects, {*going, *(each.uid for each in fewer)}), (
                    f"{[each.key for each in fewer]} would do: {remedy.text}"
                )
        counts.append(len(ended))
    if not found:
        for size in range(len(staying) + 1):
            for some in combinations(staying, size):
                allowed = all(each.allows(some) for each in budgets)
                assert not allowed or not placed(objects, {*going, *(each.uid for each in some)}), (
                    f"{[each.key for each in some]} would do, and nothing is said"
                )
    return tuple(counts)


@pytest.mark.parametrize("seed", range(100))
def test_no_fewer_pods_of_no_higher_priority_would_do(seed: int) -> None:
    checked(seed)


@pytest.mark.long
def test_enough_of_these_clusters_need_the_end_of_several() -> None:
    counts = [count for seed in range(60) for count in checked(seed)]
    assert min(counts.count(number) for number in (1, 2, 3)) > 2, sorted(counts)


def larger(seed: int) -> list[Object]:
    """Return more nodes and pods, of which too many sets can be made to try them all."""
    return drawn(1000 + seed, most_nodes=8, most_pods=24)


@pytest.mark.parametrize("seed", range(60))
def test_no_single_pod_and_no_two_would_do_where_more_are_named_in_larger_clusters(seed: int) -> None:
    objects = larger(seed)
    made = world_of(objects)
    (asked,) = [each for each in made.pending.values() if each.name == ASKED]
    if placed(objects):
        return
    found = [each for each in remedies(made, asked) if each.type is RemedyType.END_PODS]
    bound, budgets = list(made.bound.values()), made.engine.budgets.all()
    going = {each.uid for each in bound if each.deleting}
    first = [each for each in bound if not each.owner_kind and not each.deleting]
    for remedy in found:
        ended = [each for each in bound if each.uid in remedy.ended and not each.deleting]
        assert placed(objects, remedy.ended), remedy.text
        low = [each for each in first if each.priority <= max(each.priority for each in ended)]
        comes_back = any(each.owner_kind for each in bound if each.deleting)
        for size in range(min(len(ended), 3) if not comes_back else 0):
            for fewer in combinations(low, size):
                if all(each.allows(fewer) for each in budgets):
                    assert not placed(objects, {*going, *(each.uid for each in fewer)}), remedy.text


@pytest.mark.parametrize(("needed", "others", "ends"), [(1, 0, True), (2, 0, False), (2, 1, False), (3, 2, False)])
def test_pods_without_which_the_group_would_be_too_small_are_not_ended(needed: int, others: int, *, ends: bool) -> None:
    gang = "gang.scheduling.koordinator.sh"
    of_group = {f"{gang}/name": "G", f"{gang}/min-available": str(needed)}
    member, names = running("m0", "n0", "GPU-n0-0", 12000), [ASKED, *(f"m{number + 1}" for number in range(others))]
    waits = [pod(name, {GPU: 1, MEMORY: 12000}, schedulerName="vgpu-scheduler") for name in names]
    for each in (member, *waits):
        each["metadata"].setdefault("annotations", {}).update(of_group)
    made = world_of([node("n0", 1), member, *waits])
    waiting = next(each for each in made.pending.values() if each.name == ASKED)
    told = [remedy.text for remedy in remedies(made, waiting) if remedy.type is RemedyType.END_PODS]
    assert told == (["end pod default/m0 on node n0"] if ends else [])


@pytest.mark.parametrize("questions", [600, 0])
@pytest.mark.parametrize("seed", seeds(3, 40))
def test_the_end_of_one_pod_is_found_where_that_of_more_leaves_nobody_to_be_near_to(
    seed: int, questions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few questions there are for a search of the fewest."""
    monkeypatch.setattr("vgpu_scheduler.whatif.advice.fewest_ends._MOST_QUESTIONS", questions)
    rng = np.random.default_rng(seed)
    objects = [node("n0", cards := int(rng.integers(2, 5)), labels={"kubernetes.io/hostname": "n0"})]
    for number in range(cards):
        made = running(f"r{number}", "n0", f"GPU-n0-{number}", 16000, 0, priority=int(rng.integers(0, 2)))
        made["metadata"]["labels"] = {"app": "web"}
        objects.append(made)
    near = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    asked = pod(ASKED, {GPU: "1", MEMORY: "8000"})
    asked["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    world = world_of([*objects, asked])
    texts = [each.text for each in remedies(world, next(iter(world.pending.values())))]
    assert [text for text in texts if text.startswith("end pod ") and " and " not in text], texts
