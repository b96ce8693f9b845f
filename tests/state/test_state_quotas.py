"""What namespaces hold: sums over pods, kept as these come and go."""

from __future__ import annotations

import pytest
from tests.engine.builders import allocation, asks, cards, engine_with, node, pod

from vgpu_scheduler.model import NO_USAGE, Amounts, Claim, ContainerClaims, ContainerType, Usage
from vgpu_scheduler.state import QuotaUsage


def usage(**charges: Amounts) -> Usage:
    """Return a usage of cards; those that begin with ``x`` are of vendor X, the others of vendor Y."""
    return Usage(charges, vendors={uuid: "X" if uuid.startswith("x") else "Y" for uuid in charges})


def test_it_adds_up_over_cards_and_pods_by_namespace_and_vendor() -> None:
    book = QuotaUsage()
    book.charge("a", {"d": usage(x1=(1, 100, 10), x2=(1, 200, 0), y1=(2, 7))}, 1)
    book.charge("a", {"d": usage(x1=(1, 50, 5, 1))}, 1)
    book.charge("b", {"d": usage(y1=(1, 1, 1))}, 1)
    assert book.as_values() == {"a": {("d", "X"): (3, 350, 15, 1), ("d", "Y"): (2, 7)}, "b": {("d", "Y"): (1, 1, 1)}}
    assert [book.used("a", ("d", "X"), dimension) for dimension in (1, 2, 9)] == [350, 15, 0]
    assert book.used("c", ("d", "X"), 1) == book.used("a", ("d", "Z"), 1) == 0


def test_what_is_given_back_leaves_no_trace() -> None:
    book = QuotaUsage()
    first, second = usage(x1=(1, 100, 10)), usage(x1=(1, 50, 5, 1))
    for held in (first, second):
        book.charge("a", {"d": held}, 1)
    for held in (first, second):
        book.charge("a", {"d": held}, -1)
    assert book.as_values() == {}
    book.charge("a", {"d": NO_USAGE}, 1)
    assert book.as_values() == {}


def test_whose_cards_are_unknown_counts_nowhere() -> None:
    book = QuotaUsage()
    book.charge("a", {"d": Usage({"x": (1, 1, 1)})}, 1)
    assert book.as_values() == {}


def test_claims_that_may_sit_anywhere_count_once_by_their_peak() -> None:
    def container(kind: ContainerType, count: int, memory: int, percent: int = 0) -> ContainerClaims:
        return ContainerClaims("c", kind, (Claim("X", count, (1, memory, 10), (0, percent, 0)),))

    apps = (container(ContainerType.APP, 2, 100), container(ContainerType.APP, 1, 0, 50))
    assert Usage({}, apps).totals() == {"X": (3, 200, 30)}
    assert Usage({}, (container(ContainerType.INIT, 1, 500), *apps)).totals() == {"X": (3, 500, 30)}
    both = Usage({"x": (1, 5, 5)}, apps, vendors={"x": "X"})
    assert both.totals() == {"X": (4, 205, 35)}


def test_pieces_of_cards_count_as_they_are_booked() -> None:
    held = Usage({"x": (1, 4864, 14, 1, 1, 0)}, vendors={"x": "X"})
    book = QuotaUsage()
    book.charge("a", {"d": held}, 1)
    assert book.used("a", ("d", "X"), 1) == 4864


@pytest.mark.parametrize("kind", ["assumed", "bound"])
def test_the_state_keeps_it(kind: str) -> None:
    engine = engine_with([node("a", cards("a", 2))])
    if kind == "assumed":
        engine.observe_pod(pod("p", asks(2, 3000, 20)), 0.0)
        assert engine.attempt(0.0) is not None
    else:
        notes = allocation("a", ("a-gpu-0", 3000, 20), ("gone", 3000, 20))
        engine.observe_pod(pod("p", asks(2, 3000, 20), nodeName="a", annotations=notes), 0.0)
    state = engine.state
    assert state.quota_usage.as_values() == {"default": {("hami", "NVIDIA"): (2, 6000, 40)}}
    assert state.quota_usage.as_values() == state.rebuild().quota_usage.as_values()
    engine.remove_node("a")
    assert state.quota_usage.used("default", ("hami", "NVIDIA"), 1) == 6000, "they hold it all the same"
    engine.remove_pod("uid-p", 0.0)
    assert state.quota_usage.as_values() == {}


def test_what_was_seen_of_a_running_pod_stays_counted() -> None:
    notes = allocation("a", ("a-gpu-0", 3000, 20))
    engine = engine_with([node("a", cards("a", 2))], [pod("p", nodeName="a", started=True, annotations=notes)])
    less = allocation("a", ("a-gpu-1", 1000, 0))
    engine.observe_pod(pod("p", nodeName="a", started=True, annotations=less, version=2), 0.0)
    assert engine.state.quota_usage.as_values() == {"default": {("hami", "NVIDIA"): (2, 4000, 20)}}
    engine.remove_pod("uid-p", 0.0)
    assert engine.state.quota_usage.as_values() == {}
