"""Groups of pods: what is said of them is what the scheduler would do, and why it does not."""

from __future__ import annotations

import re
from collections import Counter
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import in_group
from tests.seeds import seeds
from tests.whatif import test_whatif_turns as turns
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.engine import event_note, quotas_from_event
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import ClusterView, make_world, settings_from_file
from vgpu_scheduler.whatif import RemedyKind, World, explain_pod, make_room, simulate
from vgpu_scheduler.whatif.world.queue_order import places_in_queue, pods_waiting_beside, queue_of

Object = dict[str, Any]
LABEL = "scheduling.x-k8s.io/pod-group"


def member(name: str, second: int, minimum: int, memory: int = 1000, group: str = "team", **spec: Any) -> Object:
    made = waits(name, {GPU: 1, MEMORY: memory}, second, **spec)
    made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), **in_group(group, minimum)}
    return made


def named(world: World, name: str) -> Pod:
    (found,) = [each for each in world.pending.values() if each.name == name]
    return found


def test_an_incomplete_group_says_who_is_there_and_who_does_not_count() -> None:
    gated = member("gated", 3, 4, schedulingGates=[{"name": "example.com/later"}])
    theirs = member("theirs", 4, 4)
    theirs["spec"]["schedulerName"] = "another"
    world = world_of(node("a", 2), member("p0", 1, 4), member("p1", 2, 4), gated, theirs)
    found = explain_pod(world, named(world, "p0"))
    assert not found.answer.node
    assert found.group.splitlines() == [
        "It belongs to group default/team, of which at least 4 pods run, or none:",
        "  2 to be placed at once: p0, p1",
        "  gated: is waiting for scheduling gates: [example.com/later]",
        "  theirs: names scheduler another, and counts once that has placed it",
        "  2 more pods needed before any is placed",
    ]
    assert "It belongs to group" in found.text()
    assert "create 2 more pods of group default/team, or have others count: gated (is waiting for" in found.text()
    assert found.as_json()["group"] == found.group
    assert not simulated(world)


@pytest.mark.parametrize("seed", range(50))
def test_numbers_that_differ_among_the_pods_of_a_group_are_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = [int(rng.integers(3, 6)) for _ in range(2)]
    world = world_of(node("a", 2), *(member(f"p{n}", n, number) for n, number in enumerate(numbers)))
    told = explain_pod(world, named(world, "p0")).group
    assert f"of which at least {max(numbers)} pods run" in told
    ranked = ", ".join(f"{number} ({name})" for number, name in sorted(zip(numbers, ("p0", "p1"), strict=True)))
    line = f"its pods name different numbers, of which the largest counts: {ranked}"
    assert (line in told) is (len(set(numbers)) > 1)
    assert ("different numbers" in told) is (len(set(numbers)) > 1)


@pytest.mark.parametrize("seed", range(50))
def test_another_member_whose_scheduler_is_misspelt_is_to_be_created_anew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    right, where = "vgpu-scheduler", int(rng.integers(0, len("vgpu-scheduler")))
    wrong = [f"{right[:where]}{right[where + 1 :]}", f"{right[:where]}x{right[where:]}"][seed % 2]
    other = member("p1", 2, 2)
    other["spec"]["schedulerName"] = wrong
    world = world_of(node("a", 2), member("p0", 1, 2), other)
    (remedy,) = explain_pod(world, named(world, "p0")).remedies
    anew = f"if {right} is meant, create it anew with spec.schedulerName: {right}"
    said = f"p1 (names scheduler {wrong}, which is not known here; {anew})"
    assert remedy.text == f"create 1 more pod of group default/team, or have others count: {said}"
    other["spec"]["schedulerName"] = right
    world = world_of(node("a", 2), member("p0", 1, 2), other)
    assert explain_pod(world, named(world, "p0")).answer.node


def test_a_complete_group_goes_where_the_scheduler_places_it() -> None:
    world = world_of(node("a", 2), *(member(f"p{n}", n, 3) for n in range(3)))
    nodes = {name: explain_pod(world, named(world, name)).answer.node for name in ("p0", "p1", "p2")}
    assert nodes == simulated(world) == {"p0": "a", "p1": "a", "p2": "a"}


