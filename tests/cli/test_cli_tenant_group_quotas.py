"""What somebody with rights in one namespace is told of a group and its quota: the pods count together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.tenant_view import decided, done, told
from tests.cli.test_cli_tenant_quotas import held, quota
from tests.cli.test_cli_tenants import asking, explained
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

EVERYTHING = frozenset(KINDS.values())
ANNOTATION = "gang.scheduling.koordinator.sh"
RAISED = re.compile(r"limits\.nvidia\.com/gpumem raised to (\d+) ")
ASKED = re.compile(r"ask (\d+) of nvidia\.com/gpumem ")
TOGETHER = re.compile(r"ask for (\d+) MiB of limits\.nvidia\.com/gpumem at most together")
KEPT = "0/1 nodes are available: 1 ResourceQuotaNotFit."


def member(name: str, memory: int, needed: int) -> dict[str, Any]:
    """Return a pod of a group, of the namespace team."""
    made = pod(name, {GPU: 1, MEMORY: memory}, schedulerName="vgpu-scheduler")
    notes = {f"{ANNOTATION}/name": "g", f"{ANNOTATION}/min-available": str(needed)}
    made["metadata"] = {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": notes}
    return made


def that_waits(made: dict[str, Any], message: str = KEPT) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    return {**made, "status": {"phase": "Pending", "conditions": [condition]}}


def all_placed(folder: Path, api: Api, objects: list[dict[str, Any]], pods: list[dict[str, Any]]) -> bool:
    """Tell whether an administrator sees all pods placed."""
    refused, before = api.refused, list(api.objects)
    api.refused = frozenset()
    api.objects[:] = [node("a", 8, memory=40960), *objects]
    told = json.loads(run("simulate", "-f", asking(folder, *pods), "-o", "json").stdout)
    api.refused, api.objects[:] = refused, before
    return all(each["node"] for each in told)


def resized(made: dict[str, Any], memory: int) -> dict[str, Any]:
    return member(made["metadata"]["name"], memory, int(made["metadata"]["annotations"][f"{ANNOTATION}/min-available"]))


@pytest.mark.parametrize("seed", range(60))
def test_what_explain_says_of_a_quota_is_about_the_whole_group(api: Api, seed: int, tmp_path: Path) -> None:
    """Doing what it says lets the group in, and so does no less of a quota."""
    rng = np.random.default_rng(seed)
    number, used = int(rng.integers(2, 5)), int(rng.integers(0, 9000))
    amounts = [int(each) for each in rng.integers(1000, 9000, size=number)]
    limit = used + int(rng.integers(0, sum(amounts)))
    pods = [member(f"p{n}", amount, number) for n, amount in enumerate(amounts)]
    api.objects[:] = [quota(gpumem=limit), held(used), *map(that_waits, pods)]
    asked = int(rng.integers(0, number))
    answer = explained(api, f"p{asked}")
    text = run("explain", f"p{asked}", "-n", "team").stdout
    assert f"{sum(amounts) - amounts[asked]} MiB of limits.{MEMORY}" in text
    (raised,) = {int(found) for each in answer["remedies"] for found in RAISED.findall(each)}
    assert raised == used + sum(amounts)
    assert all_placed(tmp_path, api, [quota(gpumem=raised), held(used)], pods)
    assert not all_placed(tmp_path, api, [quota(gpumem=raised - 1), held(used)], pods)
    less = [int(found) for each in answer["remedies"] for found in ASKED.findall(each)]
    for amount in less:
        others = [resized(each, amount) if n == asked else each for n, each in enumerate(pods)]
        assert all_placed(tmp_path, api, [quota(gpumem=limit), held(used)], others)
    together = [int(found) for each in answer["remedies"] for found in TOGETHER.findall(each)]
    assert together == ([limit - used] if not less and limit > used else [])
    if together and together[0] >= number:
        shares = [resized(each, together[0] // number) for each in pods]
        assert all_placed(tmp_path, api, [quota(gpumem=limit), held(used)], shares)


def test_a_quota_that_keeps_another_member_is_advised_about_once(api: Api) -> None:
    other = f"pod team/p1, which is placed together with this one: {KEPT}"
    waits = (that_waits(member(name, 3000, 2), told) for name, told in (("p0", other), ("p1", KEPT)))
    api.objects[:] = [quota(gpumem=8000), held(4000), *waits]
    less, raised = explained(api, "p0")["remedies"]
    assert less.startswith(f"ask 1000 of {MEMORY} instead of 3000")
    assert raised.startswith(f"have limits.{MEMORY} raised to 10000 (it is 8000), or end pods of the namespace")


@pytest.mark.parametrize("unread", ["ResourceQuota", "Pod"])
@pytest.mark.parametrize("seed", range(25))
def test_that_the_pods_of_a_group_count_together_is_told_by_the_event_where_little_is_seen(
    api: Api, seed: int, unread: str
) -> None:
    """Where the other pods are seen, it is told to how much; pieces of cards are not said to be the reason."""
    rng = np.random.default_rng(seed)
    number, used = int(rng.integers(2, 5)), int(rng.integers(1, 5000))
    amounts = [int(each) for each in rng.integers(500, 9000, size=number)]
    limit = used + max(amounts) + int(rng.integers(0, sum(amounts) - max(amounts)))
    api.objects[:] = [node("a", 4), quota(gpumem=limit), held(used)]
    api.objects += [member(f"p{n}", amount, number) for n, amount in enumerate(amounts)]
    for n in range(number):
        assert not decided(api, f"p{n}")
    api.refused_everywhere = frozenset({unread})
    for n in range(number):
        remedies = told(api, f"p{n}")
        assert not any("than is requested" in each or "find out" in each for each in remedies), remedies
        (raised,) = [each for each in remedies if each.startswith("have limits.")]
        at_once = f"limits.{MEMORY} raised (of {limit}, {used} are used; {number} pods of its group count at once)"
        assert (at_once in raised) is (unread == "Pod")
        of_all = f"have the {number} pods of group team/g that are placed at once ask for {limit - used} MiB"
        assert any(each.startswith(of_all) for each in remedies) is (
            unread == "Pod" or limit - used <= sum(amounts) - amounts[n]
        )
        text = run("explain", f"p{n}", "-n", "team").stdout
        assert (f"{number} pods of its group team/g count at once" in text) is (unread == "Pod")
        if unread != "Pod":
            assert f"raised to {used + sum(amounts)} (it is {limit}) in each quota" in raised
            assert done(api, f"p{n}", raised) == "a"
            api.refused_everywhere = frozenset({unread})


@pytest.mark.parametrize("seed", range(20))
def test_no_figure_is_said_to_be_enough_of_a_group_whose_other_pods_are_not_seen(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, used = int(rng.integers(2, 5)), int(rng.integers(1, 5000))
    amount, left = int(rng.integers(2000, 9000)), int(rng.integers(1, 2000))
    api.objects[:] = [node("a", 4), quota(gpumem=used + left), held(used)]
    api.objects += [member(f"p{n}", amount, number) for n in range(number)]
    for n in range(number):
        assert not decided(api, f"p{n}")
    api.refused_everywhere = frozenset({"Pod"})
    less, raised = told(api, "p0")
    assert less.startswith(f"ask {left} of {MEMORY} instead of {amount} in container main")
    assert f"at most: the {number} pods of its group count at once in limits.{MEMORY}" in less
    assert f"raised to more than {used + amount}, by what others of its group are to have" in raised


def failed_scheduling(told: str) -> dict[str, Any]:
    """Return the event of pod p that says how its quota stands."""
    return {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "team"},
        "involvedObject": {"uid": "uid-p"},
        "reason": "FailedScheduling",
        "message": f"{KEPT} ({told})",
    }


@pytest.mark.parametrize("seed", range(50))
def test_limits_that_an_event_tells_of_count_only_while_they_are_those(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(6000, 9000))
    used, amount = (int(each) for each in rng.integers(3000, 6000, size=2))
    now = limit if rng.random() < 0.5 else used + amount + int(rng.integers(0, 5000))
    waits = that_waits(pod("p", {GPU: 1, MEMORY: amount}, schedulerName="vgpu-scheduler"))
    waits["metadata"] = {"name": "p", "namespace": "team", "uid": "uid-p"}
    told = f"namespace team uses {limit} of {limit} MiB of limits.{MEMORY}"
    api.objects[:] = [quota(gpumem=now), *([held(used)] if now != limit else []), waits, failed_scheduling(told)]
    answer = explained(api, "p")
    is_still = now == limit
    assert any(f"{limit} of {limit} MiB" in each for each in answer["quotas"]) is is_still


def test_of_a_dialect_that_the_settings_do_not_name_the_quota_of_the_event_is_told(api: Api) -> None:
    waits = that_waits(pod("p", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 9000}))
    waits["spec"]["schedulerName"] = "vgpu-scheduler"
    waits["metadata"] = {"name": "p", "namespace": "team", "uid": "uid-p"}
    told = "namespace team uses 0 of 8000 MiB of limits.volcano.sh/vgpu-memory"
    api.objects[:] = [quota(gpumem=4000), held(3000), waits, failed_scheduling(told)]
    api.settings = "dialects: [hami]\n"
    assert explained(api, "p")["quotas"] == ["0 of 8000 MiB of limits.volcano.sh/vgpu-memory"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("seed", range(50))
def test_a_group_that_the_quota_keeps_names_the_quota_with_each_of_its_pods(
    api: Api, seed: int, tmp_path: Path, *, there: bool
) -> None:
    """Be the pods in files alone, or there already and written anew."""
    rng = np.random.default_rng(seed)
    number, used = int(rng.integers(2, 5)), int(rng.integers(0, 9000))
    amounts = [int(each) for each in rng.integers(1000, 9000, size=number)]
    limit = used + int(rng.integers(0, 2 * sum(amounts)))
    pods = [member(f"p{n}", amount, number) for n, amount in enumerate(amounts)]
    api.objects[:] = [quota(gpumem=limit), held(used), *(map(that_waits, pods) if there else ())]
    api.refused = EVERYTHING
    for each in pods if rng.random() < 0.5 else ():
        del each["metadata"]["uid"]
    told = json.loads(run("simulate", "-f", asking(tmp_path, *pods), "-n", "team", "-o", "json").stdout)
    assert len(told) == number
    for each in told:
        assert each["exceeded"] is (used + sum(amounts) > limit), told
        assert not each["reasons"]
        assert ("other pod" in each["quota"]) is each["exceeded"]


@pytest.mark.parametrize("seed", range(50))
def test_pending_names_the_quota_of_groups_beside_their_condition(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, used = int(rng.integers(2, 5)), int(rng.integers(0, 9000))
    amounts = [int(each) for each in rng.integers(1000, 9000, size=number)]
    limit = used + sum(amounts) - int(rng.integers(1, sum(amounts)))
    api.objects[:] = [quota(gpumem=limit), held(used)]
    api.objects += [that_waits(member(f"p{n}", amount, number)) for n, amount in enumerate(amounts)]
    api.refused = EVERYTHING
    told = json.loads(run("simulate", "--pending", "-n", "team", "-o", "json").stdout)
    assert [each["exceeded"] for each in told] == [True] * number
    assert all("other pod" in each["quota"] and KEPT in each["reasons"][-1] for each in told)


POD_GROUP = "PodGroup.scheduling.x-k8s.io"


def pod_group(name: str, minimum: int) -> dict[str, Any]:
    return {
        "kind": POD_GROUP,
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-group-{name}"},
        "spec": {"minMember": minimum},
    }


@pytest.mark.parametrize("seed", range(40))
def test_pods_of_a_group_whose_object_may_not_be_read_are_taken_together_as_the_event_tells(
    api: Api, seed: int
) -> None:
    """What is told of its pods is that which is told if the object may be read."""
    rng = np.random.default_rng(seed)
    number, extra, used = int(rng.integers(2, 5)), int(rng.integers(0, 2)), int(rng.integers(1, 5000))
    amounts = [int(each) for each in rng.integers(500, 9000, size=number + extra)]
    least = sum(sorted(amounts)[:number])
    limit = used + max(amounts) + int(rng.integers(0, max(least - max(amounts), 1)))
    pods = [member(f"p{n}", amount, number) for n, amount in enumerate(amounts)]
    for each in pods:
        del each["metadata"]["annotations"]
        each["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    others = {"limits.hygon.com/dcumem": "6000"}  # of other vendors
    api.objects[:] = [node("a", 4, memory=40960), pod_group("g", number), quota(gpumem=limit), held(used), *pods]
    next(each for each in api.objects if each["kind"] == "ResourceQuota")["spec"]["hard"] |= others
    where = [decided(api, f"p{n}") for n in range(number + extra)]
    if any(where):
        return
    seen = [told(api, f"p{n}") for n in range(number + extra)]
    api.refused_everywhere = frozenset({POD_GROUP})
    for n, before in enumerate(seen):
        remedies = told(api, f"p{n}")
        assert remedies == before
        result = run("explain", f"p{n}", "-n", "team")
        assert "may not be listed here" not in result.stderr
        assert not any("find out" in each or "gpucores" in each for each in remedies), remedies
        if least + used > limit:
            of_group = f"other pod{'s' if number > 2 else ''} of its group team/g ask" if number > 2 else "another pod"
            assert of_group in result.stdout, result.stdout
