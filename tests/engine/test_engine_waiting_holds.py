"""Room that is kept for pods that have waited for long, as others leave it by themselves."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from tests.engine.builders import allocation, asks, cards, engine_with, make_engine, node, pod
from tests.engine.test_engine_native_groups import OLDER, described
from tests.engine.test_engine_relist import relisted
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.waiting_holds import HELD_FOR
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome

WHOLE = 8000
AFTER = 900.0


def whole(name: str, **more: Any) -> Pod:
    """Return a pod that needs all of a card."""
    return pod(name, asks(1, WHOLE), labels={"size": "whole"}, **more)


def small(name: str, **more: Any) -> Pod:
    """Return a pod that needs a quarter of a card."""
    return pod(name, asks(1, WHOLE // 4), **more)


def tenant(name: str, node_name: str, card: int, memory: int = WHOLE // 4, **more: Any) -> Pod:
    """Return a pod that runs."""
    notes = allocation(node_name, (f"{node_name}-gpu-{card}", memory, 0))
    return pod(name, asks(1, memory), annotations=notes, nodeName=node_name, started=True, **more)


class Fleet:
    """Two nodes with a card each that are full of small pods: four on ``a``, three on ``b``, one of which has half."""

    def __init__(self, **section: Any) -> None:
        self.engine: Engine = make_engine()
        for name in "ab":
            self.engine.observe_node(node(name, cards(name, 1)), 0.0)
        self.says(**{"holdAfter": "15m", **section})
        for number in range(4):
            self.engine.observe_pod(tenant(f"a{number}", "a", 0), 0.0)
        self.engine.observe_pod(tenant("b0", "b", 0, WHOLE // 2), 0.0)
        for number in (1, 2):
            self.engine.observe_pod(tenant(f"b{number}", "b", 0), 0.0)

    def says(self, **section: Any) -> None:
        """Have a policy say something of pods that need a whole card."""
        selector = {"matchLabels": {"size": "whole"}}
        self.engine.policy_tracker.observe(policy("patience", {"selector": selector, "groups": section}))

    def come(self, *pods: Pod, now: float = 0.0) -> None:
        for each in pods:
            self.engine.observe_pod(each, now)

    def end(self, name: str, now: float) -> None:
        self.engine.remove_pod(f"uid-{name}", now)

    def tried(self, now: float) -> dict[str, Decision]:
        """Decide whoever is to be tried; return what came of each."""
        found: dict[str, Decision] = {}
        while decisions := self.engine.schedule_next(now):
            found.update((each.pod.partition("/")[2], each) for each in decisions)
        return found

    def kept_for(self) -> dict[str, str]:
        return {hold.uid.removeprefix("uid-"): hold.node for hold in self.engine.state.holds}


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_small_pods_take_what_becomes_free_again_and_again_without_it() -> None:
    fleet = Fleet(holdAfter="24h")
    fleet.come(whole("big"))
    fleet.tried(0.0)
    for turn in range(8):
        now = 1000.0 + turn * 100
        fleet.come(small(f"s{turn}"), now=now)
        fleet.tried(now)
        fleet.end(f"a{turn}" if turn < 4 else f"s{turn - 4}", now + 50)
        placed = fleet.tried(now + 50)
        assert placed[f"s{turn}"].outcome is Outcome.PLACED
        fleet.engine.binding_succeeded(f"uid-s{turn}")
    assert fleet.kept_for() == {}


def test_room_is_kept_where_the_fewest_have_to_end(fleet: Fleet) -> None:
    fleet.come(whole("big"))
    assert fleet.tried(0.0)["big"].outcome is Outcome.UNSCHEDULABLE
    fleet.tried(AFTER - 1)
    assert fleet.kept_for() == {}
    decision = fleet.tried(AFTER)["big"]
    assert fleet.kept_for() == {"big": "b"}
    assert decision.message.endswith(" room on node b is kept for it, which is enough once 3 pods there have ended.")


def test_what_others_leave_is_nobody_elses(fleet: Fleet) -> None:
    fleet.come(whole("big"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.come(small("s"), now=AFTER)
    assert fleet.tried(AFTER)["s"].outcome is Outcome.UNSCHEDULABLE
    fleet.end("b0", AFTER + 10)
    told = fleet.tried(AFTER + 20)
    assert "s" not in told or told["s"].outcome is Outcome.UNSCHEDULABLE
    assert told["big"].message.endswith("which is enough once 2 pods there have ended.")
    for name in ("b1", "b2"):
        fleet.end(name, AFTER + 30)
    placed = fleet.tried(AFTER + 60)
    assert placed["big"].placement is not None
    assert placed["big"].placement.node == "b"
    assert fleet.kept_for() == {}
    assert not fleet.engine.state.drift()


def test_a_pod_that_fits_elsewhere_first_goes_there(fleet: Fleet) -> None:
    fleet.come(whole("big"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.engine.observe_node(node("c", cards("c", 1)), AFTER + 1)
    placed = fleet.tried(AFTER + 20)["big"].placement
    assert placed is not None
    assert placed.node == "c"
    assert fleet.kept_for() == {}
    fleet.come(small("s"), now=AFTER + 20)
    fleet.end("b0", AFTER + 20)
    assert fleet.tried(AFTER + 21)["s"].outcome is Outcome.PLACED


def test_higher_priorities_look_past_it(fleet: Fleet) -> None:
    fleet.come(whole("big"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.end("b0", AFTER + 1)
    fleet.come(small("urgent", priority=9), now=AFTER + 1)
    placed = fleet.tried(AFTER + 2)["urgent"].placement
    assert placed is not None
    assert placed.node == "b"


@pytest.mark.parametrize("told", [9, None], ids=["a higher one", "none"])
@pytest.mark.parametrize("size", [1, 2])
def test_the_priority_of_a_group_counts_for_its_pods(fleet: Fleet, told: int | None, size: int) -> None:
    spec: dict[str, Any] = {} if told is None else {"priority": told}
    relisted(fleet.engine, OLDER, [described(size, **spec)], 10)
    fleet.come(whole("big", priority=5))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.end("b0", AFTER + 1)
    group = {"schedulingGroup": {"podGroupName": "team"}}
    fleet.come(*(small(f"urgent{number}", **group) for number in range(size)), now=AFTER + 1)
    outcome = fleet.tried(AFTER + 2)["urgent0"].outcome
    assert outcome is (Outcome.UNSCHEDULABLE if told is None else Outcome.PLACED)


def test_one_pod_at_a_time_has_room_kept_of_a_maker(fleet: Fleet) -> None:
    fleet.come(whole("first"), whole("second"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    assert fleet.kept_for() == {"first": "b"}
    fleet.end("first", AFTER + 5)
    fleet.tried(AFTER + HELD_FOR)
    assert fleet.kept_for() == {"second": "b"}


def test_cards_of_each_maker_have_a_turn_of_their_own(fleet: Fleet) -> None:
    def of_dcu(memory: int) -> dict[str, Any]:
        return {"limits": {"hygon.com/dcunum": "1", "hygon.com/dcumem": str(memory)}}

    notes, offers = {"hami.io/node-dcu-register": "dcu-0,4,8000,100,DCU-Z100,0,true:"}, {"hygon.com/dcunum": "4"}
    fleet.engine.observe_node(node("d", annotations=notes, allocatable=offers), 0.0)
    fleet.come(pod("there", of_dcu(WHOLE // 4)))
    assert fleet.tried(0.0)["there"].outcome is Outcome.PLACED
    fleet.engine.binding_succeeded("uid-there")
    for name in ("first", "second"):
        fleet.come(whole(name), pod(f"{name}-dcu", of_dcu(WHOLE), labels={"size": "whole"}))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    assert fleet.kept_for() == {"first": "b", "first-dcu": "d"}


def test_it_ends_after_a_time_and_others_have_their_turn(fleet: Fleet) -> None:
    fleet.come(whole("first"), whole("second"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    decisions = fleet.tried(AFTER + HELD_FOR)
    assert "room on node" not in decisions["first"].message
    assert fleet.kept_for() == {"second": "b"}
    fleet.end("second", AFTER + HELD_FOR + 1)
    fleet.tried(AFTER + HELD_FOR + 5)
    assert fleet.kept_for() == {}, "it waits as long as before"
    fleet.tried(2 * AFTER + HELD_FOR)
    assert fleet.kept_for() == {"first": "b"}


def test_it_ends_after_a_time_whoever_is_tried_then(fleet: Fleet) -> None:
    fleet.come(whole("first"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.come(whole("urgent", priority=9), now=AFTER)
    fleet.tried(AFTER)
    assert fleet.kept_for() == {"first": "b"}
    attempts = sum(len(fleet.engine.schedule_next(AFTER + HELD_FOR)) for _ in range(20))
    assert attempts <= 3, "nobody is tried again and again"
    assert fleet.kept_for() == {"urgent": "b"}


def test_it_is_not_longer_for_what_disturbs_it(fleet: Fleet) -> None:
    fleet.come(whole("first"), whole("second"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    for number in range(4):
        closed = node("b", cards("b", 1), unschedulable=not number % 2, version=number + 5)
        fleet.engine.observe_node(closed, AFTER + 600.0 * (number + 1))
        fleet.tried(AFTER + 600.0 * (number + 1) + 20.0)
        assert list(fleet.kept_for()) == ["first"]
    fleet.tried(AFTER + HELD_FOR)
    assert list(fleet.kept_for()) == ["second"]


def test_it_ends_with_its_node_and_is_somewhere_else_then(fleet: Fleet) -> None:
    fleet.come(whole("big"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.engine.observe_node(node("b", cards("b", 1), unschedulable=True, version=5), AFTER + 1)
    fleet.tried(AFTER + 20)
    fleet.tried(AFTER + 2 * AFTER)
    assert fleet.kept_for() == {"big": "a"}


@pytest.mark.parametrize(("kind", "static"), [("Node", True), ("Node", False), ("DaemonSet", False)])
def test_nothing_is_kept_where_those_who_are_there_never_end(kind: str, *, static: bool) -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.policy_tracker.observe(policy("patience", {"groups": {"holdAfter": "0s"}}))
    notes = allocation("a", ("a-gpu-0", 8000, 0)) | ({"kubernetes.io/config.mirror": "x"} if static else {})
    fixed = pod("fixed", asks(1, 8000), annotations=notes, nodeName="a", started=True)
    engine.observe_pod(msgspec.structs.replace(fixed, owner="d", owner_kind=kind), 0.0)
    engine.observe_pod(whole("big"), 0.0)
    engine.schedule_next(0.0)
    assert list(engine.state.holds) == []


def test_a_policy_that_goes_ends_it(fleet: Fleet) -> None:
    fleet.come(whole("big"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.says(minimum=2)
    fleet.tried(AFTER + 20)
    assert fleet.kept_for() == {}


def test_a_question_leaves_what_is_kept_as_it_is(fleet: Fleet) -> None:
    fleet.come(whole("big"))
    fleet.tried(0.0)
    fleet.tried(AFTER)
    fleet.end("b1", AFTER)  # what it leaves is charged as kept
    fleet.tried(AFTER)
    freed = fleet.engine.state.pending_events.quota_freed
    assert freed == set()
    with fleet.engine.preemptions.rolled_back():
        fleet.engine.preemptions.withdraw("uid-big")
        assert fleet.kept_for() == {}
    assert freed == set(), "nobody is to be woken by a question"
    assert fleet.kept_for() == {"big": "b"}
    assert "uid-big" in fleet.engine.preemptions.held_without_eviction


# --------------------------------------------------------------------------------------------------------------- groups


STEPS = st.lists(
    st.tuples(st.sampled_from(["small", "whole", "urgent", "ends", "later", "cordon"]), st.integers(0, 99)),
    min_size=10,
    max_size=50,
)


@given(steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_no_room_that_is_kept_is_given_to_others(steps: list[tuple[str, int]]) -> None:
    """Whoever is on the cards meanwhile: once those have ended that were there, the pod fits."""
    fleet, now, running = Fleet(), 0.0, [f"a{number}" for number in range(4)] + ["b0", "b1", "b2"]
    engine, cordoned = fleet.engine, set[str]()
    for number, (what, pick) in enumerate(steps):
        now += 20.0
        if what in {"small", "urgent"}:
            fleet.come(small(f"{what}{number}", priority=9 if what == "urgent" else 0), now=now)
        elif what == "whole":
            fleet.come(whole(f"whole{number}"), now=now)
        elif what == "ends" and running:
            fleet.end(running.pop(pick % len(running)), now)
        elif what == "later":
            now += AFTER
        elif what == "cordon":
            name = "ab"[pick % 2]
            cordoned ^= {name}
            known = node(name, cards(name, 1), unschedulable=name in cordoned, version=number + 10)
            engine.observe_node(known, now)
        for name, decision in fleet.tried(now).items():
            if decision.placement is not None:
                engine.binding_succeeded(decision.uid)
                running.append(name)
        assert not engine.state.drift()
        assert engine.preemptions.held_without_eviction.keys() <= {hold.uid for hold in engine.state.holds}
        for hold in engine.state.holds:
            stay = [held for held in engine.state.reservations(hold.node) if held.uid not in hold.leaving]
            assert not stay, f"{[held.pod for held in stay]} took room of {hold.reservation.pod}"
    for uid in list(engine.preemptions.held_without_eviction):
        pod_of = engine.state.pod(uid)
        assert pod_of is not None
        for each in list(engine.state.pods()):
            if each.name in running or each.priority > 0:  # those of higher priority may take its room
                engine.remove_pod(each.uid, now)
        for name in sorted(cordoned):
            engine.observe_node(node(name, cards(name, 1), version=1000), now)
        assert fleet.tried(now + 30.0)[pod_of.name].outcome is Outcome.PLACED
