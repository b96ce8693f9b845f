"""What somebody with rights in one namespace is told of its quotas: of whose pods, and how many they let in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.test_cli_tenants import asking, explained, waiting
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

EVERYTHING = frozenset(KINDS.values())
KEPT = "uota keeps it waiting"


def quota(**hard: int) -> dict[str, Any]:
    """Return a quota of the namespace team."""
    spec = {"hard": {f"limits.nvidia.com/{name}": str(amount) for name, amount in hard.items()}}
    metadata = {"name": "q", "namespace": "team", "uid": "q"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": spec}


def held(memory: int, cores: int = 0, where: str = "a") -> dict[str, Any]:
    """Return a pod of the namespace that holds memory and compute of a card."""
    made = running("held", where, f"GPU-{where}-0", memory, cores)
    made["metadata"]["namespace"] = "team"
    return made


@pytest.mark.parametrize("named", ["default-scheduler", "hami-scheduler", "vgpu-scheduler", "vgpu-schedulr"])
@pytest.mark.parametrize("seed", range(15))
def test_only_a_pod_that_this_scheduler_places_is_kept_by_the_quota(api: Api, seed: int, named: str) -> None:
    rng = np.random.default_rng(seed)
    used, memory = (int(each) for each in rng.integers(1000, 5000, size=2))
    limit = used + memory - int(rng.integers(1, 1000))
    message = str(rng.choice(["", "0/1 nodes are available: 1 Insufficient cpu."]))
    asked = waiting("p", message)
    asked["spec"]["schedulerName"] = named
    asked["spec"]["containers"][0]["resources"]["limits"] |= {MEMORY: str(memory), "cpu": "8"}
    api.objects[:] = [quota(gpumem=limit), held(used), asked]
    api.settings = "coexist_with: [hami-scheduler]\n"
    answer = explained(api, "p")
    text = run("explain", "p", "-n", "team").stdout
    pending = run("simulate", "--pending", "-n", "team").stdout
    others = named in {"default-scheduler", "hami-scheduler"}
    assert (not answer["quotas"]) is others
    assert any(f"limits.{MEMORY}" in remedy for remedy in answer["remedies"]) is not others
    assert (KEPT in text) is (named == "vgpu-scheduler")
    assert ("uota would keep it waiting" in text) is (named == "vgpu-schedulr")
    assert (KEPT in pending) is (named == "vgpu-scheduler")
    assert (f"t names the scheduler {named}: vgpu-scheduler places" in text) is others
    assert (f"t names the scheduler {named}: vgpu-scheduler places" in pending) is others


@pytest.mark.parametrize("named", ["default-scheduler", "vgpu-schedulr", "vgpu-scheduler"])
@pytest.mark.parametrize("count", [1, 3])
def test_simulate_says_to_an_administrator_whose_the_pods_are(api: Api, count: int, named: str) -> None:
    pods = [waiting(f"p{number}") for number in range(count)]
    for each in pods:
        each["spec"]["schedulerName"] = named
    api.objects[:] = [node("a"), quota(gpumem=0), *pods]
    told = run("simulate", "--pending", "-n", "team")
    warned = [line for line in told.stderr.splitlines() if "Here it is placed as if it named vgpu-scheduler" in line]
    if named == "vgpu-scheduler":
        assert not warned
        return
    (line,) = warned
    assert line.startswith(f"warning: Pod team/p0{'' if count == 1 else ' and 2 more'}: ")
    assert f"the scheduler {named}" in line


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("hard", "used", "options", "warned"),
    [
        ({"requests.nvidia.com/gpu": "3"}, {"requests.nvidia.com/gpu": "2"}, [], True),
        ({"requests.nvidia.com/gpu": "4"}, {"requests.nvidia.com/gpu": "2"}, [], False),
        ({"requests.nvidia.com/gpu": "4"}, {"requests.nvidia.com/gpu": "2"}, ["--count", "2"], True),
        ({"requests.nvidia.com/gpu": "400"}, {}, ["--count", "max"], True),
        ({"requests.amd.com/gpu": "0"}, {}, [], False),
        ({"pods": "5"}, {"pods": "5"}, [], True),
        ({"count/pods": "many"}, {}, [], True),
        ({"limits.nvidia.com/gpumem": "100000"}, {}, [], False),
    ],
)
def test_quotas_that_the_api_server_enforces_are_warned_of(
    api: Api, tmp_path: Path, hard: Any, used: Any, options: list[str], *, warned: bool, alone: bool
) -> None:
    asked = waiting("p")
    asked["spec"]["containers"][0]["resources"]["limits"] = {GPU: "2", MEMORY: "100"}
    metadata = {"name": "cnt", "namespace": "team", "uid": "cnt"}
    counts = {
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    }
    api.objects[:] = [node("a"), counts]
    api.refused = EVERYTHING if alone else frozenset()
    (tmp_path / "p.yaml").write_text(json.dumps(asked))
    told = run("simulate", "-f", str(tmp_path / "p.yaml"), "-n", "team", *options).stderr
    assert ("which is not simulated" in told) is warned
    if warned:
        ((name, limit),) = hard.items()
        assert f"warning: ResourceQuota team/cnt allows {limit} of {name}, of which " in told


@pytest.mark.parametrize("by_status", [True, False])
@pytest.mark.parametrize("copies", [0, 1, 2])
@pytest.mark.parametrize("there", [0, 1, 2, 3])
@pytest.mark.parametrize("limited", ["requests.nvidia.com/gpu", "pods", "count/pods"])
def test_a_quota_without_a_status_counts_the_pods_that_there_are(
    api: Api, tmp_path: Path, limited: str, there: int, copies: int, *, by_status: bool
) -> None:
    """A quota has no status before it is created, which is when somebody tries it."""
    asked, others = waiting("p"), [waiting(f"o{number}") for number in range(there)]
    for each in (asked, *others):
        each["spec"]["containers"][0]["resources"]["limits"] = {GPU: "1", MEMORY: "100"}
    hard = {limited: "3"}
    counts = {"kind": "ResourceQuota", "metadata": {"name": "cnt", "namespace": "team", "uid": "cnt"}}
    counts |= {"spec": {"hard": hard}}
    if by_status:
        counts |= {"status": {"hard": hard, "used": {limited: str(there)}}}
    api.objects[:] = [node("a"), counts, *others]
    (tmp_path / "p.yaml").write_text(json.dumps(asked))
    options = ["--count", str(copies)] if copies else []
    told = run("simulate", "-f", str(tmp_path / "p.yaml"), "-n", "team", *options).stderr
    source = "according to its status" if by_status else "by the pods that were read"
    warning = f"ResourceQuota team/cnt allows 3 of {limited}, of which {there} are used {source}: the API server"
    assert (warning in told) == (there + max(copies, 1) > 3)
    assert ("which is not simulated" in told) == (there + max(copies, 1) > 3)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("by_status", [True, False])
@pytest.mark.parametrize("asked", ["1", "2500m", "3"])
@pytest.mark.parametrize("place", ["limits", "requests"])
@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage"])
def test_quotas_of_kubernetes_own_resources_are_warned_of(
    api: Api, tmp_path: Path, resource: str, place: str, asked: str, *, by_status: bool, alone: bool
) -> None:
    """Three are allowed, and one is used; the plain name counts requests."""
    new, other = waiting("p"), waiting("o")
    new["spec"]["containers"][0]["resources"] = {"limits": {resource: "3"}, "requests": {resource: "0"}}
    new["spec"]["containers"][0]["resources"][place][resource] = asked
    other["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    for name in (f"{place}.{resource}", *([resource] if place == "requests" else [])):
        hard = {name: "3"}
        counts = {"kind": "ResourceQuota", "metadata": {"name": "cnt", "namespace": "team", "uid": "cnt"}}
        counts |= {"spec": {"hard": hard}}
        if by_status:
            counts |= {"status": {"hard": hard, "used": {name: "1"}}}
        api.objects[:] = [node("a"), counts, other]
        api.refused = EVERYTHING if alone else frozenset()
        (tmp_path / "p.yaml").write_text(json.dumps(new))
        told = run("simulate", "-f", str(tmp_path / "p.yaml"), "-n", "team").stderr
        warning = f"warning: ResourceQuota team/cnt allows 3 of {name}, of which 1 are used"
        assert (warning in told) == ("which is not simulated" in told) == (asked != "1")


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("hard", "given", "told"),
    [
        ("limits.cpu", {"requests": {"cpu": "1"}}, "limits.cpu for: main"),
        ("cpu", {}, "cpu for: main"),
        ("requests.memory", {"limits": {"cpu": "1"}}, "requests.memory for: main"),
        ("requests.memory", {"limits": {"memory": "1"}}, ""),
        ("memory", {"requests": {"memory": "0"}}, ""),
        ("limits.memory", {"requests": {"memory": "1"}, "limits": {"memory": "1"}}, ""),
        ("requests.ephemeral-storage", {}, ""),
        ("requests.nvidia.com/gpu", {}, ""),
    ],
)
def test_pods_that_do_not_say_what_a_quota_limits_are_warned_of(
    api: Api, tmp_path: Path, hard: str, given: Any, told: str, *, alone: bool
) -> None:
    asked = waiting("p")
    asked["spec"]["containers"][0]["resources"] = given
    metadata = {"name": "cnt", "namespace": "team", "uid": "cnt"}
    api.objects[:] = [node("a"), {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {hard: "9"}}}]
    api.refused = EVERYTHING if alone else frozenset()
    (tmp_path / "p.yaml").write_text(json.dumps(asked))
    found = run("simulate", "-f", str(tmp_path / "p.yaml"), "-n", "team").stderr
    assert ("which is not simulated" in found) is bool(told)
    assert f"warning: Pod team/p: must specify {told}: ResourceQuota team/cnt" in found or not told
    api.objects.append(
        {  # a default counts as given
            "kind": "LimitRange",
            "metadata": {"name": "r", "namespace": "team", "uid": "r"},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "2", "memory": "2"}}]},
        }
    )
    found = run("simulate", "-f", str(tmp_path / "p.yaml"), "-n", "team").stderr
    assert "which is not simulated" not in found


@pytest.mark.parametrize("may_list", [True, False])
def test_a_priority_class_is_missed_only_by_those_who_may_list_them(
    api: Api, tmp_path: Path, *, may_list: bool
) -> None:
    asked = waiting("p")
    asked["spec"]["priorityClassName"] = "high"
    api.objects[:] = [node("a")]
    api.refused = frozenset() if may_list else EVERYTHING
    (tmp_path / "p.yaml").write_text(json.dumps(asked))
    told = run("simulate", "-f", str(tmp_path / "p.yaml"), "-n", "team").stdout
    assert ("no PriorityClass with name high was found" in told) is may_list


# All pods with some labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_explain_of_labels_says_of_each_pod_what_it_says_of_it_alone(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound = held(1000)
    pods = [bound, *(waiting(f"p{n}", "0/1 nodes are available: 1 Insufficient cpu.") for n in range(3))]
    for each in pods:
        each["metadata"]["labels"] = {"app": str(rng.choice(["x", "y"]))}
    ended = waiting("ended")
    ended["metadata"]["labels"], ended["status"]["phase"] = {"app": "x"}, "Succeeded"
    api.objects[:] = [quota(gpumem=int(rng.integers(0, 5000))), *pods, ended]
    api.refused = EVERYTHING
    chosen = [each["metadata"]["name"] for each in pods if each["metadata"]["labels"] == {"app": "x"}]
    told = run("explain", "-l", "app=x", "-n", "team")
    if not chosen:
        assert told.exit_code == 2
        assert "there is no pod in namespace team with the labels of -l that waits or runs" in told.stderr
        return
    alone = {name: run("explain", name, "-n", "team") for name in chosen}
    assert told.exit_code == max(each.exit_code for each in alone.values())
    assert all(each.stdout in f"{told.stdout}" for each in alone.values())
    listed = json.loads(run("explain", "-l", "app=x", "-n", "team", "-o", "json").stdout)
    assert listed == [json.loads(run("explain", name, "-n", "team", "-o", "json").stdout) for name in sorted(chosen)]
    names = run("explain", "-l", "app=x", "-n", "team", "-o", "name").stdout.split()
    for name in chosen:  # one pod by its name, too
        named = run("explain", name, "-n", "team", "-o", "name")
        assert (named.stdout, named.exit_code) == (f"pod/team/{name}\n", alone[name].exit_code)
    assert names == [f"pod/team/{name}" for name in sorted(chosen)]


def test_explain_of_labels_reads_the_namespace_once_for_all_pods(api: Api) -> None:
    pods = [waiting(f"p{n}", "0/1 nodes are available: 1 Insufficient cpu.") for n in range(5)]
    for each in pods:
        each["metadata"]["labels"] = {"app": "x"}
    api.objects[:] = [quota(gpumem=100), *pods]
    api.refused = EVERYTHING
    assert run("explain", "-l", "app=x", "-n", "team").exit_code == 1
    asked = [path.partition("?")[0].rpartition("/")[2] for path in api.requests if "/namespaces/team/" in path]
    assert (asked.count("events"), asked.count("resourcequotas"), asked.count("pods")) == (
        2,
        1,
        2,
    )  # two reasons of events


def test_explain_of_labels_names_the_right_to_somebody_who_may_not_see_the_namespace_either(api: Api) -> None:
    api.refused = api.refused_everywhere = EVERYTHING
    told = run("explain", "-l", "app=x", "-n", "team")
    assert (told.exit_code, told.stdout) == (2, "")
    assert (
        "you may not list nodes, list pods in all namespaces, and the pods of namespace team cannot be" in told.stderr
    )


# How many are let in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_as_many_are_let_in_as_quotas_leave_room_for(api: Api, seed: int, tmp_path: Path) -> None:
    """One after the other, as pods, as replicas and as copies: the more important ones first."""
    rng = np.random.default_rng(seed)
    used, memory, count = int(rng.integers(0, 5000)), int(rng.integers(1, 3000)), int(rng.integers(1, 8))
    limit = int(rng.integers(0, 20000))
    api.objects[:] = [quota(gpumem=limit), held(used)]
    api.refused = EVERYTHING
    fit = min(count, max(limit - used, 0) // memory)
    asked = pod("p", {GPU: 1, MEMORY: memory}, schedulerName="vgpu-scheduler")
    del asked["metadata"]["namespace"]
    labels = {"matchLabels": {"app": "x"}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": asked["spec"]}
    spec = {"replicas": count, "selector": labels, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    path = asking(tmp_path, deployment)
    told = json.loads(run("simulate", "-f", path, "-n", "team", "-o", "json").stdout)
    assert [each["exceeded"] for each in told] == [False] * fit + [True] * (count - fit)
    path = asking(tmp_path, asked)
    (copies,) = json.loads(run("simulate", "-f", path, "-n", "team", "--count", str(count), "-o", "json").stdout)
    text = run("simulate", "-f", path, "-n", "team", "--count", str(count)).stdout
    if fit:
        assert (copies["copies"], copies["exceeded"]) == (fit, False)
        assert f"nothing known keeps {fit} cop{'y' if fit == 1 else 'ies'} from being placed" in text
    else:
        assert copies["exceeded"]
        assert KEPT in text


def test_more_important_pods_are_let_in_first_and_those_that_are_kept_otherwise_count_for_nothing(
    api: Api, tmp_path: Path
) -> None:
    api.objects[:] = [quota(gpumem=5000), waiting("kept", "0/1 nodes are available: 1 Insufficient cpu.")]
    api.refused = EVERYTHING
    pods = [
        pod(
            name,
            {GPU: 1, MEMORY: 3000},
            schedulerName="vgpu-scheduler",
            priority=priority,
            metadata={"namespace": "team"},
        )
        for name, priority in (("low", 0), ("high", 5))
    ]
    path = asking(tmp_path, *pods)
    told = json.loads(run("simulate", "--pending", "-f", path, "-n", "team", "-o", "json").stdout)
    kept = [(each["pod"], each["exceeded"]) for each in told]
    assert kept == [("team/kept", False), ("team/high", False), ("team/low", True)]
    assert told[-1]["quota"].endswith("uses 3000 of 5000 MiB of limits.nvidia.com/gpumem with the pods before it")


@pytest.mark.parametrize("oldest", ["a", "b", "c"])
def test_of_equally_important_pods_the_oldest_is_let_in_first(api: Api, oldest: str) -> None:
    pods = [waiting(name) for name in ("a", "b", "c")]
    for each in pods:
        second = 1 if each["metadata"]["name"] == oldest else 2
        each["metadata"]["creationTimestamp"] = f"2026-03-04T05:06:0{second}Z"
    api.objects[:] = [quota(gpumem=100), *pods]
    api.refused = EVERYTHING
    told = json.loads(run("simulate", "--pending", "-n", "team", "-o", "json").stdout)
    assert [each["pod"] for each in told if not each["exceeded"]] == [f"team/{oldest}"]


@pytest.mark.parametrize("seed", range(20))
def test_a_share_that_names_no_memory_needs_some_of_a_quota_all_the_same(api: Api, seed: int, tmp_path: Path) -> None:
    """How much it is depends on the card: where a quota has nothing left, it is too much anyway."""
    rng = np.random.default_rng(seed)
    used, count = int(rng.integers(0, 5000)), int(rng.integers(1, 4))
    left = int(rng.integers(-2, 4))
    api.objects[:] = [quota(gpumem=max(used + left, 0)), held(used)]
    api.refused = EVERYTHING
    share = {f"{MEMORY}-percentage": int(rng.integers(1, 101))} if rng.random() < 0.5 else {}
    asked = pod("p", {GPU: count, **share}, schedulerName="vgpu-scheduler")
    asked["metadata"]["namespace"] = "team"
    path = asking(tmp_path, asked)
    (one,) = json.loads(run("simulate", "-f", path, "-n", "team", "-o", "json").stdout)
    (copies,) = json.loads(run("simulate", "-f", path, "-n", "team", "--count", "max", "-o", "json").stdout)
    room = max(used + left, 0) - used
    assert one["exceeded"] is copies["exceeded"] is (count > room)
    assert (one["unknown"], copies["unknown"], copies["copies"]) == ([MEMORY], [MEMORY], None)


@pytest.mark.parametrize("seed", range(12))
def test_the_namespaces_that_files_name_are_looked_at(api: Api, seed: int, tmp_path: Path) -> None:
    """As kubectl creates pods in the namespaces that they name, whatever that of the context is."""
    rng = np.random.default_rng(seed)
    full = {f"team-{n}": bool(rng.random() < 0.5) for n in range(3)}
    api.objects[:] = []
    for name, is_full in full.items():
        made = quota(gpumem=50 if is_full else 200)
        made["metadata"] = {**made["metadata"], "namespace": name}
        api.objects.append(made)
    api.refused = EVERYTHING
    asked = [pod("p", {GPU: 1, MEMORY: 100}, schedulerName="vgpu-scheduler") for _ in full]
    for each, name in zip(asked, full, strict=True):
        each["metadata"]["namespace"] = name
    path = asking(tmp_path, *asked)
    told = json.loads(run("simulate", "-f", path, "-o", "json").stdout)
    assert {each["pod"]: each["exceeded"] for each in told} == {f"{name}/p": kept for name, kept in full.items()}


# As an administrator is told ------------------------------------------------------------------------------------------

SHARE = f"{MEMORY}-percentage"
SIZES = (16384, 40960)


def held_beyond(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return nodes with room for all, pods of a namespace, and quotas of which these hold less, as much, or more."""
    objects: list[dict[str, Any]] = [node(f"n{size}", 6, memory=size) for size in SIZES]
    used = {"gpumem": 0, "gpucores": 0}
    for number in range(int(rng.integers(0, 3))):
        memory, cores = int(rng.integers(1, 4000)), int(rng.choice([0, 10, 30]))
        made = running(f"held{number}", f"n{SIZES[0]}", f"GPU-n{SIZES[0]}-{number}", memory, cores)
        made["metadata"]["namespace"] = "team"
        objects.append(made)
        used = {"gpumem": used["gpumem"] + memory, "gpucores": used["gpucores"] + cores}
    spread = {"gpumem": 30000, "gpucores": 60}
    hard = {
        name: max(used[name] + int(rng.integers(-spread[name] // 4, spread[name])), 0)
        for name in used
        if rng.random() < 0.7
    }
    return [*objects, quota(**hard)]


def any_amounts(rng: np.random.Generator) -> dict[str, int]:
    """Return what a container asks for: amounts, a share, or whole cards, with compute or without."""
    memory = [{MEMORY: int(rng.integers(1, 9000))}, {SHARE: int(rng.integers(1, 101))}, {}][int(rng.integers(3))]
    return {GPU: int(rng.integers(1, 3)), **memory, **({CORES: int(rng.integers(1, 40))} if rng.random() < 0.5 else {})}


def asked_of(objects: list[dict[str, Any]], number: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    pods = [pod(f"p{n}", any_amounts(rng), schedulerName="vgpu-scheduler") for n in range(number)]
    for each in pods:
        each["metadata"]["namespace"] = "team"
    return pods


@pytest.mark.parametrize("seed", range(80))
def test_a_pod_is_kept_by_the_quota_just_where_it_is_when_the_nodes_are_seen(
    api: Api, seed: int, tmp_path: Path
) -> None:
    """Also where the namespace holds more than it may, be it of what the pod asks none of."""
    rng = np.random.default_rng(seed)
    api.objects[:] = objects = held_beyond(rng)
    (asked,) = asked_of(objects, 1, rng)
    path = asking(tmp_path, asked)
    (seen,) = json.loads(run("simulate", "-f", path, "-n", "team", "-o", "json").stdout)
    api.refused = EVERYTHING
    (told,) = json.loads(run("simulate", "-f", path, "-n", "team", "-o", "json").stdout)
    if told["exceeded"]:
        assert not seen["node"]
    elif not told["unknown"]:
        assert seen["node"], told
    elif not seen["node"]:
        assert "depends on the card" in run("simulate", "-f", path, "-n", "team").stdout
    waits = waiting("asked", "0/2 nodes are available: 2 ResourceQuotaNotFit." if not seen["node"] else "")
    waits["spec"]["containers"] = asked["spec"]["containers"]
    api.objects.append(waits)
    pending = json.loads(run("simulate", "--pending", "-n", "team", "-o", "json").stdout)
    assert [each["exceeded"] for each in pending] == [told["exceeded"]]
    answer = explained(api, "asked")
    if not seen["node"]:
        assert answer["quotas"]
        assert any("raised" in remedy for remedy in answer["remedies"]), answer


@pytest.mark.parametrize("seed", range(40))
def test_figures_of_quotas_count_what_is_known_alone(api: Api, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    objects = held_beyond(rng)
    pods = asked_of(objects, 4, rng)
    api.objects[:] = objects
    api.refused = EVERYTHING
    path = asking(tmp_path, *pods)
    told = json.loads(run("simulate", "-f", path, "-n", "team", "-o", "json").stdout)
    used = {"gpumem": 0, "gpucores": 0}
    for each in objects:
        if each["kind"] == "Pod":
            limits = each["spec"]["containers"][0]["resources"]["limits"]
            used = {name: amount + int(limits[f"nvidia.com/{name}"]) for name, amount in used.items()}
    hard = {name.rpartition("/")[2] for name in objects[-1]["spec"]["hard"]}
    unknown = 0
    for asked, found in zip(pods, told, strict=True):
        limits = asked["spec"]["containers"][0]["resources"]["limits"]
        for name in hard:
            assert f"{used[name]} of " in found["quota"]
        assert (found["unknown"] == [MEMORY]) is (MEMORY not in limits and "gpumem" in hard)
        assert ("which depends on the card" in found["quota"]) is (unknown > 0)
        if not found["exceeded"]:
            count = int(limits[GPU])
            used = {name: now + count * int(limits.get(f"nvidia.com/{name}", 0)) for name, now in used.items()}
            unknown += bool(found["unknown"])
    for asked in pods:
        path = asking(tmp_path, asked)
        (copies,) = json.loads(run("simulate", "-f", path, "-n", "team", "--count", "5", "-o", "json").stdout)
        if copies["unknown"]:
            assert copies["copies"] is None
            if not copies["exceeded"]:
                assert (
                    "so does the number of copies" in run("simulate", "-f", path, "-n", "team", "--count", "5").stdout
                )
        elif not copies["exceeded"]:
            api.refused = frozenset()
            (seen,) = json.loads(run("simulate", "-f", path, "-n", "team", "--count", "5", "-o", "json").stdout)
            assert copies["copies"] == seen["count"]
            api.refused = EVERYTHING


# The quota is named --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_quota_is_named_with_the_advice_to_ask_for_what_it_leaves(api: Api, seed: int) -> None:
    """Also where what the pod asks for depends on the card, and no event tells of the quota any more."""
    rng = np.random.default_rng(seed)
    used, left, cards = int(rng.integers(0, 5000)), int(rng.integers(1000, 5000)), int(rng.integers(1, 4))
    memory = int(rng.integers(left + 1, 20000)) if rng.random() < 0.5 else None
    asked = waiting("p", "0/1 nodes are available: 1 ResourceQuotaNotFit.")
    limits = {GPU: str(cards), **({} if memory is None else {MEMORY: str(memory)})}
    asked["spec"]["containers"][0]["resources"]["limits"] = limits
    api.objects[:] = [quota(gpumem=used + left), held(used), asked]
    answer = explained(api, "p")
    assert answer["quotas"] == [f"{used} of {used + left} MiB of limits.{MEMORY}"]
    less, *raised = answer["remedies"]
    assert less.startswith(f"ask {left // cards} of {MEMORY} ")
    assert f" (limits.{MEMORY} leaves {left} MiB" in less
    assert raised


# Those that are served before it -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_a_quota_is_to_be_raised_for_those_that_are_served_before_it_too(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    used, count = int(rng.integers(0, 3000)), int(rng.integers(0, 5))
    resources = [MEMORY, CORES] if rng.random() < 0.5 else [MEMORY]
    pods = []
    for number in range(count + 1):
        kept = rng.random() < 0.8 or number == count
        message = f"0/1 nodes are available: 1 {'ResourceQuotaNotFit' if kept else 'Insufficient cpu'}."
        made = waiting(f"p{number}", message)
        asks = {GPU: 1, MEMORY: int(rng.integers(1000, 9000)), CORES: int(rng.integers(10, 60))}
        asks |= {} if kept else {"cpu": 99}
        made["spec"]["containers"][0]["resources"]["limits"] = {name: str(amount) for name, amount in asks.items()}
        made["spec"]["priority"] = int(rng.integers(0, 2))
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{int(rng.integers(10, 60))}Z"
        pods.append(made)
    last = pods[-1]["spec"]["containers"][0]["resources"]["limits"]
    hard = {name: int(rng.integers(0, int(last[name]))) + used * (name == MEMORY) for name in resources}
    limits = quota(**{name.partition("/")[2]: limit for name, limit in hard.items()})
    api.objects[:] = [limits, held(used), *pods]
    (told,) = {each for each in explained(api, f"p{count}")["remedies"] if each.startswith("have limits.")}
    raised = {name: int(amount) for name, amount in re.findall(r"limits\.(\S+) raised to (\d+) ", told)}
    api.refused = frozenset()

    def goes_to(changed: dict[str, int]) -> str:
        spec = {"hard": {f"limits.{name}": str(limit) for name, limit in changed.items()}}
        api.objects[:] = [node("a", 9, memory=40960), {**limits, "spec": spec, "status": spec}, held(used), *pods]
        answer = json.loads(run("explain", f"p{count}", "-n", "team", "-o", "json").stdout)
        return str(answer["node"])

    assert goes_to(hard | raised) == "a", told
    if len(resources) == 1:
        assert goes_to({MEMORY: raised[MEMORY] - 1}) == "", told


@pytest.mark.parametrize("leaves", [1, 100])
@pytest.mark.parametrize("before", range(4))
def test_pods_are_counted_that_take_of_what_is_raised_and_that_all_quotas_let_in(
    api: Api, before: int, leaves: int
) -> None:
    """One with cards of another vendor takes nothing of it, whether the quota on them lets it in or not."""
    pods = []
    for number in range(4):
        made = waiting(f"p{number}", "0/1 nodes are available: 1 ResourceQuotaNotFit.")
        asks = {GPU: "1", MEMORY: "1000"}
        if number < 3:
            other = {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "8"}
            asks = asks if number < before else other
        made["spec"]["containers"][0]["resources"]["limits"] = asks
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{10 + number}Z"
        pods.append(made)
    limits = quota(gpumem=500)
    limits["spec"]["hard"]["limits.metax-tech.com/vmemory"] = str(leaves)
    api.objects[:] = [limits, *pods]
    (told,) = (each for each in explained(api, "p3")["remedies"] if each.startswith("have limits."))
    assert f"raised to {1000 * (before + 1)} " in told
    assert ("served before it" in told) is (before > 0)
    assert before == 0 or f"(then {before} pod" in told


@pytest.mark.parametrize("form", ["amount", "card"])
@pytest.mark.parametrize("beside", [None, "9000"])
@pytest.mark.parametrize("written", ["1.5", "1500m", "-1", "0.5k1", "0"])
def test_a_limit_that_counts_as_0_is_told_as_the_quota_writes_it(
    api: Api, written: str, beside: str | None, form: str
) -> None:
    asked = waiting("p", "0/1 nodes are available: 1 ResourceQuotaNotFit.")
    amounts = {GPU: "1", **({MEMORY: "3000"} if form == "amount" else {})}
    asked["spec"]["containers"][0]["resources"] = {"limits": amounts}
    quotas = []
    for name, limit in (("q", written), ("r", beside)):
        made = quota(gpumem=0)
        made["metadata"] = {**made["metadata"], "name": name, "uid": name}
        made["spec"] = made["status"] = {"hard": {f"limits.{MEMORY}": limit}}
        quotas += [made] if limit else []
    api.objects[:] = [*quotas, asked]
    (raised,) = (each for each in explained(api, "p")["remedies"] if "raised" in each)
    assert (f" {written}, which counts as 0" in raised) is (written != "0")
    assert (" 9000" in raised) is (beside is not None and form == "card")
