"""Room that is kept for pods that have waited for long: a question about a pod after them finds it kept, too."""

from __future__ import annotations

import pytest
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import Obj, explained, tenant, waiting, world
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.whatif import RemedyType, World, simulate
from vgpu_scheduler.whatif.world.queue_order import made_anew, placing, queue_of, that_may_gain

CARD = 16384
END = RemedyType.END_PODS
GROUP = "pod-group.scheduling.sigs.k8s.io"


def patience(after: str = "15m") -> Obj:
    """Return a cluster policy by which room is kept for pods that need whole cards."""
    spec = {"selector": {"matchLabels": {"size": "whole"}}, "groups": {"holdAfter": after}}
    return policy_object("patience", spec)


def whole(name: str, **more: Obj) -> Obj:
    """Return a pod that has waited for a day for a whole card."""
    return waiting(name, CARD, metadata={"labels": {"size": "whole"}, **more})


def member(name: str) -> Obj:
    """Return a pod of a group of two of them."""
    return whole(name, labels={"size": "whole", f"{GROUP}/name": "team", f"{GROUP}/min-available": "2"})


def of_two_nodes(*waiting_pods: Obj, after: str = "15m") -> World:
    """Return a world with a full node, and one with a quarter of its card left."""
    there = [tenant(f"a{number}", "a", "GPU-a-0", CARD // 4) for number in range(4)]
    there += [tenant(f"b{number}", "b", "GPU-b-0", CARD // 4) for number in range(3)]
    small = waiting("small", CARD // 4, second=2)
    return world(node("a", 1), node("b", 1), *there, patience(after), *waiting_pods, small, preemption=False)


@pytest.mark.parametrize(("after", "goes_to"), [("15m", ""), ("48h", "b")])
def test_room_that_is_kept_for_a_pod_is_not_given_to_one_after_it(after: str, goes_to: str) -> None:
    made = of_two_nodes(whole("big"), after=after)
    for _ in range(2):  # a question leaves nothing behind
        found = explained(made, "small")
        assert found.answer.node == goes_to
        assert [(kept.pod, kept.nodes) for kept in found.holds] == ([] if goes_to else [("default/big", ["b"])])
        assert not list(made.engine.state.holds)
    decided = simulate(made, queue_of(made), as_they_are=True)
    assert {answer.pod.name: answer.node for answer in decided} == {"big": "", "small": goes_to}


def test_room_is_kept_for_a_group_that_comes_before() -> None:
    made = of_two_nodes(member("one"), member("two"))
    found = explained(made, "small")
    assert not found.answer.node
    assert sorted((kept.pod, kept.nodes) for kept in found.holds) == [("default/one", ["b"]), ("default/two", ["a"])]
    assert not list(made.engine.state.holds)
    decided = simulate(made, queue_of(made), as_they_are=True)
    assert not any(answer.node for answer in decided)


def test_a_remedy_counts_on_room_that_is_kept_for_the_pod_itself() -> None:
    (remedy,) = (each for each in explained(of_two_nodes(whole("big")), "big").remedies if each.type is END)
    assert remedy.text == "end 3 pods on node b: default/b0, default/b1, default/b2"


@pytest.mark.parametrize("after", ["15m", "48h"])
def test_the_pod_for_which_room_is_kept_is_told_where(after: str) -> None:
    found = explained(of_two_nodes(whole("big"), after=after), "big")
    kept = "Room on node b is kept for it, which is enough once 3 pods there have ended." if after == "15m" else ""
    assert (found.own_room, found.as_json().get("ownRoom", "")) == (kept, kept)
    assert (f"\n  {kept}" in found.text()) if kept else ("kept" not in found.text())
    assert not explained(of_two_nodes(whole("big"), after=after), "small").own_room


def test_each_pod_of_a_group_is_told_where_its_room_is() -> None:
    made = of_two_nodes(member("one"), member("two"))
    one, two = (explained(made, name).own_room for name in ("one", "two"))
    assert one == "Room on node b is kept for it, which is enough once 3 pods there have ended."
    assert two == "Room on node a is kept for it, which is enough once 4 pods there have ended."


def test_pods_that_are_made_anew_have_not_waited_yet() -> None:
    made = of_two_nodes(whole("big"))
    (running,) = (each for each in made.bound.values() if each.name == "a0")
    with made_anew(made, [running]) as (again,):
        assert made.engine.preemptions.evaluator.waiting_since(again) == 0.0


@pytest.mark.parametrize("after", ["15m", "48h"])
def test_whoever_waits_for_kept_room_may_gain_when_the_pod_that_has_it_goes_elsewhere(after: str) -> None:
    """Without the pods on a, ``big`` goes there, and ``next`` to the room on b that was kept for ``big``."""
    nodes = [node(name, 1) for name in "ab"]
    for each in nodes:
        each["metadata"]["labels"] = {"name": each["metadata"]["name"]}
    there = [tenant(f"a{number}", "a", "GPU-a-0", CARD // 2) for number in range(2)]
    there.append(tenant("b0", "b", "GPU-b-0", CARD // 4))
    following = waiting("next", CARD // 2 if after == "15m" else CARD - 100, priority=-1)
    following["spec"]["nodeSelector"] = {"name": "b"}
    made = world(*nodes, *there, patience(after), whole("big"), following, preemption=False)
    ahead = queue_of(made)
    gone = [each for each in made.bound.values() if each.node_name == "a"]
    with placing(made, ahead) as placed:
        assert not placed
        assert {each.node for each in made.engine.state.holds} == ({"b"} if after == "15m" else set())
        found = that_may_gain(made, ahead, gone, "a")
    assert [each.name for each in found] == (["big", "next"] if after == "15m" else ["big"])


# What helps a pod that is kept out -----------------------------------------------------------------------------------


def of_one_node(*waiting_pods: Obj, after: str = "15m") -> World:
    """Return a world with a card of which a quarter is used, which pods that need it whole wait for."""
    there = tenant("a0", "a", "GPU-a-0", CARD // 4)
    small = waiting("small", CARD // 2, second=2)
    return world(node("a", 1), there, patience(after), *waiting_pods, small, preemption=False)


WAIT = "wait until pod default/{}, for which room is kept, goes elsewhere, is gone, or has had it kept for an hour"
ABOVE = "give it a priority above {} (it has 0): it may then use the room kept for pod default/{}"
ADMINISTRATOR = "have an administrator of the cluster"
POLICY = f"{ADMINISTRATOR} delete ClusterVGPUPolicy patience, which sets only spec.groups.holdAfter (15m)"


@pytest.mark.parametrize(
    ("waiting_pods", "helps"),
    [
        (
            [whole("big")],
            [
                (RemedyType.WAIT, WAIT.format("big")),
                (RemedyType.RAISE_PRIORITY, ABOVE.format(0, "big")),
                (RemedyType.CHANGE_POLICY, POLICY),
                (RemedyType.ADD_NODE, "add a node like a"),
            ],
        ),
        (
            [waiting("big", CARD, 7, metadata={"labels": {"size": "whole"}})],
            [
                (RemedyType.WAIT, WAIT.format("big")),
                (RemedyType.RAISE_PRIORITY, ABOVE.format(7, "big")),
                (RemedyType.CHANGE_POLICY, POLICY),
                (RemedyType.ADD_NODE, "add a node like a"),
            ],
        ),
        (  # the next pod then has its turn, and waiting helps nobody
            [whole("big"), whole("next")],
            [
                (RemedyType.RAISE_PRIORITY, ABOVE.format(0, "big")),
                (RemedyType.CHANGE_POLICY, POLICY),
                (RemedyType.ADD_NODE, "add 2 nodes like a"),
            ],
        ),
    ],
)
def test_a_pod_that_is_kept_out_is_told_what_helps(
    waiting_pods: list[Obj], helps: list[tuple[RemedyType, str]]
) -> None:
    made = of_one_node(*waiting_pods)
    found = explained(made, "small")
    assert [(each.type, each.text) for each in found.remedies] == helps
    assert {each.node for each in found.remedies} == {"a"}
    assert not list(made.engine.state.holds)
    again = explained(made, "small").remedies
    assert [(each.type, each.text) for each in again] == helps, "a question leaves nothing behind"


def test_the_removal_of_one_policy_is_not_advised_where_another_keeps_the_room() -> None:
    there = tenant("a0", "a", "GPU-a-0", CARD // 4)
    small = waiting("small", CARD // 2, second=2)
    second = policy_object("second", {"priority": -1, **patience("20m")["spec"]})
    made = world(node("a", 1), there, patience(), second, whole("big"), small, preemption=False)
    assert RemedyType.CHANGE_POLICY not in {each.type for each in explained(made, "small").remedies}


def test_what_is_advised_helps() -> None:
    objects = [node("a", 1), tenant("a0", "a", "GPU-a-0", CARD // 4), whole("big")]
    small = waiting("small", CARD // 2, second=2)
    for remedy in explained(of_one_node(whole("big")), "small").remedies:
        asked = {**small, "spec": dict(remedy.pod["spec"])} if remedy.pod else small
        policies = [each for each in remedy.objects if each["kind"] == "ClusterVGPUPolicy"] or [patience()]
        kept = [each for each in policies if each["spec"]]
        nodes = [each for each in remedy.objects if each["kind"] != "ClusterVGPUPolicy"]
        again = world(*objects, *nodes, *kept, asked, preemption=False)
        decided = simulate(again, queue_of(again), as_they_are=True)
        goes = {answer.pod.name: answer.node for answer in decided}
        assert bool(goes["small"]) is (remedy.type is not RemedyType.WAIT), remedy.text


def test_a_group_that_is_kept_out_is_told_what_helps() -> None:
    labels = {f"{GROUP}/name": "late", f"{GROUP}/min-available": "2"}
    late = [waiting(f"late-{number}", 4096, second=3, metadata={"labels": labels}) for number in range(2)]
    there = tenant("a0", "a", "GPU-a-0", CARD // 4)
    made = world(node("a", 1), there, patience(), whole("big"), *late, preemption=False)
    texts = [(each.type, each.text) for each in explained(made, "late-0").remedies]
    assert (RemedyType.WAIT, WAIT.format("big")) in texts
    assert (RemedyType.CHANGE_POLICY, POLICY) in texts
    assert not any(kind is RemedyType.RAISE_PRIORITY for kind, _ in texts)


def test_a_pod_that_has_no_room_anyway_is_not_told_to_wait() -> None:
    there = tenant("a0", "a", "GPU-a-0", CARD // 4)
    made = world(node("a", 1), there, patience(), whole("big"), waiting("large", CARD, second=2), preemption=False)
    assert not {each.type for each in explained(made, "large").remedies} & {RemedyType.WAIT, RemedyType.RAISE_PRIORITY}


def test_the_pod_is_not_named_to_those_who_may_not_see_it() -> None:
    for remedy in explained(of_one_node(whole("big")), "small").remedies:
        assert "big" not in remedy.without_names().text