def test_a_group_for_which_there_is_too_little_room_says_what_is_scarce() -> None:
    world = world_of(node("a", 1), member("p0", 1, 2, memory=9000), member("p1", 2, 2, memory=9000))
    first, second = (explain_pod(world, named(world, name)) for name in ("p0", "p1"))
    for each in (first, second):
        assert "they have room for at most 1 of them: CardInsufficientMemory." in each.answer.decision.message
    assert second.cards, "the cards of its node say what they lack"
    for each in (first, second):
        assert [remedy.text for remedy in each.remedies] == ["add a node like a"]
    assert not simulated(world)
    room = make_room(world, named(world, "p1"))
    assert room.held.startswith("it is placed together with other pods of group default/team")


def of_groups(seed: int) -> list[Object]:
    """Return a cluster with cordoned nodes and cards, quotas, pods that run, and a group that has no room there."""
    rng = np.random.default_rng(seed)
    count, memory = int(rng.integers(2, 5)), int(rng.integers(5000, 16000))
    objects = [node(name, cards=2) for name in "abc"[: int(rng.integers(1, 4))]]
    for each in objects:
        name = each["metadata"]["name"]
        if rng.random() < 0.3:
            each["spec"] = {"unschedulable": True}
        if rng.random() < 0.4:
            each["metadata"]["annotations"]["hami.io/device-cordon"] = f"GPU-{name}-{rng.integers(2)}"
        if rng.random() < 0.5:
            objects.append(running(f"r-{name}", name, f"GPU-{name}-0", int(rng.integers(1000, 16000))))
    if rng.random() < 0.3:
        hard = {"limits.nvidia.com/gpumem": str(int(rng.integers(1000, count * memory)))}
        objects.append(
            {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
        )
    if rng.random() < 0.3:
        objects.append(waits("earlier", {GPU: 1, MEMORY: int(rng.integers(1000, 16000))}, 1))
    if rng.random() < 0.3:
        objects.append(waits("later", {GPU: 1, MEMORY: int(rng.integers(1000, 16000))}, 50))
    if rng.random() < 0.2:
        limits = {"limits": {"memoryPerPod": f"{int(rng.integers(1000, 16000))}Mi"}}
        objects.append({"kind": "ClusterVGPUPolicy", "metadata": {"name": "limits"}, "spec": limits})
    return [*objects, *(member(f"p{n}", 5 + n, count, memory=memory) for n in range(count))]


@pytest.mark.parametrize("seed", range(80))
def test_whoever_does_what_a_group_is_told_sees_all_of_it_placed(seed: int) -> None:
    objects = of_groups(seed)
    world = world_of(*deepcopy(objects))
    asked = named(world, "p0")
    found = explain_pod(world, asked)
    assert not list(world.engine.state.reservations()) or not world.engine.state.drift()
    if found.answer.node:
        return
    for remedy in found.remedies:
        placed = turns.done(objects, remedy, {world.bound[uid].name for uid in remedy.ended})
        assert placed.get("p0") == remedy.node, remedy.text
        assert {name for name in placed if name.startswith("p")} >= {each["metadata"]["name"] for each in objects[-2:]}
    assert found.remedies or "was tried" in found.text() or "were tried" in found.text()


def test_the_limit_that_refuses_a_group_is_raised_for_the_pod_that_asks_the_most() -> None:
    limits = {"limits": {"memoryPerPod": "8Gi"}}
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "limits"}, "spec": limits}
    members = [member(f"p{n}", n, 2, memory=9000 + 1000 * n) for n in range(2)]
    world = world_of(node("a", 2), policy, *members)
    for name in ("p0", "p1"):
        texts = [remedy.text for remedy in explain_pod(world, named(world, name)).remedies]
        assert texts == ["have limits.memoryPerPod of ClusterVGPUPolicy limits raised to 10000Mi (it is 8Gi)"]


