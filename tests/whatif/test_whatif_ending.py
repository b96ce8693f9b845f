"""Pods that would have to end: whoever ends them, and lets their controllers make others, sees the pod placed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from copy import deepcopy
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, kinds, node, pod, running, world_of

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import Remedy, RemedyType, World, ask, remedies, simulate
from vgpu_scheduler.whatif.world.simulation import created

Object = dict[str, Any]

LESS = re.compile(r"(\w+ default/[\w-]+) create (\d+) pod")
KINDS = ("Pod", "PodDisruptionBudget")
ABOUT_PODS = {RemedyType.END_PODS, RemedyType.WAIT}


def owned(obj: Object, kind: str, name: str) -> Object:
    obj["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": name, "controller": True}]
    return obj


def budget(name: str, app: str, allowed: int) -> Object:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def drawn(seed: int) -> list[Object]:
    """Return nodes whose pods have controllers, budgets and priorities, and some of which are ending, and a pod."""
    rng = np.random.default_rng(seed)
    objects: list[Object] = []
    for number in range(int(rng.integers(1, 4))):
        name, cards = f"n{number}", int(rng.integers(1, 4))
        objects.append(node(name, cards))
        for card in range(cards):
            for tenant in range(int(rng.integers(1, 4))):
                memory, priority = int(rng.integers(2000, 6000)), int(rng.integers(0, 4))
                held = running(f"t{number}{card}{tenant}", name, f"GPU-{name}-{card}", memory, priority=priority)
                app = str(rng.choice(["a", "b", "c"]))
                held["metadata"]["labels"] = {"app": app}
                kind = str(rng.choice(["", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"]))
                if kind:
                    owned(held, kind, f"{kind.lower()}-{app}")
                if rng.random() < 0.2:
                    held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                objects.append(held)
    objects += [budget(app, app, int(rng.integers(0, 3))) for app in "abc" if rng.random() < 0.5]
    limits = {GPU: int(rng.integers(1, 3)), MEMORY: int(rng.integers(7000, 16385))}
    return [*objects, pod("asked", limits, priority=int(rng.integers(0, 4)))]


@pytest.mark.parametrize("rule", ["its anti-affinity", "theirs", "spread"])
@pytest.mark.parametrize("seed", range(60))
def test_pods_of_other_nodes_are_named_that_keep_a_pod_away_from_a_zone(seed: int, rule: str) -> None:
    rng = np.random.default_rng(seed)
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spread = {"topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}
    own: Object = {"its anti-affinity": {"affinity": apart}, "theirs": {}, "spread": spread}[rule]
    nodes = [node(f"n{n}", 1) for n in range(int(rng.integers(2, 5)))]
    for each in nodes:
        each["metadata"]["labels"] = {"zone": str(rng.choice(["x", "y"])), "pool": str(rng.choice(["x", "y"]))}
    guards = []
    for name in sorted(each["metadata"]["name"] for each in nodes if rng.random() < 0.7):
        spec = {"affinity": apart} if rule == "theirs" else {}
        guards.append(running(f"guard-{name}", name, f"GPU-{name}-0", int(rng.integers(1000, 16384)), **spec))
        guards[-1]["metadata"]["labels"] = {"app": "a"}
    asked = pod("asked", {GPU: 1, MEMORY: int(rng.integers(1000, 16385))}, **own)
    asked["metadata"]["labels"] = {"app": "a"}
    if rng.random() < 0.5:
        asked["spec"]["nodeSelector"] = {"pool": "x"}
    world = world_of(*nodes, *guards, asked)[0]
    (waiting,) = world.pending.values()
    if ask(world, waiting).node:
        return
    ends = [remedy for remedy in remedies(world, waiting) if remedy.type is RemedyType.END_PODS]

    def helps(gone: Collection[str]) -> bool:
        kept = [guard for guard in guards if guard["metadata"]["name"] not in gone]
        without, again = world_of(*nodes, *kept, asked)
        return bool(ask(without, again).node)

    told = [{world.bound[uid].name for uid in remedy.ended} for remedy in ends]
    assert bool(told) is helps([guard["metadata"]["name"] for guard in guards])
    for gone in told:
        assert helps(gone)
        assert not any(helps(gone - {name}) for name in gone)


def is_ending(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def placed_after(objects: list[Object], ended: set[str], less: Counter[str]) -> bool:
    """Tell whether the pod is placed where others have ended, and controllers made so many less than before."""
    kept = [deepcopy(each) for each in objects if each["metadata"]["name"] not in ended or each["kind"] != "Pod"]
    made, waiting = world_of(*kept)
    left, anew = less.copy(), []
    for obj in (each for each in objects if each["kind"] == "Pod" and each["metadata"]["name"] in ended):
        for owner in obj["metadata"].get("ownerReferences", ()):
            title = f"{owner['kind']} default/{owner['name']}"
            if left[title]:
                left[title] -= 1
            else:
                fresh = deepcopy(obj)
                fresh["metadata"] = {"name": f"{obj['metadata']['name']}-anew", "namespace": "default"}
                fresh["spec"].pop("nodeName")
                anew.append(made.pod(fresh))
    return _last_of_all(made, [*anew, waiting], waiting.uid)


def _last_of_all(made: World, pods: list[Any], uid: str) -> bool:
    """Tell whether the last pod is placed, where it is tried after those of its priority."""
    answers = simulate(made, pods, explained=False)
    placed = {answer.pod.name for answer in answers if answer.node}
    return next(each for each in pods if each.uid == uid).name in placed


def check(objects: list[Object]) -> list[Remedy]:
    made, waiting = world_of(*objects)
    if ask(made, waiting).node:
        return []
    found = [remedy for remedy in remedies(made, waiting) if remedy.type in ABOUT_PODS]
    by_kind = {kind: {each["metadata"]["name"]: each for each in objects if each["kind"] == kind} for kind in KINDS}
    pods = by_kind["Pod"]
    budgets = {app: each["status"]["disruptionsAllowed"] for app, each in by_kind["PodDisruptionBudget"].items()}
    for remedy in found:
        ended = {made.bound[uid].name for uid in remedy.ended}
        disturbed = Counter(pods[name]["metadata"]["labels"]["app"] for name in ended if not is_ending(pods[name]))
        assert all(count <= budgets.get(app, count) for app, count in disturbed.items()), remedy.text
        to_end = remedy.text.partition(";")[0] if remedy.type is RemedyType.END_PODS else ""
        for name in ended:
            assert (f"default/{name}" in to_end) is not is_ending(pods[name]), remedy.text
            assert f"default/{name}" in remedy.text
            assert f"default/{name}" not in remedy.without_names().text
        assert (remedy.type is RemedyType.WAIT) is all(is_ending(pods[name]) for name in ended)
        less = Counter({title: int(count) for title, count in LESS.findall(remedy.text)})
        assert placed_after(objects, ended, less), remedy.text
        for title in less:
            assert not placed_after(objects, ended, less - Counter([title])), f"{title} need not: {remedy.text}"
    return found


@cache
def checked(seed: int) -> tuple[str, ...]:
    """Return what is said of a cluster, after it was held against the cluster; once for all tests."""
    return tuple(remedy.text for remedy in check(drawn(seed)))


@pytest.mark.parametrize("seed", range(200))
def test_the_pod_is_placed_when_others_end_whoever_makes_them_anew(seed: int) -> None:
    checked(seed)


@pytest.mark.long
def test_all_that_may_be_said_is_said_of_some_of_these_clusters() -> None:
    texts = [text for seed in range(200) for text in checked(seed)]
    of_one, of_several = ("wait until pod ", "end pod ", "create 1 pod "), ("wait until pods ", "end 2 pods ")
    for words in (*of_one, *of_several, "; wait until"):
        assert any(words in text for text in texts), words


@pytest.mark.parametrize(("priority", "takes"), [(5, "takes"), (1, "takes"), (0, "may take")])
def test_what_comes_back_first_must_not_come_back(priority: int, takes: str) -> None:
    """Of pods of one priority, the one that waits may be tried first, unless it still backs off."""
    held = running("web-1", "a", "GPU-a-0", 9000, priority=priority)
    asked = pod("large", {GPU: 1, MEMORY: 12000})
    made, waiting = world_of(node("a", cards=1), owned(held, "ReplicaSet", "web"), asked)
    (text,) = kinds(remedies(made, waiting))[RemedyType.END_PODS]
    assert text == (
        "end pod default/web-1 on node a; this must be permanent: have ReplicaSet default/web create 1 pod "
        f"less, or the replacement {takes} the room first"
    )
    elsewhere = node("b", cards=1, memory=10000)  # where it is placed, beside another one
    made, waiting = world_of(node("a", cards=1), elsewhere, running("beside", "b", "GPU-b-0", 500), held, asked)
    assert kinds(remedies(made, waiting))[RemedyType.END_PODS] == ["end pod default/web-1 on node a"]


def test_who_is_ending_is_waited_for() -> None:
    held = running("web-1", "a", "GPU-a-0", 9000)
    held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made, waiting = world_of(node("a", cards=1), held, pod("large", {GPU: 1, MEMORY: 12000}))
    told = kinds(remedies(made, waiting))
    assert told[RemedyType.WAIT] == ["wait until pod default/web-1 on node a has ended, which is ending already"]
    assert RemedyType.END_PODS not in told


# Where a quota is what is in the way ---------------------------------------------------------------------------------


def in_namespace(seed: int) -> list[Object]:
    """Return a node with room, pods of every kind of controller, a quota that they leave too little of, and a pod."""
    rng = np.random.default_rng(seed)
    held = []
    for number in range(int(rng.integers(1, 6))):
        made = running(f"t{number}", "n", f"GPU-n-{number}", int(rng.integers(1000, 5000)))
        kind = str(rng.choice(["", "ReplicaSet", "Job", "DaemonSet", "Node", "mirror"]))
        if kind == "mirror":
            made["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "0f1e"
        elif kind:
            owned(made, kind, kind.lower())
        held.append(made)
    used = sum(int(each["spec"]["containers"][0]["resources"]["limits"][MEMORY]) for each in held)
    asked = int(rng.integers(1000, 5000))
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {f"limits.{MEMORY}": str(max(used, asked) + int(rng.integers(0, asked)))}},
    }
    return [node("n", cards=6), quota, *held, pod("asked", {GPU: 1, MEMORY: asked})]


def comes_back(obj: Object) -> bool:
    owners = {owner["kind"] for owner in obj["metadata"].get("ownerReferences", ())}
    return bool(owners & {"DaemonSet", "Node"}) or "kubernetes.io/config.mirror" in obj["metadata"]["annotations"]


def without(objects: list[Object], names: set[str]) -> str:
    """Return where the pod goes when some others are gone."""
    made, waiting = world_of(*(deepcopy(obj) for obj in objects if obj["metadata"]["name"] not in names))
    return ask(made, waiting).node


@pytest.mark.parametrize("seed", range(100))
def test_pods_that_are_back_at_once_are_not_ended_for_a_quota(seed: int) -> None:
    objects = in_namespace(seed)
    made, waiting = world_of(*objects)
    if ask(made, waiting).node:
        return
    held = [obj for obj in objects if obj["kind"] == "Pod" and "nodeName" in obj["spec"]]
    names = {obj["metadata"]["name"]: comes_back(obj) for obj in held}
    found = [remedy for remedy in remedies(made, waiting) if remedy.type is RemedyType.END_PODS]
    for remedy in found:
        ended = {made.bound[uid].name for uid in remedy.ended}
        assert not any(names[name] for name in ended), remedy.text
        assert without(objects, ended)
    assert bool(found) is bool(without(objects, {name for name, back in names.items() if not back}))


def test_a_static_pod_is_not_ended_even_where_only_its_annotation_tells() -> None:
    held = running("etcd-a", "a", "GPU-a-0", 9000)
    asked = pod("large", {GPU: 1, MEMORY: 12000})
    made, waiting = world_of(node("a", cards=1), deepcopy(held), asked)
    assert RemedyType.END_PODS in kinds(remedies(made, waiting))
    held["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "0f1e"
    made, waiting = world_of(node("a", cards=1), held, asked)
    assert RemedyType.END_PODS not in kinds(remedies(made, waiting))


# Whom disruption budgets let end -------------------------------------------------------------------------------------


def budgeted(seed: int) -> list[Object]:
    """Return a node whose pods have budgets that let few of them end, and a pod that needs the room of some."""
    rng = np.random.default_rng(seed)
    cards = int(rng.integers(1, 4))
    objects: list[Object] = [node("n", cards)]
    for number in range(int(rng.integers(2, 8))):
        card, priority = f"GPU-n-{number % cards}", int(rng.integers(0, 3))
        held = running(f"t{number}", "n", card, int(rng.integers(1000, 6000)), priority=priority)
        held["metadata"]["labels"] = {"app": str(rng.choice(["a", "b", "c"]))}
        objects.append(held)
    objects += [budget(app, app, int(rng.integers(0, 3))) for app in "ab"]
    return [*objects, pod("asked", {GPU: 1, MEMORY: int(rng.integers(7000, 16385))}, priority=2)]


def allowed_sets(made: World, asked: Pod) -> set[tuple[int, int]]:
    """Return how many pods end, and the highest priority of them, of each set that budgets allow and that is enough."""
    found, pods = set[tuple[int, int]](), list(made.bound.values())
    for size in range(1, len(pods) + 1):
        for ended in combinations(pods, size):
            allowed = all(each.allows(ended) for each in made.engine.budgets.all())
            uids = [each.uid for each in ended]
            if allowed and made.engine.algorithm.node_fit.fits_without(asked, "n", uids) is not None:
                found.add((size, max(each.priority for each in ended)))
    return found


@pytest.mark.parametrize("seed", range(150))
def test_the_pods_of_lowest_priority_whose_end_budgets_allow_are_named(seed: int) -> None:
    made, waiting = world_of(*budgeted(seed))
    if ask(made, waiting).node:
        return
    sets = allowed_sets(made, created(made, waiting, waiting.uid))
    found = [remedy for remedy in remedies(made, waiting) if remedy.type is RemedyType.END_PODS]
    assert bool(found) is bool(sets)
    told = []
    for remedy in found:
        ended = [made.bound[uid] for uid in remedy.ended]
        told.append((len(ended), max(each.priority for each in ended)))
        assert not any(size <= told[-1][0] and priority <= told[-1][1] for size, priority in sets - {told[-1]})
    assert not told or told[0] == min(sets)


def test_a_pod_whose_budget_lets_one_end_ends_before_one_of_higher_priority() -> None:
    held = [running("small", "a", "GPU-a-0", 1000), running("web", "a", "GPU-a-1", 9000)]
    for each in held:
        each["metadata"]["labels"] = {"app": "a"}
    other = running("other", "a", "GPU-a-2", 9000, priority=5)
    objects = [node("a", cards=3), *held, other, running("b", "a", "GPU-a-0", 9000, priority=6), budget("a", "a", 1)]
    made, waiting = world_of(*objects, pod("large", {GPU: 1, MEMORY: 12000}, priority=5))
    assert kinds(remedies(made, waiting))[RemedyType.END_PODS] == ["end pod default/web on node a"]


@pytest.mark.parametrize("seed", range(60))
def test_a_pod_is_said_to_go_where_it_goes_once_others_have_ended(seed: int) -> None:
    """What ends may open other nodes than its own: by what a quota leaves, or by the zone that it keeps others from."""
    rng = np.random.default_rng(seed)
    names, zoned = [f"n{n}" for n in range(int(rng.integers(2, 5)))], rng.random() < 0.5
    objects = [node(name, 1, labels={"zone": str(rng.integers(2))}) for name in names]
    asked = pod("asked", {GPU: 1, MEMORY: 4000})
    held = [running(f"r{name}", name, f"GPU-{name}-0", 1000 * int(rng.integers(1, 12))) for name in names]
    for each in held:
        each["metadata"]["labels"] = {"app": "a" if rng.random() < 0.5 else "b"}
    if zoned:
        term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        asked["spec"]["affinity"] = {"podAntiAffinity": required}
    else:
        used = sum(int(each["spec"]["containers"][0]["resources"]["limits"][MEMORY]) for each in held)
        spec = {"hard": {f"limits.{MEMORY}": str(used + 1000)}}
        objects.append({"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": spec})
    made, waiting = world_of(*objects, *held, asked)
    if ask(made, waiting).node:
        return
    for remedy in remedies(made, waiting):
        if remedy.type is RemedyType.END_PODS:
            ended = {made.bound[uid].name for uid in remedy.ended}
            left = [each for each in held if each["metadata"]["name"] not in ended]
            assert ask(*world_of(*objects, *left, asked)).node == remedy.node, remedy.text
