"""What a tenant is told of a pod that waits is enough where it is done, whatever else the tenant cannot see."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.cli.live_cluster import Api
from tests.cli.tenant_view import decided, done, told
from tests.cli.test_cli_tenant_advice import asking
from tests.cli.test_cli_tenant_quotas import held, quota
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, running

Object = dict[str, Any]

IN_QUOTA = re.compile(r"(\d+) in ResourceQuota (\w+)")


def named(name: str, **hard: int) -> Object:
    """Return a quota of the namespace with a name."""
    made = quota(**hard)
    made["metadata"] = {"name": name, "namespace": "team", "uid": name}
    return made


# Several quotas of one resource --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "to_raise"),
    [
        ({"big": 10000, "small": 9500}, {"big", "small"}),
        ({"big": 12000, "small": 9500}, {"small"}),
        ({"a": 10999, "b": 9500, "c": 11000}, {"a", "b"}),
    ],
)
def test_each_quota_of_a_resource_that_must_be_raised_is_named(
    api: Api, limits: dict[str, int], to_raise: set[str]
) -> None:
    quotas = [named(name, gpumem=limit) for name, limit in limits.items()]
    api.objects[:] = [node("a", 2), *quotas, held(9000), asking(gpu=1, gpumem=2000)]
    assert not decided(api, "p")
    (raised,) = [text for text in told(api, "p") if text.startswith("have ")]
    assert raised.startswith(f"have limits.{MEMORY} raised to 11000 (it is ")
    assert {name: int(limit) for limit, name in IN_QUOTA.findall(raised)} == {name: limits[name] for name in to_raise}
    for each in quotas:
        if each["metadata"]["name"] in to_raise:
            each["spec"]["hard"][f"limits.{MEMORY}"] = "11000"
    assert decided(api, "p") == "a"


def test_that_other_quotas_may_leave_too_little_is_said_where_only_the_event_tells_of_them(api: Api) -> None:
    api.objects[:] = [node("a", 2), named("big", gpumem=10000), named("small", gpumem=9500), held(9000)]
    api.objects.append(asking(gpu=1, gpumem=2000))
    assert not decided(api, "p")
    api.refused_everywhere = frozenset({"ResourceQuota"})
    (raised,) = [text for text in told(api, "p") if text.startswith("have ")]
    to = f"have limits.{MEMORY} raised to 11000 (it is 9500) in each quota that leaves too little"
    assert raised.startswith(f"{to}, or end pods of the namespace: on cards that are split into pieces")


def test_each_quota_is_named_where_the_card_decides_how_much_is_needed(api: Api) -> None:
    api.objects[:] = [node("a", 2), named("big", gpumem=10000), named("small", gpumem=9500), held(9000), asking(gpu=1)]
    assert not decided(api, "p")
    (raised,) = [text for text in told(api, "p") if text.startswith("have ")]
    assert dict(IN_QUOTA.findall(raised)) == {"9500": "small", "10000": "big"}


# Quotas, and nodes without room --------------------------------------------------------------------------------------


@pytest.mark.parametrize("events_alone", [False, True])
def test_what_a_quota_leaves_is_the_most_where_no_node_has_room(api: Api, *, events_alone: bool) -> None:
    """The condition says that no node would fit with a larger quota, and not how much a node has left."""
    api.objects[:] = [node("a", 1), quota(gpumem=20000), held(9000), asking(gpu=1, gpumem=12000)]
    assert not decided(api, "p")
    api.refused_everywhere = frozenset({"ResourceQuota"}) if events_alone else frozenset()
    (less,) = told(api, "p")
    assert less.startswith(f"ask 11000 of {MEMORY} instead of 12000 in container main, 1000 less (")
    assert less.endswith("at most: some node must have that much free, too)")


def test_what_a_quota_leaves_is_enough_where_a_node_has_room(api: Api) -> None:
    api.objects[:] = [node("a", 2), quota(gpumem=20000), held(9000), asking(gpu=1, gpumem=12000)]
    assert not decided(api, "p")
    less, _ = told(api, "p")
    assert "some node" not in less
    assert done(api, "p", less) == "a"


# Shares in use -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_shares_that_nodes_lack_may_be_in_use(api: Api, count: int) -> None:
    """The condition does not tell whether nodes have too few of them, or other pods use them."""
    of_team = []
    for number in range(10):
        made = running(f"r{number}", "a", "GPU-a-0", 100)
        made["metadata"]["namespace"] = "team"
        of_team.append(made)
    api.objects[:] = [node("a", 1), *of_team, asking(gpu=count, gpumem=1000)]
    assert not decided(api, "p")
    less, wait = told(api, "p")
    assert "which cards there are" in less if count == 1 else less.startswith(f"ask for less than {count} of {GPU} ")
    assert less.endswith(f"nodes have none or too few of {GPU} left")
    assert wait == f"wait until other pods end, or end pods of your own: they may use all that nodes have of {GPU}"
    if count == 1:
        api.objects.remove(of_team[0])
        assert decided(api, "p") == "a"


def test_what_all_nodes_lack_beside_shares_is_still_needed(api: Api) -> None:
    asked = asking(gpu=1, gpumem=1000)
    asked["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "900"
    message = f"0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient {GPU}."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    api.objects[:] = [{**asked, "status": {"phase": "Pending", "conditions": [condition]}}]
    *_, wait = told(api, "p")
    assert wait.startswith("wait until other pods end, or end pods of your own: ")
    assert "; and ask for less than 900 of cpu in container main" in wait


# Quotas that cannot be seen ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [0, 60])
def test_compute_is_to_be_named_only_where_a_policy_gives_some(api: Api, given: int) -> None:
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "d", "namespace": "team", "uid": "d"}}
    policies = [{**policy, "spec": {"defaults": {"cores": given}}}] if given else []
    api.objects[:] = [node("a", 2), *policies, quota(gpumem=10000), held(9000), asking(gpu=1, gpumem=2000)]
    assert not decided(api, "p")
    api.refused_everywhere = frozenset({"Event", "ResourceQuota"})
    less, *of_compute, raised = told(api, "p")
    assert less == f"ask for less than 2000 of {MEMORY} in container main"
    assert bool(of_compute) is bool(given)
    assert all(text.startswith(f"ask for some of {CORES} ") for text in of_compute)
    assert raised.startswith("have the quota of the namespace raised, or end pods of it")


# Pods that are ending ------------------------------------------------------------------------------------------------


def ending(name: str, memory: int) -> Object:
    made = running(name, "a", "GPU-a-0", memory)
    made["metadata"] |= {"namespace": "team", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return made


@pytest.mark.parametrize("seen", [frozenset(), frozenset({"ResourceQuota"})])
def test_a_quota_that_an_ending_pod_holds_is_waited_for(api: Api, seen: frozenset[str]) -> None:
    api.objects[:] = [node("a", 2), quota(gpumem=10000), ending("r", 9000), asking(gpu=1, gpumem=2000)]
    assert not decided(api, "p")
    api.refused_everywhere = seen
    assert "wait until pod team/r has ended, which is ending already" in told(api, "p")
    del api.objects[2]
    assert decided(api, "p") == "a"


def test_only_as_many_ending_pods_are_waited_for_as_are_needed(api: Api) -> None:
    api.objects[:] = [node("a", 2), quota(gpumem=10000), ending("r", 1500), ending("s", 4500), ending("t", 4000)]
    api.objects.append(asking(gpu=1, gpumem=8000))
    assert not decided(api, "p")
    assert "wait until pods team/s, team/t have ended, which are ending already" in told(api, "p")


def test_nothing_is_said_of_ending_pods_that_hold_too_little(api: Api) -> None:
    api.objects[:] = [node("a", 2), quota(gpumem=10000), held(6000), ending("r", 3000), asking(gpu=1, gpumem=5000)]
    assert not decided(api, "p")
    assert not any("wait until" in text for text in told(api, "p"))