@pytest.mark.parametrize("memory", [3000, 9000, 12000])
def test_the_limit_is_raised_for_what_a_pod_of_a_group_gets_that_names_no_memory(memory: int) -> None:
    limits = {"limits": {"memoryPerPod": "8Gi"}}
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "limits"}, "spec": limits}
    unsaid = member("p1", 1, 2)
    del unsaid["spec"]["containers"][0]["resources"]["limits"][MEMORY]
    world = world_of(node("a", 2), policy, member("p0", 0, 2, memory=memory), unsaid)
    for name in ("p0", "p1"):
        texts = [remedy.text for remedy in explain_pod(world, named(world, name)).remedies]
        assert "have limits.memoryPerPod of ClusterVGPUPolicy limits raised to 16Gi (it is 8Gi)" in texts


def test_a_group_without_a_remedy_is_told_who_has_the_places() -> None:
    hard = {"hard": {f"limits.{MEMORY}": "1"}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": hard}
    later = [waits(f"later{n}", {GPU: 1, MEMORY: 9000}, 50) for n in range(2)]
    for each in later:
        each["metadata"]["namespace"] = "other"
    members = [member(f"p{n}", 30, 2, memory=16000) for n in range(2)]
    world = world_of(node("a", 2), quota, *later, *members)
    found = explain_pod(world, named(world, "p0"))
    assert not found.remedies
    told = "2 pods that fit now are served after it; the changes that are searched leave them their places."
    assert found.first == (told,)


@pytest.mark.parametrize("labels", [{}, {"zone": "x"}])
def test_a_policy_that_keeps_a_group_within_one_domain_may_prefer_that_only(labels: dict[str, str]) -> None:
    together = {"key": "zone", "mode": "Required"}
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "near"}, "spec": {"nodes": {"together": together}}}
    policy["spec"]["nodes"]["policy"] = "spread"
    nodes = [node("a", 1, labels=labels), node("b", 1, labels={"zone": "y"} if labels else {})]
    objects = [*nodes, policy, *(member(f"p{n}", n, 2, memory=14000) for n in range(2))]
    world = world_of(*deepcopy(objects))
    found = [r for r in explain_pod(world, named(world, "p0")).remedies if r.kind is RemedyKind.CHANGE_POLICY]
    (remedy,) = found
    field = "spec.nodes.together.mode of ClusterVGPUPolicy near"
    assert remedy.text == f"have an administrator of the cluster set {field} to Preferred (it is Required)"
    assert turns.done(objects, remedy, set()).keys() == {"p0", "p1"}


def test_a_pod_is_named_without_which_a_group_fits() -> None:
    held = [running(f"r{n}", "a", f"GPU-a-{n}", 9000) for n in range(2)]
    world = world_of(node("a", 3), *held, *(member(f"p{n}", n, 2, memory=9000) for n in range(2)))
    ends = [r for r in explain_pod(world, named(world, "p1")).remedies if r.kind is RemedyKind.END_PODS]
    assert [(remedy.text, remedy.node) for remedy in ends] == [
        ("end pod default/r0 on node a", "a"),
        ("end pod default/r1 on node a", "a"),
    ]


@pytest.mark.parametrize("seed", range(50))
def test_a_group_is_told_of_the_pods_that_are_served_before_it(seed: int) -> None:
    """Only where they take room that it could have: without them all of it goes to the group."""
    rng = np.random.default_rng(seed)
    count, memory = int(rng.integers(1, 4)), int(rng.integers(9000, 16000))
    earlier = [
        waits(f"w{n}", {GPU: 1, MEMORY: memory}, 1 if seed % 2 else 9, **({} if seed % 2 else {"priority": 5}))
        for n in range(count)
    ]
    world = world_of(node("a", 2), *earlier, member("p0", 5, 2, memory=9000), member("p1", 6, 2, memory=9000))
    for name in ("p0", "p1"):
        found = explain_pod(world, named(world, name))
        assert not found.answer.node
        fit = min(count, 2)
        assert f"{fit} pod{'s' if fit > 1 else ''} that fit{'' if fit > 1 else 's'} now" in found.text()
        assert "served before it" in found.as_json()["first"]
    alone = world_of(node("a", 2), member("p0", 5, 2, memory=9000), member("p1", 6, 2, memory=9000))
    found = explain_pod(alone, named(alone, "p0"))
    assert found.answer.node == "a"
    assert not found.first


