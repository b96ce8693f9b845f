"""The doctor judges by the scheduler's own rules which groups have run with too few pods for too long."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doctor.clusters import Objects, ago, found, healthy, look, messages, policy, tenant
from tests.doctor.planted import named, stale_group

STALE = ("pod-group-stale", "Pod default/g0")
KIND = "Namespace"


def says(name: str, after: str, **selects: Any) -> dict[str, Any]:
    """Return a policy that sets how long groups may run with too few pods."""
    return {**policy(name), "spec": {"groups": {"staleAfter": after}, **selects}}


def of_tier(tier: str) -> dict[str, Any]:
    return {"matchLabels": {"tier": tier}}


def short_group() -> Objects:
    """Return a cluster in which two pods of a group of three have run for six minutes."""
    objects = healthy()
    stale_group(objects)
    other = tenant("g2", "b", ("b-gpu-1", 1000, 10))
    other["metadata"]["labels"].update(named(objects, "Pod", "g0")["metadata"]["labels"])
    other["status"]["startTime"] = ago(360)
    objects["Pod"].append(other)
    return objects


@pytest.mark.parametrize(
    ("first", "second", "is_stale"), [("5m", "7m", False), ("7m", "5m", False), ("5m", "6m", True)]
)
def test_the_longest_time_that_a_policy_leaves_a_pod_of_a_group_counts(
    first: str, second: str, *, is_stale: bool
) -> None:
    objects = short_group()
    for name, tier, after in (("g0", "a", first), ("g2", "b", second)):
        named(objects, "Pod", name)["metadata"]["labels"]["tier"] = tier
        objects["ClusterVGPUPolicy"].append(says(name, after, selector=of_tier(tier)))
    assert (STALE in found(look(objects))) is is_stale


@pytest.mark.parametrize(("after", "is_stale"), [("7m", False), ("5m", True)])
def test_a_policy_may_select_the_namespace_of_a_group_by_its_labels(after: str, *, is_stale: bool) -> None:
    objects = short_group()
    named(objects, KIND, "default")["metadata"]["labels"] = {"tier": "batch"}
    objects["ClusterVGPUPolicy"].append(says("batch", after, namespaceSelector=of_tier("batch")))
    objects["ClusterVGPUPolicy"].append(says("other", "1s", namespaceSelector=of_tier("other")))
    report = look(objects)
    assert (STALE in found(report)) is is_stale
    assert report.complete
    assert "2 of the 3 pods run that group default/team needs" in messages(report) or not is_stale


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("after", ["7m", "5m"])
def test_where_a_policy_depends_on_unknown_labels_of_a_namespace_nothing_is_said_of_its_groups(
    after: str, *, lists: bool
) -> None:
    objects = short_group()
    objects["ClusterVGPUPolicy"].append(says("batch", after, namespaceSelector=of_tier("batch")))
    objects[KIND] = [each for each in objects[KIND] if each["metadata"]["name"] != "default"]
    report = look(objects, missing={} if lists else {KIND: "list namespaces"})
    assert STALE not in found(report)
    [skipped] = report.skipped
    why = "namespace default" if lists else "list namespaces"
    judged = "whether ClusterVGPUPolicy batch says when group default/team is stale"
    assert (skipped.check, skipped.reason) == ("pod-groups", f"{why} ({judged})")


def test_labels_of_namespaces_that_no_policy_reads_need_not_be_known() -> None:
    objects = short_group()
    report = look(objects, missing={KIND: "list namespaces"})
    assert STALE in found(report)
    assert report.complete
