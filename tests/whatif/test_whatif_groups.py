"""Groups of pods: what is said of them is what the scheduler would do, and why it does not."""

from __future__ import annotations

import re
from collections import Counter
from copy import deepcopy

import numpy as np
import pytest
from tests.whatif import test_whatif_turns as turns
from tests.whatif.group_worlds import Object, drawn, member, named, simulated
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.engine import event_note, quotas_from_event
from vgpu_scheduler.whatif import RemedyType, explain_pod, make_room, simulate


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
        "  2 more pods needed before any is placed; 1 of them has scheduling gates",
    ]
    assert "It belongs to group" in found.text()
    assert "create 1 more pod of group default/team, or include others: theirs (names scheduler another" in found.text()
    assert "; and wait until the scheduling gates of those that exist are removed: gated (example.com/" in found.text()
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
    line = f"its pods name different numbers, of which the largest is used: {ranked}"
    assert (line in told) is (len(set(numbers)) > 1)
    assert ("different numbers" in told) is (len(set(numbers)) > 1)


def test_a_complete_group_goes_where_the_scheduler_places_it() -> None:
    world = world_of(node("a", 2), *(member(f"p{n}", n, 3) for n in range(3)))
    nodes = {name: explain_pod(world, named(world, name)).answer.node for name in ("p0", "p1", "p2")}
    assert nodes == simulated(world) == {"p0": "a", "p1": "a", "p2": "a"}


@pytest.mark.parametrize("kinds", [1, 20, 60])
def test_a_group_is_told_the_nodes_to_add_however_many_kinds_of_nodes_there_are(kinds: int) -> None:
    """Those that no pod of it may use, or whose copies would be too small, are tried last."""
    others = [node(f"a{n:02}", 2, labels={"rack": str(n)}) for n in range(kinds)]
    small = [node(f"b{n:02}", 0, labels={"rack": str(n), "model": "large"}) for n in range(kinds)]
    pods = [member(f"p{n}", n, 2, memory=9000, nodeSelector={"model": "large"}) for n in range(2)]
    for each in pods:
        each["spec"]["containers"][0]["resources"]["requests"] = {
            **each["spec"]["containers"][0]["resources"]["limits"]
        }
    full = running("full", "c", "GPU-c-0", 16000)
    world = world_of(*others, *small, node("c", 1, labels={"model": "large"}), full, *pods)
    found = [remedy.text for remedy in explain_pod(world, named(world, "p0")).remedies]
    assert "add 2 nodes like c" in found


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
    found = [r for r in explain_pod(world, named(world, "p0")).remedies if r.type is RemedyType.CHANGE_POLICY]
    (remedy,) = found
    field = "spec.nodes.together.mode of ClusterVGPUPolicy near"
    assert remedy.text == f"have an administrator of the cluster set {field} to Preferred (it is Required)"
    assert turns.done(objects, remedy, set()).keys() == {"p0", "p1"}


def test_a_pod_is_named_without_which_a_group_fits() -> None:
    held = [running(f"r{n}", "a", f"GPU-a-{n}", 9000) for n in range(2)]
    world = world_of(node("a", 3), *held, *(member(f"p{n}", n, 2, memory=9000) for n in range(2)))
    ends = [r for r in explain_pod(world, named(world, "p1")).remedies if r.type is RemedyType.END_PODS]
    assert [(remedy.text, remedy.node) for remedy in ends] == [
        ("end pod default/r0 on node a", "a"),
        ("end pod default/r1 on node a", "a"),
    ]


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
    assert any(remedy.type is RemedyType.ADD_NODE for remedy in found.remedies)
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


def test_a_pod_of_a_group_that_fits_nowhere_names_its_own_policies() -> None:
    """Also where the decision was made about another pod of the group."""
    spec = {"selector": {"matchLabels": {"u": "1"}}, "devices": {"policy": "spread"}}
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "u"}, "spec": spec}
    for selected in ("p0", "p1", "p2"):
        members = [member(f"p{n}", n, 3, memory=20000) for n in range(3)]
        for each in members:
            each["metadata"]["labels"] = {"u": "1" if each["metadata"]["name"] == selected else "2"}
        world = world_of(node("a", 3), policy, *members)
        for answer in simulate(world, list(world.pending.values()), as_they_are=True):
            assert ("ClusterVGPUPolicy u" in str(answer.as_json()["policy"])) is (answer.pod.name == selected)
            assert explain_pod(world, answer.pod).answer.sources == answer.sources


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