@pytest.mark.parametrize("count", [2, 3])
def test_those_of_its_group_that_fit_are_placed_before_one_that_is_more_than_it_needs(count: int) -> None:
    members = [member(f"p{n}", n, count, memory=16000) for n in range(count + 2)]
    later = waits("later", {GPU: 1, MEMORY: 100}, 50)
    world = world_of(node("a", count), *members, later)
    found = explain_pod(world, named(world, f"p{count + 1}"))
    assert not found.answer.node
    assert found.first == (
        f"{count} other pods of its group fit now and are placed before it; the answer leaves them their places.",
        "1 pod that fits now is served after it; the changes below leave it its place.",
    )
    assert any(remedy.kind is RemedyKind.ADD_NODE for remedy in found.remedies)
    assert explain_pod(world, named(world, "p0")).answer.node == "a"


@pytest.mark.parametrize("seed", range(60))
def test_cards_say_what_their_nodes_say_of_a_pod_of_a_group(seed: int) -> None:
    """The others of its group have their places, for the nodes and for the cards."""
    world = world_of(*drawn(seed))
    for pod in sorted(world.pending.values(), key=lambda pod: pod.name):
        found = explain_pod(world, pod)
        for name, verdict in found.answer.decision.verdicts.items():
            said = Counter(each.reason.text if each.reason else "fits" for each in found.cards.get(name, ()))
            counted = {reason: int(count) for count, reason in re.findall(r"(\d+)/\d+ (\w+)", verdict.detail)}
            assert not said or said == counted, (pod.name, name)
    assert not world.engine.state.drift()
    assert not list(world.engine.state.reservations())


