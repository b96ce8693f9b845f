"""Remedies: what is suggested makes the pod fit, and less of it does not."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.whatif import InvalidObjectsError, Remedy, RemedyType, World, ask, make_dialect, remedies
from vgpu_scheduler.whatif.objects.amounts import amounts_of
from vgpu_scheduler.whatif.world.simulation import created

GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
PERCENT = "nvidia.com/gpumem-percentage"


def node(name: str, cards: int = 2, memory: int = 16384, **spec: Any) -> dict[str, Any]:
    registered = ":".join(f"GPU-{name}-{n},10,{memory},100,NVIDIA-A100,0,true,{n},hami-core" for n in range(cards))
    annotations = {"hami.io/node-nvidia-register": registered + ":"} if cards else {}
    if cordoned := spec.pop("cordoned", ()):
        annotations["hami.io/device-cordon"] = ",".join(f"GPU-{name}-{n}" for n in cordoned)
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: str(10 * cards)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": spec.pop("labels", {}), "annotations": annotations},
        "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def pod(name: str, limits: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
    resources = {"limits": {key: str(value) for key, value in limits.items()}}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "resources": resources}], **more},
    }


def running(name: str, where: str, card: str, memory: int, cores: int = 0, **more: Any) -> dict[str, Any]:
    entry = f"{card},NVIDIA,{memory},{cores}:;"
    annotations = {"hami.io/vgpu-node": where, "hami.io/vgpu-devices-allocated": entry}
    more = {"schedulerName": "vgpu-scheduler", **more}
    return pod(
        name, {GPU: 1, MEMORY: memory, CORES: cores}, nodeName=where, metadata={"annotations": annotations}, **more
    )


def world_of(*objects: dict[str, Any], dialect: str = "hami") -> tuple[World, Pod]:
    made = World(EngineOptions([make_dialect(dialect)]))
    made.add(objects)
    (waiting,) = made.pending.values()
    return made, waiting


def kinds(found: list[Remedy]) -> dict[RemedyType, list[str]]:
    told: dict[RemedyType, list[str]] = {}
    for remedy in found:
        told.setdefault(remedy.type, []).append(remedy.text)
    return told


def test_less_memory_or_one_pod_less_or_one_more_node() -> None:
    made, waiting = world_of(
        node("a", cards=1),
        running("first", "a", "GPU-a-0", 4000),
        running("second", "a", "GPU-a-0", 6000),
        pod("large", {GPU: 1, MEMORY: 12000}),
    )
    assert kinds(remedies(made, waiting)) == {
        RemedyType.ASK_LESS: ["ask 6384 of nvidia.com/gpumem instead of 12000 in container main, 5616 less"],
        RemedyType.END_PODS: ["end pod default/second on node a"],
        RemedyType.ADD_NODE: ["add a node like a"],
    }


def test_several_pods_of_which_none_could_stay() -> None:
    made, waiting = world_of(
        node("a", cards=1),
        *(running(f"p{n}", "a", "GPU-a-0", 5000, priority=n) for n in range(3)),
        pod("large", {GPU: 1, MEMORY: 11000}),
    )
    told = kinds(remedies(made, waiting))
    assert told[RemedyType.END_PODS] == ["end 2 pods on node a: default/p0, default/p1"]


@pytest.mark.parametrize("lock", ["nonsense", "2026-01-01T00:00:00Z,default,holder"])
def test_ending_pods_does_not_help_on_a_node_that_a_lock_closes(lock: str) -> None:
    closed = node("a", cards=1)
    closed["metadata"]["annotations"]["hami.io/mutex.lock"] = lock
    holder = pod("holder", {GPU: 1}, schedulerName="hami-scheduler", nodeName="a")
    objects = [closed, holder, running("first", "a", "GPU-a-0", 12000), pod("asked", {GPU: 1, MEMORY: 12000})]
    made = World(EngineOptions([make_dialect("hami")]))
    made.add(objects)
    (waiting,) = made.pending.values()
    assert RemedyType.END_PODS not in kinds(remedies(made, waiting))
    del closed["metadata"]["annotations"]["hami.io/mutex.lock"]
    made, waiting = world_of(*objects)
    assert RemedyType.END_PODS in kinds(remedies(made, waiting))


def test_memory_of_which_nothing_was_said() -> None:
    made, waiting = world_of(
        node("a", cards=1), running("first", "a", "GPU-a-0", 4000), pod("whole", {GPU: 1, CORES: 10})
    )
    (text,) = kinds(remedies(made, waiting))[RemedyType.ASK_LESS]
    assert text == "ask 12384 of nvidia.com/gpumem (it does not say, and gets whole cards) in container main"


@pytest.mark.parametrize("seed", range(20))
def test_what_a_pod_gets_of_which_it_says_nothing_is_what_policies_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, cores = int(rng.integers(5, 16)), int(rng.integers(60, 100))
    defaults = {name: value for name, value in (("memory", f"{memory}Gi"), ("cores", cores)) if rng.random() < 0.7}
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "d"}, "spec": {"defaults": defaults}}
    full = running("first", "a", "GPU-a-0", 15000)
    made, waiting = world_of(node("a", cards=1), full, *([policy] if defaults else []), pod("asked", {GPU: 1}))
    texts = " ".join(remedy.text for remedy in remedies(made, waiting))
    whole, by_policy = "gets whole cards", f"gets {memory * 1024} MiB by a policy"
    assert (whole in texts, by_policy in texts) == ("memory" not in defaults, "memory" in defaults), texts
    asks = {GPU: 1, MEMORY: 1000}
    full = running("first", "a", "GPU-a-0", 1000, 50)
    made, waiting = world_of(node("a", cards=1), full, *([policy] if defaults else []), pod("asked", asks))
    if "cores" in defaults:
        texts = " ".join(remedy.text for remedy in remedies(made, waiting))
        assert f"ask 50 of {CORES} (it asks for none, and gets {cores} percent by a policy)" in texts


@pytest.mark.parametrize(("written", "shown"), [("12k", "12k"), ("12000", "12000")])
def test_amounts_as_the_api_server_writes_them(written: str, shown: str) -> None:
    made, waiting = world_of(
        node("a", cards=1), running("r", "a", "GPU-a-0", 6000), pod("p", {GPU: 1, MEMORY: written})
    )
    (text,) = kinds(remedies(made, waiting))[RemedyType.ASK_LESS]
    assert text == f"ask 10384 of nvidia.com/gpumem instead of {shown} in container main, 1616 less"


def test_nodes_and_cards_are_uncordoned() -> None:
    made, waiting = world_of(
        node("a", cards=2, cordoned=(0, 1)), node("b", unschedulable=True), pod("p", {GPU: 1, MEMORY: 1000})
    )
    told = kinds(remedies(made, waiting))
    assert told[RemedyType.UNCORDON_CARD] == ["uncordon card GPU-a-0 of node a", "uncordon card GPU-a-1 of node a"]
    assert told[RemedyType.UNCORDON_NODE] == ["uncordon node b"]


def test_what_keeps_it_from_nodes_is_left_out() -> None:
    made, waiting = world_of(
        node("a", labels={"pool": "x"}, taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}]),
        node("b"),
        pod(
            "p",
            {GPU: 1, MEMORY: 1000},
            nodeSelector={"pool": "y"},
            metadata={"annotations": {"nvidia.com/use-gputype": "A100"}},
        ),
    )
    told = kinds(remedies(made, waiting))
    assert told == {RemedyType.DROP_CONSTRAINT: ["leave out its nodeSelector (spec.nodeSelector)"]}


def test_taints_are_tolerated_the_fewest_first() -> None:
    one, two = ({"key": key, "value": "x", "effect": "NoSchedule"} for key in ("one", "two"))
    asked = pod("p", {GPU: 1, MEMORY: 1000})
    for fewest in (one, two):
        made, waiting = world_of(node("a", taints=[one, two]), node("b", taints=[fewest]), asked)
        assert kinds(remedies(made, waiting))[RemedyType.TOLERATE] == [f"tolerate {fewest['key']}=x:NoSchedule"]


def test_nobody_is_told_to_tolerate_a_node_that_is_not_ready() -> None:
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    made, waiting = world_of(node("a", taints=[not_ready]), pod("p", {GPU: 1, MEMORY: 1000}))
    assert RemedyType.TOLERATE not in kinds(remedies(made, waiting))


def test_a_quota_is_raised_by_as_little_as_does() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}},
    }
    made, waiting = world_of(node("a"), quota, running("r", "a", "GPU-a-0", 2000), pod("p", {GPU: 1, MEMORY: 4000}))
    told = kinds(remedies(made, waiting))
    assert told[RemedyType.RAISE_QUOTA] == [
        "raise limits.nvidia.com/gpumem of ResourceQuota default/q to 6000 (it is 5000)"
    ]
    assert told[RemedyType.ASK_LESS] == ["ask 3000 of nvidia.com/gpumem instead of 4000 in container main, 1000 less"]


def _random_objects(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    objects: list[dict[str, Any]] = []
    for number in range(int(rng.integers(1, 5))):
        name, cards = f"n{number}", int(rng.integers(0, 4))
        spec: dict[str, Any] = {"labels": {"pool": str(rng.choice(["x", "y"]))}}
        if rng.random() < 0.3:
            spec["unschedulable"] = True
        if rng.random() < 0.3:
            spec["taints"] = [{"key": str(rng.choice(["k", "l"])), "value": "v", "effect": "NoSchedule"}]
        if cards and rng.random() < 0.4:
            spec["cordoned"] = tuple(range(int(rng.integers(1, cards + 1))))
        objects.append(node(name, cards, int(rng.choice([8192, 16384])), **spec))
        for card in range(cards):
            for tenant in range(int(rng.integers(0, 4))):
                memory, cores = int(rng.integers(500, 3000)), int(rng.integers(0, 4)) * 10
                objects.append(
                    running(
                        f"{name}-{card}-{tenant}",
                        name,
                        f"GPU-{name}-{card}",
                        memory,
                        cores,
                        priority=int(rng.integers(0, 3)),
                    )
                )
    limits: dict[str, Any] = {GPU: int(rng.integers(1, 4)), "cpu": str(int(rng.integers(1, 12)))}
    if rng.random() < 0.8:
        limits[MEMORY] = int(rng.integers(4000, 20000))
    if rng.random() < 0.5:
        limits[CORES] = int(rng.integers(1, 101))
    more: dict[str, Any] = {"nodeSelector": {"pool": "x"}} if rng.random() < 0.4 else {}
    if rng.random() < 0.3:
        objects.append(_quota(MEMORY, int(rng.integers(4000, 20000))))
    asked = pod("asked", limits, **more)
    if rng.random() < 0.3:
        asked["metadata"]["annotations"] = {"nvidia.com/nouse-gpuuuid": "GPU-n0-0"}
    if rng.random() < 0.3:
        asked["spec"]["containers"].append({"name": "beside", "resources": {"limits": {"cpu": "1", **_slice(rng)}}})
    return [*objects, asked]


def _slice(rng: np.random.Generator) -> dict[str, Any]:
    return {GPU: 1, MEMORY: int(rng.integers(500, 9000))} if rng.random() < 0.5 else {}


def _quota(resource: str, amount: int) -> dict[str, Any]:
    metadata = {"name": "q", "namespace": "default"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {f"limits.{resource}": str(amount)}}}


def _node_of(made: World, asked: Pod) -> str:
    answer = ask(made, asked)
    return answer.node if answer.decision.outcome is Outcome.PLACED else ""


def _fits(made: World, asked: Pod, node: str) -> bool:
    return made.engine.algorithm.node_fit.fits_without(created(made, asked, asked.uid), node, ()) is not None


def _applied(objects: list[dict[str, Any]], remedy: Remedy, made: World) -> tuple[World, Pod]:
    """Return the cluster made anew with what a remedy suggests, from its objects alone."""
    ended = {made.bound[uid].key for uid in remedy.ended}
    changed = {(each["kind"], each["metadata"]["name"]): each for each in remedy.objects}
    kept = [
        changed.pop((each["kind"], each["metadata"]["name"]), each)
        for each in objects
        if each["kind"] != "Pod" or f"default/{each['metadata']['name']}" not in ended
    ]
    pods = {"asked": remedy.pod} if remedy.pod is not None else {}
    kept = [pods.get(each["metadata"]["name"], each) if each["kind"] == "Pod" else each for each in kept]
    return world_of(*kept, *changed.values(), dialect=made.engine.dialects.first.name)


def check_remedies(objects: list[dict[str, Any]], dialect: str = "hami") -> set[RemedyType]:
    """Hold what is suggested for the last object, a pod, against the cluster made anew; return the kinds of it."""
    made, waiting = world_of(*objects, dialect=dialect)
    if _node_of(made, waiting):
        return set()
    found = remedies(made, waiting)
    assert not _node_of(made, waiting), "a search left something behind"
    for remedy in found:
        assert _node_of(*_applied(objects, remedy, made)) == remedy.node, remedy.text
        if remedy.type is RemedyType.END_PODS:
            for uid in remedy.ended:
                fewer = Remedy(remedy.type, (), "", ended=tuple(other for other in remedy.ended if other != uid))
                again, asked = _applied(objects, fewer, made)
                assert (
                    again.engine.algorithm.node_fit.fits_without(created(again, asked, asked.uid), remedy.node, ())
                    is None
                ), remedy.text
        if remedy.type is RemedyType.RAISE_QUOTA:
            (lower,) = [each for each in map(deepcopy, remedy.objects) if each["kind"] == "ResourceQuota"]
            hard = lower["spec"]["hard"]
            for key, amount in hard.items():
                hard[key] = str(int(amount) - 1)
            assert not _node_of(*_applied(objects, replace(remedy, objects=(lower,)), made)), remedy.text
        if remedy.type is RemedyType.TOLERATE:
            assert remedy.pod is not None
            tolerated = remedy.pod["spec"]["tolerations"]
            own = made.written(waiting)["spec"].get("tolerations", ())
            for toleration in (each for each in tolerated if each not in own):
                fewer_pod = deepcopy(remedy.pod)
                fewer_pod["spec"]["tolerations"] = [each for each in tolerated if each != toleration]
                again, asked = _applied(objects, replace(remedy, pod=fewer_pod), made)
                assert (
                    again.engine.algorithm.node_fit.fits_without(created(again, asked, asked.uid), remedy.node, ())
                    is None
                ), remedy.text
    written = made.written(waiting)
    told = {remedy.text: remedy for remedy in found if remedy.type is RemedyType.ASK_LESS}
    for amount in amounts_of(written, made.engine.dialects, waiting, made.engine.algorithm.classes.claims(waiting)):
        suggested = next((n for n in _some(amount.steps) if amount.request_text(n) in told), 0)
        if not suggested:  # which may be another number than those that are looked at
            texts = [text for text in told if _is_about(text, amount.request_text(1))]
            suggested = _number_in(texts[0]) if texts else 0
        larger = [steps for steps in _some(amount.steps) if steps > suggested]
        fits = [
            n for n in (suggested + 1, *larger) if n < amount.steps and _fits_with(made, amount.applied(written, n))
        ]
        assert not fits, f"{amount.request_text(fits[0])} would do, and {suggested} was suggested"
    return {remedy.type for remedy in found}


def _some(steps: int) -> list[int]:
    """Return numbers below an amount: all of them, or the round ones and those at its ends."""
    if steps <= 130:
        return list(range(1, steps))
    return sorted({1, 2, steps // 2, steps - 2, steps - 1, *range(10, 101, 10), *range(100, min(steps, 801), 100)})


def _is_about(text: str, other: str) -> bool:
    return re.sub("[0-9]+m?", "", text) == re.sub("[0-9]+m?", "", other)


def _number_in(text: str) -> int:
    """Return an amount in steps: of compute of a node, thousandths."""
    found = re.search("[0-9]+", text)
    assert found is not None
    return int(found.group()) * (1000 if text[found.end() :].startswith(" of cpu") else 1)


def _fits_with(made: World, asked: Any) -> bool:
    try:
        return bool(_node_of(made, made.pod(asked, again=True)))
    except InvalidObjectsError:
        return False


@pytest.mark.parametrize("seed", range(150))
def test_each_remedy_helps_and_is_minimal(seed: int) -> None:
    check_remedies(_random_objects(seed))


@pytest.mark.parametrize("seed", range(40))
def test_a_quota_is_raised_no_further_than_the_pod_needs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tenants = [running(f"t{n}", "n0", f"GPU-n0-{n}", int(rng.integers(500, 3000))) for n in range(2)]
    used = sum(int(t["spec"]["containers"][0]["resources"]["limits"][MEMORY]) for t in tenants)
    asked = pod("asked", {GPU: 1, MEMORY: int(rng.integers(2000, 9000))})
    second = {"name": "beside", "resources": {"limits": {GPU: "1", MEMORY: str(int(rng.integers(500, 4000)))}}}
    if rng.random() < 0.5:
        asked["spec"]["containers"].append(second)
    objects = [node("n0"), *tenants, _quota(MEMORY, used + int(rng.integers(1, 2000))), asked]
    assert RemedyType.RAISE_QUOTA in check_remedies(objects)


@pytest.mark.parametrize("seed", range(40))
def test_no_taint_is_tolerated_that_does_not_keep_the_pod_away(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = []
    for number in range(int(rng.integers(1, 4))):
        keys = rng.choice(["a", "b", "c", "d"], size=int(rng.integers(1, 4)), replace=False)
        effects = rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"], size=len(keys))
        taints = [{"key": str(k), "value": "v", "effect": str(e)} for k, e in zip(keys, effects, strict=True)]
        taints.append({"key": "all", "effect": "NoSchedule"})
        nodes.append(node(f"n{number}", cards=2, taints=taints))
    tolerated = [{"key": str(rng.choice(["a", "b"])), "operator": "Exists"}] if rng.random() < 0.5 else []
    asked = pod("asked", {GPU: 1, MEMORY: 4000}, tolerations=tolerated)
    assert RemedyType.TOLERATE in check_remedies([*nodes, asked])


def test_quotas_and_annotations_are_among_the_clusters_that_are_tried() -> None:
    written = str([_random_objects(seed) for seed in range(150)])
    assert all(word in written for word in ("ResourceQuota", "nouse-gpuuuid", "beside"))


@pytest.mark.parametrize("default", ["", "30Gi"])
@pytest.mark.parametrize("resource", [MEMORY, PERCENT])
def test_an_amount_of_memory_of_nothing_is_to_be_one_that_fits(resource: str, default: str) -> None:
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "d"}, "spec": {"defaults": {"memory": default}}}
    there = [node("a", cards=1), running("first", "a", "GPU-a-0", 8192), *([policy] if default else [])]
    made, waiting = world_of(*there, pod("asked", {GPU: 1, resource: 0}))
    (text,) = kinds(remedies(made, waiting))[RemedyType.ASK_LESS]
    most, gets = (50 if resource == PERCENT else 8192), "30720 MiB by a policy" if default else "whole cards"
    assert text == f"ask {most} of {resource} (0 is not an amount, and it gets {gets}) in container main"
    made, waiting = world_of(*there, pod("asked", {GPU: 1, resource: most}))
    assert ask(made, waiting).node == "a"
