"""Policies that keep a pod away, and quotas that do so together: what would have to change is named, and does."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.policy.malformed_policies import MALFORMED
from tests.policy.policy_cases import NAMESPACED, Case
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, kinds, node, pod, running, world_of

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import decode_policy
from vgpu_scheduler.whatif import Remedy, RemedyType, World, ask, explain_pod, make_dialect, remedies

Object = dict[str, Any]

MODELS = ("A100", "H100", "T4")


def policy(name: str, spec: Object, namespace: str = "") -> Object:
    kind = "VGPUPolicy" if namespace else "ClusterVGPUPolicy"
    return {"kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, "spec": spec}


def restriction(rng: np.random.Generator) -> Object:
    """Return a part of a policy that keeps pods from all nodes or cards there are."""
    others = [str(each) for each in rng.choice(MODELS[1:], size=int(rng.integers(0, 3)), replace=False)]
    return [
        {"devices": {"types": {"deny": ["A100", *others]}}},
        {"devices": {"types": {"allow": ["H100"]}}},
        {"devices": {"types": {"deny": [*others, "A100"]}, "policy": "binpack"}},
        {"nodeSelector": {"matchLabels": {"pool": "shared"}}},
        {"devices": {"modes": ["mig"]}},
    ][int(rng.integers(5))]


SENTENCE = re.compile(
    r"have (?P<who>.*) (set (?P<field>spec\S*) of (?P<title>.*) to \[(?P<to>.*)\] \(it is \[(?P<was>.*)\]\)"
    r"|remove (?P<removed>spec\S*) \((?:(?P<within>[a-z.]+): )?\[?(?P<is>.*?)\]?\)(?P<beside> and .*)?"
    r" from (?P<from>.*)"
    r"|delete (?P<deleted>.*), which sets only (?P<all>spec\S*) \(\[?(?P<said>.*?)\]?\))"
)


def at(obj: Any, path: list[str]) -> Any:
    """Return what an object has at a path; None if it has nothing there."""
    for name in path:
        obj = (obj or {}).get(name)
    return obj


def listed(value: Any) -> str:
    """Return how a value is to be written in a sentence."""
    if isinstance(value, list):
        return ", ".join(value)
    return "pool=shared" if value == {"matchLabels": {"pool": "shared"}} else value or ""


def written_by(told: re.Match[str], before: Object) -> Object:
    """Return the spec of a policy after somebody did what a sentence says, and nothing else."""
    spec: Object = deepcopy(before["spec"])
    if told["deleted"]:
        return {}
    if told["field"]:
        *above, name = told["field"].split(".")[1:]
        inner = spec
        for each in above:
            inner = inner[each]
        inner[name] = told["to"].split(", ")
        return spec
    *above, name = told["removed"].split(".")[1:]
    inner = spec
    for each in above:
        inner = inner[each]
    del inner[name]
    if beside := told["beside"]:
        if found := re.fullmatch(r" and (\w+) of spec\.enforce", beside):
            spec["enforce"].remove(found[1])
        else:
            assert beside == f" and spec.enforce ([{', '.join(spec.pop('enforce'))}])"
    return spec


POLICIES = ("VGPUPolicy", "ClusterVGPUPolicy")


def applied(world: World, remedy: Remedy) -> None:
    for changed in remedy.objects:
        if changed["kind"] == "ResourceQuota":
            world.replace_quota(changed)
        else:
            world.replace_policy(changed)


@pytest.mark.parametrize("seed", range(60))
def test_what_keeps_a_pod_away_alone_is_lifted_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spec = restriction(rng) | ({"nodes": {"policy": "binpack"}} if rng.random() < 0.5 else {})
    spec |= {"defaults": {"cores": 10}} if rng.random() < 0.5 else {}
    is_of_namespace = rng.random() < 0.4
    if (
        not is_of_namespace
        and rng.random() < 0.8
        and (enforced := [each for each in ("nodes", "devices", "defaults") if each in spec])
    ):
        spec["enforce"] = enforced
    strict = policy("strict", spec, "default" if is_of_namespace else "")
    more = policy("more", {"nodes": {"policy": "binpack"}, "limits": {"devicesPerPod": 4}})
    world, waiting = world_of(node("a"), node("b"), strict, more, pod("p", {GPU: 1, MEMORY: 1000}))
    lifted = [remedy for remedy in remedies(world, waiting) if remedy.type is RemedyType.CHANGE_POLICY]
    assert lifted, kinds(remedies(world, waiting))
    namespaced = "namespace" in strict["metadata"]
    who = "a user who may write policies in namespace default" if namespaced else "an administrator of the cluster"
    title = f"{strict['kind']} {'default/' if namespaced else ''}strict"
    for remedy in lifted:
        (changed,) = remedy.objects
        told = SENTENCE.fullmatch(remedy.text)
        assert told is not None, remedy.text
        assert (told["who"], told["title"] or told["from"] or told["deleted"]) == (who, title)
        path = ".".join(filter(None, (told["field"] or told["removed"] or told["all"], told["within"])))
        field = path.split(".")
        assert listed(at(strict, field)) == (told["was"] or told["is"] or told["said"])
        assert at(changed, (told["removed"] or "none").split(".")) is None
        assert changed["spec"] == written_by(told, strict), remedy.text
        assert told["deleted"] or not decode_policy(changed).error, remedy.text
        assert listed(at(changed, field)) == (told["to"] or "")
        denied, left = (at(each, ["spec", "devices", "types", "deny"]) or [] for each in (strict, changed))
        assert left == [each for each in denied if each != "A100"], "no more is taken out than does"
        if allowed := at(strict, ["spec", "devices", "types", "allow"]):
            assert at(changed, ["spec", "devices", "types", "allow"]) == [*allowed, "NVIDIA-A100"]
        applied(world, remedy)
        assert world.engine.algorithm.decide(waiting).placement is not None
        world.replace_policy(strict)


def quota(name: str, **hard: int) -> Object:
    names = {"memory": f"limits.{MEMORY}", "cores": f"limits.{CORES}"}
    limits = {names[key]: str(value) for key, value in hard.items()}
    return {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"}, "spec": {"hard": limits}}


@pytest.mark.parametrize("seed", range(40))
def test_quotas_that_hold_a_pod_together_are_raised_together_and_no_further(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    held, asked = int(rng.integers(1, 8)) * 1000, int(rng.integers(1, 8)) * 1000
    cores, more = int(rng.integers(1, 5)) * 10, int(rng.integers(1, 5)) * 10
    memory_short, cores_short = int(rng.integers(1, asked + 1)), int(rng.integers(1, more + 1))
    limits = {"memory": held + asked - memory_short, "cores": cores + more - cores_short}
    quotas = (
        [quota("both", **limits)]
        if rng.random() < 0.5
        else [quota("memory", memory=limits["memory"]), quota("cores", cores=limits["cores"])]
    )
    world, waiting = world_of(
        node("a"), *quotas, running("r", "a", "GPU-a-0", held, cores), pod("p", {GPU: 1, MEMORY: asked, CORES: more})
    )
    found = kinds(remedies(world, waiting))
    (text,) = found[RemedyType.RAISE_QUOTA]
    names = [each["metadata"]["name"] for each in quotas]
    assert set(text.removeprefix("raise ").split(" and ")) == {
        f"limits.{MEMORY} of ResourceQuota default/{names[0]} to {held + asked} (it is {limits['memory']})",
        f"limits.{CORES} of ResourceQuota default/{names[-1]} to {cores + more} (it is {limits['cores']})",
    }
    (remedy,) = [each for each in remedies(world, waiting) if each.type is RemedyType.RAISE_QUOTA]
    applied(world, remedy)
    assert world.engine.algorithm.decide(waiting).placement is not None
    for each in quotas:
        world.replace_quota(each)
    alone = asked <= limits["memory"] and more <= limits["cores"]
    assert found.get(RemedyType.END_PODS, []) == (["end pod default/r on node a"] if alone else [])


def test_pods_of_the_namespace_that_hold_a_quota_end_wherever_they_are() -> None:
    world, waiting = world_of(
        node("a", labels={"pool": "x"}),
        node("b", labels={"pool": "y"}),
        quota("memory", memory=6000),
        running("r1", "a", "GPU-a-0", 2000),
        running("r2", "a", "GPU-a-1", 3000),
        pod("p", {GPU: 1, MEMORY: 3500}, nodeSelector={"pool": "y"}),
    )
    (remedy,) = [each for each in remedies(world, waiting) if each.type is RemedyType.END_PODS]
    assert remedy.text == "end pod default/r2 on node a"
    assert remedy.node == "b"
    assert "r2" not in remedy.without_names().text
    for uid in remedy.ended:
        world.remove_pod(uid)
    assert world.engine.algorithm.decide(waiting).placement is not None


@pytest.mark.parametrize("gates", [0, 1, 2])
def test_a_pod_behind_gates_is_gated_and_one_that_asks_too_much_is_refused(gates: int) -> None:
    more = {"schedulingGates": [{"name": f"example.com/{number}"} for number in range(gates)]} if gates else {}
    strict = policy("strict", {"limits": {"devicesPerPod": 1}})
    world, waiting = world_of(node("a"), strict, pod("p", {GPU: 2, MEMORY: 1000}, **more))
    answer = ask(world, waiting)
    assert answer.outcome == answer.as_json()["outcome"] == ("gated" if gates else "refused")


@pytest.mark.parametrize(("came", "perhaps"), [("2026-01-01T00:00:00Z", True), ("2026-01-01T00:00:05Z", False)])
def test_of_pods_of_one_second_nobody_can_say_which_is_served_first(came: str, *, perhaps: bool) -> None:
    times = {"first": "2026-01-01T00:00:00Z", "asked": came}
    pods = [
        pod(name, {GPU: 1, MEMORY: 9000}, metadata={"creationTimestamp": time}, schedulerName="vgpu-scheduler")
        for name, time in times.items()
    ]
    made = World(EngineOptions([make_dialect("hami")]))
    made.add([node("a", cards=1), *pods])
    (waiting,) = [each for each in made.pending.values() if each.name == "asked"]
    (text,) = explain_pod(made, waiting).first
    assert ("created earlier or in the same second)" in text) is perhaps, text
    assert "1 pod that fits now is served before it" in text


@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_policy_that_cannot_be_understood_is_to_be_corrected(case: Case) -> None:
    broken = case.policy()
    world, waiting = world_of(node("a"), broken, pod("p", {GPU: 1, MEMORY: 1000}))
    before = explain_pod(world, waiting)
    if "PolicyNotReady" not in before.answer.decision.message:
        return  # it says nothing that matters to the pod
    error = decode_policy(broken).error
    if error.startswith("metadata"):
        return  # nothing of it can be corrected
    (remedy,) = before.remedies
    writer = "a user who may write policies in namespace default" if case.kind == NAMESPACED else "an administrator"
    assert remedy.text.startswith(f"have {writer}")
    assert remedy.text.endswith(
        f"correct {case.kind} {'default/' * (case.kind == NAMESPACED)}case, or remove what is wrong: {error}"
    )
    applied(world, remedy)
    assert ask(world, waiting).node == remedy.node == "a"


def test_several_policies_are_corrected_together_and_what_else_keeps_the_pod_is_told_with_them() -> None:
    broken = [policy(name, {"devices": {"exclusive": 1}}) for name in ("one", "two")]
    world, waiting = world_of(node("a"), *broken, pod("p", {GPU: 1, MEMORY: 1000}))
    (remedy,) = remedies(world, waiting)
    assert (remedy.text.count("or remove what is wrong"), remedy.node) == (2, "a")
    world, waiting = world_of(node("a"), *broken, pod("p", {GPU: 1, MEMORY: 90000}))
    first, *others = remedies(world, waiting)
    assert not first.node
    assert all(remedy.text.startswith(first.text) and remedy.node for remedy in others)
    assert any(f"and ask 16384 of {MEMORY} instead of 90000" in remedy.text for remedy in others)
    world, waiting = world_of(node("a"), *broken, pod("p", {GPU: 40, MEMORY: 90000}, nodeSelector={"a": "b"}))
    assert "This comes first; it is not enough alone:" in explain_pod(world, waiting).text()


@pytest.mark.parametrize("seed", range(50))
def test_what_helps_beside_the_correction_of_a_policy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    there = node("a", cards=2)
    asked = pod("p", {GPU: int(rng.integers(1, 4)), MEMORY: int(rng.integers(1000, 30000))})
    if rng.random() < 0.4:
        there["spec"] = {"unschedulable": True}
    if rng.random() < 0.3:
        asked["spec"]["nodeSelector"] = {"pool": "none"}
    held = running("held", "a", "GPU-a-0", int(rng.integers(1000, 16000)))
    objects = [there, held, policy("broken", {"devices": {"exclusive": 1}, "limits": {"devicesPerPod": 8}})]
    world, waiting = world_of(*objects, asked)
    for remedy in remedies(world, waiting):
        if remedy.node:
            again, changed = world_of(*deepcopy(objects), dict(remedy.pod or asked))
            applied(again, replace(remedy, objects=[each for each in remedy.objects if each["kind"] in POLICIES]))
            for obj in (each for each in remedy.objects if each["kind"] not in POLICIES):
                if obj["kind"] == "Node" and again.has_node(obj["metadata"]["name"]):
                    again.replace_node(obj)
                else:
                    again.add([obj])
            for uid in list(again.bound) if remedy.ended else ():  # there is one
                again.remove_pod(uid)
            assert ask(again, changed).node == remedy.node, remedy.text


def test_pods_that_share_no_card_do_so_again_where_a_policy_is_lifted() -> None:
    apart = policy("apart", {"devices": {"apartFrom": {"matchLabelKeys": ["app"]}, "policy": "binpack"}})
    held, asked = running("held", "a", "GPU-a-0", 1000), pod("asked", {GPU: 1, MEMORY: 100})
    for each in (held, asked):
        each["metadata"]["labels"] = {"app": "x"}
    objects = [node("a", cards=1), held, apart, asked]
    world, waiting = world_of(*deepcopy(objects))
    assert "CardHeldByPeer" in ask(world, waiting).decision.message
    (remedy,) = [each for each in remedies(world, waiting) if each.type is RemedyType.CHANGE_POLICY]
    assert remedy.text == (
        "have an administrator of the cluster remove spec.devices.apartFrom ([app]) from ClusterVGPUPolicy apart"
    )
    again, anew = world_of(*objects[:2], *(dict(each) for each in remedy.objects), objects[-1])
    assert ask(again, anew).node == remedy.node == "a"


@pytest.mark.parametrize(("written", "asked"), [("1500500m", 1501), ("1500.5", 1501), ("500m", 100), ("99999m", 100)])
def test_a_quota_with_a_fraction_is_raised_to_the_least_whole_number(written: str, asked: int) -> None:
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {f"limits.{MEMORY}": written}}}
    made, waiting = world_of(node("a"), {"kind": "ResourceQuota", **quota}, pod("asked", {GPU: 1, MEMORY: asked}))
    (remedy,) = [each for each in remedies(made, waiting) if each.type is RemedyType.RAISE_QUOTA]
    assert remedy.text.endswith(f" to {asked} (it is {written})")
    assert remedy.node == "a"


@pytest.mark.parametrize(
    "spec",
    [{"devices": {"apartFrom": ["app"]}}, {"devices": {"apartFrom": "app"}}, {"nodes": {"together": ["Required"]}}],
)
def test_a_policy_that_is_not_understood_keeps_nobody_from_an_answer(spec: Object) -> None:
    made, waiting = world_of(node("a", cards=1), policy("odd", spec), pod("asked", {GPU: 3}))
    assert "ClusterVGPUPolicy odd" in explain_pod(made, waiting).text()


# Models whose names are part of others' ------------------------------------------------------------------------------


def of_model(name: str, model: str, memory: int = 24576) -> Object:
    """Return a node with a card of a model."""
    made = node(name, 1, memory)
    listed = made["metadata"]["annotations"]["hami.io/node-nvidia-register"]
    made["metadata"]["annotations"]["hami.io/node-nvidia-register"] = listed.replace("NVIDIA-A100", model)
    return made


@pytest.mark.parametrize(
    ("models", "asked", "named"),
    [
        ({"a": ("NVIDIA A10", 24576), "b": ("NVIDIA A100-SXM4-80GB", 81920)}, 40000, "NVIDIA A100-SXM4-80GB"),
        ({"b": ("NVIDIA A10", 24576), "a": ("NVIDIA A100-SXM4-80GB", 81920)}, 1000, "NVIDIA A100-SXM4-80GB"),
        ({"a": ("NVIDIA A10", 81920), "b": ("NVIDIA A100-SXM4-80GB", 24576)}, 40000, "NVIDIA A10"),
        ({"a": ("nvidia l4", 24576), "b": ("NVIDIA L40", 49152), "c": ("NVIDIA L40S", 81920)}, 60000, "NVIDIA L40S"),
        ({"a": ("nvidia l4", 24576), "b": ("NVIDIA L40", 49152), "c": ("NVIDIA L40S", 24576)}, 40000, "NVIDIA L40"),
    ],
)
def test_the_model_of_the_card_that_the_pod_gets_is_named(
    models: dict[str, tuple[str, int]], asked: int, named: str
) -> None:
    strict = policy("p", {"devices": {"types": {"allow": ["T4"]}}})
    nodes = [of_model(name, model, memory) for name, (model, memory) in models.items()]
    made, _ = world_of(*nodes, strict, pod("p", {GPU: 1, MEMORY: asked}))
    (waiting,) = made.pending.values()
    (found,) = (each for each in remedies(made, waiting) if each.type is RemedyType.CHANGE_POLICY)
    assert at(found.objects[0], ["spec", "devices", "types", "allow"]) == ["T4", named]
    assert models[found.node][0] == named