@pytest.mark.parametrize(("asked", "more"), [(10000, 0), (9000, 2), (5001, 1)])
def test_what_a_group_asks_of_a_quota_is_told_of_all_its_pods(asked: int, more: int) -> None:
    members = [member(f"p{n}", n, 3, memory=asked) for n in range(3 + more)]
    hard = {"hard": {f"limits.{MEMORY}": "15000"}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": hard}
    told = f"of its group that wait ask for {asked * (3 + more)} MiB of limits.{MEMORY}"
    world = world_of(node("a", 3), quota, *members)
    assert f"the {3 + more} pods {told}" in explain_pod(world, named(world, "p2")).text()
    answers = simulate(world, list(world.pending.values()), as_they_are=True)
    assert all(f"the {3 + more} pods {told}" in answer.quotas for answer in answers if answer.quotas)
    assert any(answer.quotas for answer in answers)


@pytest.mark.parametrize(("needed", "told"), [(3, "3 pods of its group count at once"), (1, "")])
def test_the_event_of_a_pod_says_how_many_of_its_group_count_in_a_quota_at_once(needed: int, told: str) -> None:
    hard = {"hard": {f"limits.{MEMORY}": "15000"}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": hard}
    members = [member(f"p{n}", n, needed, memory=16000 if needed == 1 else 9000) for n in range(3)]
    world = world_of(node("a", 3), quota, *members)
    pod = named(world, "p2")
    note = event_note(world.engine, pod, explain_pod(world, pod).answer.decision)
    assert f"namespace default uses 0 of 15000 MiB of limits.{MEMORY}{f'; {told}' if told else ''})" in note
    assert [report.limit for report in quotas_from_event(note)] == [15000]


def test_more_pods_than_a_few_are_called_pods() -> None:
    world = world_of(node("a", 1), *(member(f"p{n}", n, 9) for n in range(7)))
    found = explain_pod(world, named(world, "p2"))
    assert "7 to be placed at once: 7 pods: p0, p1, p2, …" in found.group
    (remedy,) = found.remedies
    assert remedy.text == "create 2 more pods of group default/team"
    assert "No change" not in found.text()


@pytest.mark.parametrize("seed", range(50))
def test_pods_of_a_group_that_are_refused_for_how_they_are_written_are_corrected(seed: int) -> None:
    """Whichever of them is asked about; where that does not suffice, it stands before all that helps beside it."""
    rng = np.random.default_rng(seed)
    size, has_room = int(rng.integers(2, 5)), bool(rng.random() < 0.6)
    mistakes = {
        "unit": ({GPU: "1", MEMORY: "8Gi"}, "8192", f"ask 8192 of {MEMORY} instead of 8Gi in container main"),
        "no card": ({MEMORY: "1000"}, "1000", f"add {GPU}: 1 to the limits of container main"),
    }
    pods, meant, mistaken = [], [], dict[str, list[str]]()
    for number in range(size):
        pods.append(made := member(f"p{number}", number, size, 1000))
        meant.append(right := deepcopy(made))
        if rng.random() < 0.4:
            written, memory, text = mistakes[str(rng.choice(list(mistakes)))]
            mistaken.setdefault(text, []).append(f"p{number}")
            made["spec"]["containers"][0]["resources"]["limits"] = written
            right["spec"]["containers"][0]["resources"]["limits"] = {GPU: "1", MEMORY: memory}
    there = node("a", 2 * size, **({} if has_room else {"unschedulable": True}))
    world, asked = world_of(there, *pods), f"p{int(rng.integers(size))}"
    before = {uid: world.written(pod) for uid, pod in world.pending.items()}
    found = explain_pod(world, named(world, asked))
    assert {uid: world.written(pod) for uid, pod in world.pending.items()} == before
    of_each = {f"{text} (pod{'s' * (len(names) > 1)} {', '.join(names)})" for text, names in mistaken.items()}
    corrections = [each for each in found.remedies if each.kind is RemedyKind.CORRECT]
    assert len(corrections) == bool(mistaken)
    for remedy in corrections:
        assert set(remedy.text.split(" and ")) == of_each
        then = world_of(there, *meant)
        assert remedy.node == simulated(then).get(asked, "") == ("a" if has_room else "")
    if mistaken and not has_room:
        (uncordon,) = [each for each in found.remedies if each.kind is RemedyKind.UNCORDON_NODE]
        assert uncordon.text == f"{corrections[0].text} and uncordon node a"


def test_an_object_that_is_missing_is_named() -> None:
    asked = waits("p0", {GPU: 1, MEMORY: 1000}, 1)
    asked["metadata"]["labels"] = {LABEL: "team"}
    world = world_of(node("a", 1), asked)
    assert explain_pod(world, named(world, "p0")).answer.node == "a", "nobody serves the kind"
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "other"}}
    world = world_of(node("a", 1), asked, group)
    found = explain_pod(world, named(world, "p0"))
    assert "PodGroup.scheduling.x-k8s.io default/team, which says how many pods" in found.answer.decision.message
    assert found.group.endswith("it does not exist.")
    assert "create PodGroup.scheduling.x-k8s.io default/team, or correct the name" in found.text()
    group["metadata"] = {"name": "team", "namespace": "default"}
    world = world_of(node("a", 1), asked, {**group, "spec": {"minMember": 1}})
    assert explain_pod(world, named(world, "p0")).answer.node == "a"


def test_a_simulated_pod_of_a_group_is_asked_about_by_itself_where_only_it_is() -> None:
    world = world_of(node("a", 2))
    asked = world.pod(member("p0", 1, 8))
    (answer,) = simulate(world, [asked], each_alone=True)
    assert answer.node == "a"


def simulated(world: World) -> dict[str, str]:
    answers = simulate(world, sorted(world.pending.values(), key=_turn), as_they_are=True, explained=False)
    return {answer.pod.name: answer.node for answer in answers if answer.node}


def _turn(pod: Pod) -> tuple[int, str, str]:
    return -pod.priority, pod.creation_timestamp, pod.name


def drawn(seed: int) -> list[Object]:
    """Return a cluster in which two groups and some pods wait."""
    rng = np.random.default_rng(seed)
    objects: list[Object] = [node(f"n{n}", int(rng.integers(1, 4))) for n in range(int(rng.integers(1, 4)))]
    seconds = iter(rng.permutation(50).tolist())
    for group in ("one", "two"):
        size, minimum = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        for number in range(size):
            memory = int(rng.choice([2000, 5000, 9000, 16000]))
            objects.append(member(f"{group}-{number}", next(seconds), minimum, memory, group))
    for number in range(int(rng.integers(0, 4))):
        limits = {GPU: 1, MEMORY: int(rng.choice([2000, 9000]))}
        objects.append(waits(f"w{number}", limits, next(seconds), priority=int(rng.integers(0, 2))))
    return objects


