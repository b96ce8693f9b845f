"""Of remedies that come first it is said whether they suffice only where that is known."""

from __future__ import annotations

from typing import Any

from tests.whatif.test_whatif_remedies import GPU, pod, world_of

from vgpu_scheduler.whatif import RemedyType, explain_pod

Object = dict[str, Any]


def explained(written: Object) -> tuple[set[RemedyType], str]:
    """Return the remedies of a pod on a node that offers cards of which none is registered, and the explanation."""
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU: "8"}
    bare = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": amounts, "capacity": amounts}}
    world, waiting = world_of(bare, written)
    found = explain_pod(world, waiting)
    assert not any(each.node for each in found.remedies)
    return {each.type for each in found.remedies}, found.text()


def test_whether_a_repair_suffices_is_not_known_before_the_cards_are() -> None:
    kinds, text = explained(pod("p", {GPU: 1}))
    assert kinds == {RemedyType.REPAIR_NODE}
    assert "This comes first; whether it is enough is not known: the cards that the node then has" in text
    assert "run HAMi's device plugin on node a" in text
    assert "does not suffice" not in text


def test_beside_what_does_not_suffice_nothing_is_said_of_what_may() -> None:
    kinds, text = explained(pod("p", {GPU: "1500m"}))
    assert kinds == {RemedyType.CORRECT, RemedyType.REPAIR_NODE}
    assert "This comes first; it may not be enough alone:" in text
