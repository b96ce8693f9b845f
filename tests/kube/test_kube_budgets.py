"""What a disruption budget allows once pods were evicted."""

from __future__ import annotations

import pytest
from tests.engine.builders import pod_object

from vgpu_scheduler.kube import DisruptionBudget, Pod, compile_label_selector, decode_pod

WEB = {"app": "web"}


def budget(allowed: int, *disrupted: str) -> DisruptionBudget:
    selector = compile_label_selector({"matchLabels": WEB})
    return DisruptionBudget(
        uid="b", namespace="default", name="b", resource_version=1, selector=selector, allowed=allowed,
        disrupted=frozenset(disrupted),
    )  # fmt: skip


def pod(name: str, labels: dict[str, str] = WEB, *, deleting: bool = False) -> Pod:
    body = pod_object(name)
    body["metadata"]["labels"] = labels
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return decode_pod(body)


@pytest.mark.parametrize(
    ("evicted", "left", "disrupted"),
    [
        ([pod("a")], 1, {"counted", "a"}),
        ([pod("a"), pod("b")], 0, {"counted", "a", "b"}),
        ([pod("a"), pod("b"), pod("c")], 0, {"counted", "a", "b", "c"}),  # the API server allows no less than none
        ([pod("counted")], 2, {"counted"}),
        ([pod("ends", deleting=True)], 2, {"counted"}),
        ([pod("a", {"app": "db"})], 2, {"counted"}),
    ],
)
def test_each_pod_that_is_not_counted_yet_takes_one(evicted: list[Pod], left: int, disrupted: set[str]) -> None:
    before = budget(2, "counted")

    after, without = before.after(evicted), before.after(evicted, gone=True)

    assert (after.allowed, after.disrupted) == (left, disrupted)
    assert after.after(evicted) == after, "nobody is counted twice"
    assert (without.allowed, without.disrupted) == (left, {"counted"} - {each.name for each in evicted})