@pytest.mark.parametrize("seed", range(60))
def test_what_is_said_of_each_member_is_what_becomes_of_it_in_its_turn(seed: int) -> None:
    objects = drawn(seed)
    goes = simulated(world_of(*objects))
    world = world_of(*objects)
    for pod in sorted(world.pending.values(), key=lambda pod: pod.name):
        group = world.engine.attempts.gang_status(pod)
        if group is not None and group.needed < len(group.waiting):
            continue  # which of them are more than are needed, others decide that come between
        found = explain_pod(world, pod)
        assert bool(found.answer.node) == (pod.name in goes), f"seed {seed}, pod {pod.name}"
    assert not world.engine.state.drift()
    assert not list(world.engine.state.reservations())


OURS = {"kind": "PodGroup", "metadata": {"name": "team"}}
NATIVE = {"apiVersion": "scheduling.k8s.io/v1alpha2", **OURS}


def in_native(name: str, second: int, **spec: Any) -> Object:
    return waits(name, {GPU: 1, MEMORY: 1000}, second, schedulingGroup={"podGroupName": "team"}, **spec)


PARENT = "parentCompositePodGroupName"


def test_a_group_of_kubernetes_itself_is_placed_as_its_object_says() -> None:
    gang = {**NATIVE, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    world = world_of(node("a", 2), in_native("p0", 1), in_native("p1", 2), gang)
    assert simulated(world) == {"p0": "a", "p1": "a"}
    near = {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    world = world_of(node("a", 2), in_native("p0", 1), in_native("p1", 2), {**NATIVE, "spec": near})
    found = explain_pod(world, named(world, "p0"))
    assert "no node has label rack" in found.answer.decision.message
    world = world_of(node("a", 2), in_native("p0", 1), in_native("p1", 2), {**NATIVE, "spec": {**near, PARENT: "all"}})
    found = explain_pod(world, named(world, "p0"))
    assert f"spec.{PARENT} is not supported" in found.answer.decision.message
    assert not simulated(world)


def test_the_turn_of_a_group_is_told_by_the_priority_that_its_object_has() -> None:
    classes = {"kind": "PriorityClass", "metadata": {"name": "first"}, "value": 9}
    first = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "first"}
    pods = (in_native("p0", 8), in_native("p1", 9), waits("alone", {GPU: 1, MEMORY: 1000}, 1, priority=5))
    world = world_of(node("a", 2), *pods, classes, {**NATIVE, "spec": first})
    before, after = pods_waiting_beside(world, named(world, "alone"))
    assert ({each.name for each in before}, after) == ({"p0", "p1"}, [])
    before, after = pods_waiting_beside(world, named(world, "p0"))
    assert (before, {each.name for each in after}) == ([], {"alone"})


@pytest.mark.parametrize(
    ("live", "why"), [(True, "cannot be read"), (False, "is of a kind that the API server does not serve")]
)
def test_who_may_not_read_the_object_is_told_so(*, live: bool, why: str) -> None:
    objects = [node("a", 2), in_native("p0", 1)]
    world = make_world(ClusterView(objects, {}, settings_from_file(None, {}), live=live))
    says = explain_pod(world, named(world, "p0")).answer.decision.message
    assert says.endswith(f"default/team, which says how many pods the group needs, {why}.")


SAYING_HOW_MANY = {
    "koordinator": ({}, {"gang.scheduling.koordinator.sh/name": "g"}, "gang.scheduling.koordinator.sh/min-available"),
    "kueue": ({"kueue.x-k8s.io/pod-group-name": "g"}, {}, "kueue.x-k8s.io/pod-group-total-count"),
}
"""Labels and annotations that name a group, and the annotation that says how many pods it needs."""


def mistaken(source: str, number: str, second: int, **spec: Any) -> Object:
    """Return a pod that says of its group what is no number of pods."""
    labels, annotations, says = SAYING_HOW_MANY[source]
    made = waits("mistaken", {GPU: 1, MEMORY: 1000}, second, **spec)
    made["metadata"] |= {"labels": labels, "annotations": {**annotations, says: number}}
    return made


@pytest.mark.parametrize("number", ["0", "x", "-1", "1.5", ""])
@pytest.mark.parametrize("source", SAYING_HOW_MANY)
def test_a_pod_that_is_refused_for_its_group_is_told_that_alone(source: str, number: str) -> None:
    room = [node("a"), running("r", "a", "GPU-a-0", 1000), mistaken(source, number, 1)]
    world = world_of(*room, node("b", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]))
    found = explain_pod(world, named(world, "mistaken"))
    (remedy,) = found.remedies
    assert not remedy.node
    assert remedy.text == f"correct {found.answer.decision.message}"
    assert SAYING_HOW_MANY[source][2] in remedy.text
    assert "it does not suffice alone" not in found.text()


