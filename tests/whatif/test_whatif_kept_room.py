"""Where room is kept for a pod, what is said of the cards to others names it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import CREATED, Obj, explained, tenant, waiting, world
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.engine import event_note
from vgpu_scheduler.whatif import World, ask, make_room
from vgpu_scheduler.whatif.world.queue_order import placing

CARD = 16384
PATIENCE = policy_object("p", {"selector": {"matchLabels": {"size": "whole"}}, "groups": {"holdAfter": "15m"}})


def train(namespace: str = "default", cards: int = 2) -> Obj:
    """Return a pod that has waited for a day for whole cards."""
    metadata = {"labels": {"size": "whole"}, "namespace": namespace, "creationTimestamp": CREATED.format(0)}
    return waiting("train", CARD, cards=cards, metadata=metadata)


def of_two_cards(*waiting_pods: Obj, more: tuple[Obj, ...] = ()) -> World:
    """Return a world whose node a has an idle card and one with a small pod."""
    return world(node("a", 2), tenant("a0", "a", "GPU-a-0", 4096), PATIENCE, *waiting_pods, *more, preemption=False)


def noted(made: World, name: str = "small") -> str:
    """Return what the event of a pod says once the pods before it were tried."""
    (pod,) = (each for each in made.pending.values() if each.name == name)
    with placing(made, [each for each in made.pending.values() if each.name != name]):
        return event_note(made.engine, pod, ask(made, pod).decision)


SAYS = "CardInsufficientMemory: 0 of 12000 MiB memory free; room is kept for {}"


@pytest.mark.parametrize(
    ("namespace", "sees", "whom"),
    [
        ("default", {"default"}, "pod default/train"),
        ("other", {"default", "other"}, "pod other/train"),
        ("other", {"default"}, "another pod"),
        ("default", set(), "another pod"),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_cards_say_for_whom_room_is_kept(namespace: str, sees: set[str], whom: str, *, elsewhere: bool) -> None:
    more = (node("b", 1),) if elsewhere else ()
    found = explained(of_two_cards(train(namespace), waiting("small", 12000, second=2), more=more), "small")
    assert found.answer.node == ("b" if elsewhere else "")
    told = found.without_kept_names(sees)
    assert " ".join(told.text().split()).count(SAYS.format(whom)) == 2
    assert [each["keptFor"] for each in told.as_json()["cards"]["a"]] == [[whom], [whom]]
    if not sees:
        assert "train" not in "".join((json.dumps(told.as_json()["cards"]), *told.as_json()["causes"]))


def test_cards_without_such_room_say_nothing_of_it() -> None:
    found = explained(of_two_cards(waiting("small", CARD, cards=2, second=2)), "small")
    assert "kept" not in found.text()
    assert all("keptFor" not in each for each in found.as_json()["cards"]["a"])


def test_room_that_the_pod_may_use_is_not_named() -> None:
    high = explained(of_two_cards(train(), waiting("high", CARD + 1, priority=5, second=2)), "high")
    assert "room is kept" not in high.text()


@pytest.mark.parametrize(("namespace", "whom"), [("default", "pod default/train"), ("other", "another pod")])
def test_an_event_says_that_room_is_kept(namespace: str, whom: str) -> None:
    note = noted(of_two_cards(train(namespace), waiting("small", 12000, second=2)))
    assert note == f"(nearest: 0 of 12000 MiB memory free on a/GPU-a-0; room on node a is kept for {whom})"


def test_an_event_names_it_though_another_card_came_closer() -> None:
    full = (node("b", 1), tenant("b0", "b", "GPU-b-0", 8192))
    note = noted(of_two_cards(train(), waiting("small", 12000, second=2), more=full))
    nearest = "nearest: 8192 of 12000 MiB memory free on b/GPU-b-0"
    assert note == f"({nearest}; room on node a is kept for pod default/train)"


def test_an_event_is_silent_about_room_that_would_not_help() -> None:
    full = (node("b", 1), tenant("b0", "b", "GPU-b-0", 8192))
    assert "kept" not in noted(of_two_cards(train(), waiting("small", CARD, cards=3, second=2), more=full))
    assert "kept" not in noted(of_two_cards(waiting("small", CARD, cards=2, second=2)))


def test_a_plan_of_moves_names_it() -> None:
    made = of_two_cards(train(), waiting("small", 12000, second=2))
    (pod,) = (each for each in made.pending.values() if each.name == "small")
    room = make_room(made, pod)
    assert not room.node
    assert room.kept == (("a", "default/train"),)
    assert room.as_json()["kept"] == [{"node": "a", "pod": "default/train"}]
    assert "kept" not in replace(room, kept=()).as_json()