@pytest.mark.parametrize("seed", seeds(5, 15))
def test_a_pod_that_is_refused_for_its_group_is_in_nobodys_way(seed: int) -> None:
    rng, objects = np.random.default_rng(seed), turns.drawn(seed)
    source, priority = str(rng.choice([*SAYING_HOW_MANY])), int(rng.integers(0, 4))
    beside = mistaken(source, "0", int(rng.integers(0, 60)), priority=priority)
    alone, together = world_of(*deepcopy(objects)), world_of(*deepcopy(objects), beside)
    asked = [pod.name for pod in alone.pending.values()]
    told = [[explain_pod(world, named(world, name)).text() for name in asked] for world in (alone, together)]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("minimum", "waiting", "told"),
    [
        (2, 1, "  1 to be placed at once: p0"),
        (2, 2, "  1 of 2 to be placed at once: p0, p1"),
        (1, 1, ""),
    ],
)
def test_a_pod_that_is_placed_by_itself_is_told_how_far_its_group_is(minimum: int, waiting: int, told: str) -> None:
    there = running("m0", "a", "GPU-a-0", 16384, 0)
    there["metadata"]["annotations"] |= in_group("team", minimum)
    world = world_of(node("a", 1), there, *(member(f"p{n}", n, minimum, memory=16000) for n in range(waiting)))
    found = explain_pod(world, named(world, f"p{waiting - 1}"))
    assert not found.answer.node
    runs = f"It belongs to group default/team, of which at least {minimum} pods run, or none:"
    assert found.group.splitlines() == ([runs, "  1 placed or succeeded", told] if told else [])


@pytest.mark.parametrize("seed", range(30))
def test_a_place_in_the_queue_is_behind_all_that_are_said_to_be_served_before(seed: int) -> None:
    """Those of one second and one priority, and those that are placed together, included."""
    rng = np.random.default_rng(seed)
    pods = [
        waits(f"p{number}", {GPU: 1}, int(rng.integers(0, 4)), priority=int(rng.integers(0, 2)))
        for number in range(int(rng.integers(1, 7)))
    ]
    pods += [member(f"m{number}", int(rng.integers(0, 4)), 3) for number in range(int(rng.integers(0, 5)))]
    world = world_of(node("a", 1), *pods)
    places = places_in_queue(world)
    listed = queue_of(world)
    assert places == {each.uid: len(pods_waiting_beside(world, each).before) + 1 for each in listed}
    assert [places[each.uid] for each in listed if not each.name.startswith("m")] == sorted(
        places[each.uid] for each in listed if not each.name.startswith("m")
    )


@pytest.mark.parametrize("minimum", [40, 60], ids=["with a quorum", "without"])
def test_places_in_the_queue_take_one_question_about_each_group(minimum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(node("a", 1), *(member(f"m{number}", number, minimum) for number in range(50)))
    attempts, asked = world.engine.attempts, list[str]()
    as_it_is = attempts.gang_status

    def counted(pod: Pod) -> object:
        asked.append(pod.name)
        return as_it_is(pod)

    monkeypatch.setattr(attempts, "gang_status", counted)
    assert len(places_in_queue(world)) == 50
    assert len(asked) == 1
