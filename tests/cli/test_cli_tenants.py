"""What commands say to somebody who has rights in one namespace."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.listed_clusters import cluster, kubeconfig
from tests.cli.live_cluster import FORBIDDEN, KINDS, Api, run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.model import did_you_mean_object
from vgpu_scheduler.whatif import World, ask, make_dialect

EVERYTHING = frozenset(KINDS.values())
CLUSTERS = 50


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_pods_of_a_namespace_are_shown_to_those_who_may_see_them_alone(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(rng)
    api.objects[:] = objects
    spaces = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"]
    for space in spaces:
        api.refused = frozenset()
        everything = json.loads(run("top", "pods", "-n", space, "-o", "json").stdout)
        api.refused = EVERYTHING
        result = run("top", "pods", "-n", space, "-o", "json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout) == everything
        (warning,) = (line for line in result.stderr.splitlines() if line.startswith("warning: you may read"))
        assert f"you may read namespace {space} only: nodes, " in warning
        assert "could not be read" not in result.stderr
        assert "kernels are compiled" not in result.stderr
        assert "there is no node" not in result.stderr
        others = [name for name in spaces if name != space]
        assert not any(f"{name}/" in result.stderr for name in others)


@pytest.mark.parametrize("vendor", ["NVIDIA", "AMD"])
def test_compute_is_told_without_nodes_only_of_cards_that_count_it_in_percent(api: Api, vendor: str) -> None:
    held = running("held", "a", "GPU-a-0", 1000, 40)
    if vendor == "AMD":
        notes = {"hami.io/vgpu-node": "a", "hami.io/amd-devices-allocated": "amd-0,AMD,1000,40:;"}
        held["metadata"]["annotations"] = notes
        held["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": "1"}
    api.objects[:] = [held]
    api.refused = EVERYTHING
    (row,) = json.loads(run("top", "pods", "-n", "default", "-o", "json").stdout)
    assert row["cores"] == (40 if vendor == "NVIDIA" else None)
    told = "cores: not known of 1 pod: only its node says how much of a card the compute is, and was not seen"
    for output in ("table", "wide", "json"):
        shown = run("top", "pods", "-n", "default", *(() if output == "table" else ("-o", output)))
        assert (told in shown.stderr.splitlines()) is (vendor == "AMD"), shown.stderr
    assert "cores:" not in run("top", "pods", "-n", "default", "-o", "name").stderr


@pytest.mark.parametrize("words", [("top", "pods", "-A"), ("top", "nodes"), ("top", "models"), ("top", "namespaces")])
def test_what_needs_more_names_the_rights(api: Api, words: tuple[str, ...]) -> None:
    api.refused = EVERYTHING
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "you may not list nodes, list pods in all namespaces; top pods -n NAMESPACE shows" in result.stderr


def test_a_namespace_that_may_not_be_seen_either_names_the_right(api: Api) -> None:
    api.refused = api.refused_everywhere = EVERYTHING
    result = run("top", "pods", "-n", "default")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "you may not" in result.stderr
    assert "list pods" in result.stderr


# simulate ------------------------------------------------------------------------------------------------------------


def asking(folder: Path, *pods: dict[str, Any]) -> str:
    """Write pods into a file, and return its path."""
    path = folder / "pods.yaml"
    path.write_text(yaml.safe_dump_all(pods))
    return str(path)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_what_quotas_and_policies_say_is_told_without_nodes(api: Api, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    held, limit, most = (int(rng.integers(*bounds)) for bounds in ((0, 5000), (0, 20000), (1, 4)))
    quota = {"hard": {"limits.nvidia.com/gpumem": str(limit)}}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "l", "namespace": "team", "uid": "l"}}
    tenant = running("held", "a", "GPU-a-0", held)
    tenant["metadata"]["namespace"] = "team"
    api.objects += [
        {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"}, "spec": quota, "status": quota},
        {**policy, "spec": {"limits": {"devicesPerPod": most}}},
        tenant,
    ]
    api.refused = EVERYTHING
    amounts = [(int(rng.integers(1, 5)), int(rng.integers(1, 9000))) for _ in range(4)]
    path = asking(tmp_path, *(pod(f"p{n}", {GPU: count, MEMORY: memory}) for n, (count, memory) in enumerate(amounts)))
    pods = yaml.safe_load_all(Path(path).read_text())
    Path(path).write_text(yaml.safe_dump_all([_without_namespace(each) for each in pods]))
    result = run("simulate", "-f", path, "-n", "team", "-o", "json")
    assert result.exit_code == 2
    assert "you may not list nodes, list pods in all namespaces: placements cannot be computed" in result.stderr
    before = 0
    for (count, memory), found in zip(amounts, json.loads(result.stdout), strict=True):
        assert found["pod"].startswith("team/")
        assert ("limits.devicesPerPod" in found["refused"]) == (count > most)
        assert found["exceeded"] == (count <= most and held + before + count * memory > limit)
        told = f"namespace team uses {held + before} of {limit} MiB of limits.nvidia.com/gpumem"
        assert found["quota"] == f"{told}{' with the pods before it' if before else ''}"
        before += 0 if found["refused"] or found["exceeded"] else count * memory
    text = run("simulate", "-f", path, "-n", "team").stdout
    assert len(text.splitlines()) == 4


def _without_namespace(obj: dict[str, Any]) -> dict[str, Any]:
    del obj["metadata"]["namespace"]
    return obj


@pytest.mark.parametrize("own", ["", "default", "team-1"])
@pytest.mark.parametrize("written", ["", "default", "team-1", "team-2"])
@pytest.mark.parametrize("named", ["", "default", "team-1", "x"])
def test_pods_of_files_are_where_kubectl_would_create_them(
    api: Api, tmp_path: Path, own: str, written: str, named: str
) -> None:
    asked = pod("new", {GPU: 1, MEMORY: 100})
    asked["metadata"] = {"name": "new", **({"namespace": written} if written else {})}
    flags = ("-n", named) if named else ()
    config = kubeconfig(tmp_path, own)
    result = run("simulate", "-f", asking(tmp_path, asked), *flags, "-o", "json", "--kubeconfig", config)
    if written and named and written != named:
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Pod new names namespace {written}, and -n {named}" in result.stderr
    else:
        (found,) = json.loads(result.stdout)
        assert found["pod"] == f"{written or named or own or 'default'}/new"


# explain -------------------------------------------------------------------------------------------------------------


def waiting(name: str, message: str = "", **spec: Any) -> dict[str, Any]:
    """Return a pod of the namespace team that waits, and says why."""
    asked = pod(name, {GPU: 1, MEMORY: 100}, schedulerName="vgpu-scheduler", **spec)
    asked["metadata"] = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    reason = "SchedulerError" if "ResourceQuotaNotFit" in message else "Unschedulable"
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    asked["status"] = {"phase": "Pending", "conditions": [condition] if message else []}
    return asked


def explained(api: Api, name: str) -> dict[str, Any]:
    """Return what somebody with rights in the namespace team is told about a pod, as both forms have it."""
    api.refused = EVERYTHING
    result = run("explain", name, "-n", "team", "-o", "json")
    assert result.exit_code in {1, 2}, result.stderr  # 2 for a pod that no scheduler has tried
    answer: dict[str, Any] = json.loads(result.stdout)
    text = run("explain", name, "-n", "team").stdout
    assert all(remedy in text for remedy in answer["remedies"])
    return answer


def test_whether_an_untried_pod_fits_is_not_determined(api: Api) -> None:
    api.refused = EVERYTHING
    gated = waiting("gated", "Scheduling is blocked due to non-empty scheduling gates", schedulingGates=[{"name": "g"}])
    elsewhere = waiting("elsewhere")
    elsewhere["spec"]["schedulerName"] = "other"
    api.objects += [waiting("untried"), gated, elsewhere, waiting("tried", "0/1 nodes are available.")]
    statuses = {
        name: run("explain", name, "-n", "team").exit_code for name in ("untried", "gated", "elsewhere", "tried")
    }
    assert statuses == {"untried": 2, "gated": 2, "elsewhere": 1, "tried": 1}


def random_policy(rng: np.random.Generator, name: str) -> tuple[dict[str, Any], str, str]:
    """Return a policy that keeps the pod from the cards or nodes that there are, its field and what that says."""
    metadata = {"name": name, "namespace": "team", "uid": name}
    label = f"p{int(rng.integers(0, 99))}"
    specs: list[tuple[dict[str, Any], str, str]] = [
        ({"devices": {"types": {"deny": ["A100", label]}}}, "spec.devices.types.deny", f"A100, {label}"),
        ({"devices": {"types": {"allow": [label]}}}, "spec.devices.types.allow", label),
        ({"devices": {"modes": ["mig"]}}, "spec.devices.modes", "mig"),
        ({"nodeSelector": {"matchLabels": {"pool": label}}}, "spec.nodeSelector", f"pool={label}"),
    ]
    spec, field, says = specs[int(rng.integers(0, len(specs)))]
    return {"kind": "VGPUPolicy", "metadata": metadata, "spec": spec}, field, says


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_the_policy_of_the_namespace_that_keeps_a_pod_away_is_named(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    policy, field, says = random_policy(rng, f"own-{seed}")
    unseen = rng.random() < 0.3  # then it is one of the cluster
    asked = waiting("p")
    world = World(EngineOptions([make_dialect("hami")]))
    world.add([node("a"), policy, asked])
    decision = ask(world, next(iter(world.pending.values()))).decision
    api.objects += [waiting("p", decision.message), *([] if unseen else [policy])]
    remedies = explained(api, "p")["remedies"]
    if unseen:
        assert any("have a policy of the cluster, which you may not read, changed" in remedy for remedy in remedies)
    else:
        assert any(all(part in remedy for part in (field, f"VGPUPolicy team/own-{seed}", says)) for remedy in remedies)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_a_limit_of_memory_is_to_be_raised_only_where_the_pod_leaves_memory_to_the_card(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares: list[tuple[dict[str, Any], bool]] = [
        ({MEMORY: int(rng.integers(1, 9000))}, False),
        ({f"{MEMORY}-percentage": int(rng.integers(1, 101))}, True),
        ({}, True),
    ]
    drawn = [shares[int(rng.integers(0, len(shares)))] for _ in range(int(rng.integers(1, 3)))]
    asked = waiting("p", "0/1 nodes are available: 1 CardDeniedByPolicy.")
    asked["spec"]["containers"] = [
        {"name": f"c{n}", "resources": {"limits": {key: str(value) for key, value in {GPU: 1, **share}.items()}}}
        for n, (share, _) in enumerate(drawn)
    ]
    metadata = {"name": "mine", "namespace": "team", "uid": "mine"}
    spec = {"devices": {"types": {"deny": ["T4"]}}, "limits": {"memoryPerPod": "24Gi"}}
    api.objects += [asked, {"kind": "VGPUPolicy", "metadata": metadata, "spec": spec}]
    remedies = explained(api, "p")["remedies"]
    assert any("spec.devices.types.deny" in remedy for remedy in remedies)
    assert any("limits.memoryPerPod" in remedy for remedy in remedies) == any(left for _, left in drawn)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_quotas_are_told_beside_whatever_else_keeps_a_pod(api: Api, seed: int) -> None:
    """By the figures that simulate tells, and no advice is given that leaves the quota out."""
    rng = np.random.default_rng(seed)
    held, limit, memory = (int(rng.integers(*bounds)) for bounds in ((0, 5000), (0, 9000), (1, 9000)))
    why = str(rng.choice(["CardUuidMismatch", "CardDeniedByPolicy", "Insufficient cpu", "CardInsufficientMemory"]))
    asked = waiting("p", f"0/1 nodes are available: 1 {why}.")
    asked["metadata"]["annotations"] = {"nvidia.com/use-gpuuuid": "GPU-nowhere"}
    asked["spec"]["containers"][0]["resources"]["limits"] |= {MEMORY: str(memory), "cpu": "8"}
    if rng.random() < 0.3:
        asked["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
    tenant = running("held", "a", "GPU-a-0", held)
    tenant["metadata"]["namespace"] = "team"
    quota = {"hard": {f"limits.{MEMORY}": str(limit)}}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "d", "namespace": "team", "uid": "d"}}
    read = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"}, "spec": quota, "status": quota}
    api.objects += [asked, tenant, read, {**policy, "spec": {"devices": {"types": {"deny": ["T4"]}}}}]
    answer = explained(api, "p")
    pending = json.loads(run("simulate", "--pending", "-n", "team", "-o", "json").stdout)
    (known,) = (each for each in pending if each["pod"] == "team/p")
    assert known["exceeded"] == (held + memory > limit)
    assert [f"namespace team uses {each}" for each in answer["quotas"]] == [known["quota"]] * known["exceeded"]
    text = run("explain", "p", "-n", "team").stdout
    assert (f"Its quota keeps it waiting: {known['quota']}." in text) == known["exceeded"]
    raised = f"have limits.{MEMORY} raised to {held + memory} (it is {limit}), or end pods of the namespace"
    left = f"ask {limit - held} of {MEMORY} "
    if known["exceeded"]:
        assert answer["remedies"] or why == "CardInsufficientMemory"
        assert all(raised in remedy or left in remedy for remedy in answer["remedies"])
        assert any(raised in remedy for remedy in answer["remedies"])
        alone = [remedy for remedy in answer["remedies"] if remedy == raised or remedy.startswith(left)]
        assert not alone or why == "CardInsufficientMemory"
    else:
        assert not any("quota" in remedy or f"limits.{MEMORY}" in remedy for remedy in answer["remedies"])


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_a_scheduler_that_is_nobodys_is_asked_about(api: Api, seed: int, tmp_path: Path) -> None:
    """By explain, and by simulate for pods that wait as for those of files."""
    rng = np.random.default_rng(seed)
    ours, where = "vgpu-scheduler", int(rng.integers(0, 13))
    alike = rng.random() < 0.7
    named = f"{ours[:where]}{ours[where + 1 :]}" if alike else f"{rng.choice(['volcano', 'koord-scheduler'])}-{seed}"
    asked = waiting("p")
    asked["spec"]["schedulerName"] = named
    api.objects += [asked]
    meant = "is vgpu-scheduler meant?" if alike else f"names the scheduler {named}"
    answer = explained(api, "p")
    assert answer["scheduler"] == {"named": named, "ours": False}
    anew = f"create it anew with spec.schedulerName: vgpu-scheduler instead of {named}"
    assert answer["remedies"][0].startswith(anew)
    assert ("unless a scheduler of that name runs in the cluster" in answer["remedies"][0]) == (not alike)
    assert meant in run("explain", "p", "-n", "team").stdout
    pending = run("simulate", "--pending", "-n", "team")
    assert meant in pending.stdout
    assert "nothing known" not in pending.stdout
    result = run("simulate", "-f", asking(tmp_path, asked), "-n", "team")
    assert ("is vgpu-scheduler meant?" in result.stderr) == alike


def test_that_nothing_can_be_forecast_without_nodes_is_said(api: Api) -> None:
    api.objects += [waiting("p")]
    api.refused = EVERYTHING
    why = "a forecast needs the nodes and the pods of all namespaces, which you may not list"
    told = run("explain", "team/p", "--forecast")
    assert f"How long it will wait cannot be estimated: {why}." in told.stdout
    plain = json.loads(run("explain", "team/p", "--forecast", "-o", "json").stdout)
    assert plain["forecast"] == {"unknown": why}
    assert "forecast" not in json.loads(run("explain", "team/p", "-o", "json").stdout)
    simulated = run("simulate", "--pending", "-n", "team", "--forecast")
    assert f"--forecast: How long it will wait cannot be estimated: {why}." in simulated.stderr


@pytest.mark.parametrize("coexists", [False, True])
@pytest.mark.parametrize("limits", [{}, {"cpu": "2"}, {"nvidia.com/mig-1g.10gb": "1"}])
def test_a_pod_of_the_default_scheduler_without_our_resources_is_left_to_it(
    api: Api, limits: dict[str, str], *, coexists: bool
) -> None:
    asked = waiting("p", "0/3 nodes are available: 3 Insufficient cpu.")
    asked["spec"]["schedulerName"] = "default-scheduler"
    asked["spec"]["containers"][0]["resources"] = {"limits": {**limits, **({GPU: "1"} if coexists else {})}}
    api.settings = "coexist_with: [default-scheduler]\n" if coexists else None
    api.objects += [asked]
    assert not any("schedulerName" in remedy for remedy in explained(api, "p")["remedies"])


ANEW = "create it anew with spec.schedulerName: vgpu-scheduler instead of "


@pytest.mark.parametrize("tried", [False, True])
@pytest.mark.parametrize("named", ["default-scheduler", "gang-scheduler", "vgpu-schedulr"])
@pytest.mark.parametrize(
    "limits", [{GPU: "1", MEMORY: "500"}, {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"}]
)
@pytest.mark.parametrize("settings", [None, "dialects: [hami]\n"])
def test_resources_that_no_kubelet_offers_are_asked_of_this_scheduler_first(
    api: Api, limits: dict[str, str], named: str, settings: str | None, *, tried: bool
) -> None:
    """What another scheduler says of them does not help."""
    lacking = ", ".join(f"5 Insufficient {name}" for name in limits)
    message = f"0/9 nodes are available: {lacking}, 4 node(s) had untolerated taint(s)."
    asked = waiting("p", message if tried else "")
    asked["spec"]["schedulerName"] = named
    asked["spec"]["containers"][0]["resources"] = {"limits": limits}
    api.objects += [asked]
    api.settings = settings
    answer = explained(api, "p")
    (only,) = answer["remedies"]
    assert only.startswith(ANEW + named)
    assert not answer["scheduler"]["ours"]


@pytest.mark.parametrize("tried", [False, True])
@pytest.mark.parametrize("limits", [{GPU: "1"}, {"hygon.com/dcunum": "2"}])
def test_whole_cards_may_be_meant_for_the_default_scheduler(api: Api, limits: dict[str, str], *, tried: bool) -> None:
    message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector." if tried else ""
    asked = waiting("p", message, nodeSelector={"pool": "x"})
    asked["spec"]["schedulerName"] = "default-scheduler"
    asked["spec"]["containers"][0]["resources"] = {"limits": limits}
    api.objects += [asked]
    first, *others = explained(api, "p")["remedies"]
    assert first == f"if shares of cards are meant, {ANEW}default-scheduler"
    assert any("nodeSelector" in each for each in others) is tried


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_what_is_known_of_claims_and_gates_is_told_without_nodes(api: Api, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    words, spec = [], {}
    name = f"data-{seed}"
    state = str(rng.choice(["missing", "no class", "unbound", "later", "bound"]))
    spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    if state != "missing":
        claim = {"storageClassName": f"class-{seed}", **({"volumeName": "pv"} if state == "bound" else {})}
        completed = {"pv.kubernetes.io/bind-completed": "yes"} if state == "bound" else {}
        metadata = {"name": name, "namespace": "team", "uid": name, "annotations": completed}
        api.objects += [{"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}]
    if state in {"unbound", "later"}:
        mode = "WaitForFirstConsumer" if state == "later" else "Immediate"
        api.objects += [
            {
                "kind": "StorageClass",
                "metadata": {"name": f"class-{seed}"},
                "provisioner": "x",
                "volumeBindingMode": mode,
            }
        ]
    if state == "no class":
        words += [f"class-{seed}", "there is no class of that name"]
    if state in {"missing", "unbound"}:
        words += [f"PersistentVolumeClaim {name}"]
    if rng.random() < 0.5:
        spec["schedulingGates"] = [{"name": f"example.com/g{seed}"}]
        words += [f"example.com/g{seed}", "the controller or user that set it removes it"]
    message = str(rng.choice(["", f"0/{seed + 1} nodes are available: {seed + 1} Insufficient cpu."]))
    asked = waiting("p", message, **spec)
    api.objects += [asked]
    api.refused = EVERYTHING - {"StorageClass"}
    new = run("simulate", "-f", asking(tmp_path, asked), "-n", "team").stdout
    pending = run("simulate", "--pending", "-n", "team").stdout
    assert all(word in new and word in pending for word in words)
    assert message in pending
    assert ("nothing known" in new) == (not words)
    assert ("nothing known" in pending) == (not words and not message)
    (found,) = json.loads(run("simulate", "--pending", "-n", "team", "-o", "json").stdout)
    assert bool(found["reasons"]) == bool(words or message)


def test_a_file_without_pods_is_told_whatever_the_rights(api: Api, tmp_path: Path) -> None:
    path = asking(tmp_path, {"kind": "Service", "metadata": {"name": "s"}})
    for api.refused in (frozenset(), EVERYTHING):
        api.objects[:] = [node("a")]
        result = run("simulate", "-f", path, "-n", "team")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{path}: it contains no pod to place" in result.stderr


@pytest.mark.parametrize("kind", ["deployment", "deploy", "deployment.apps", "job", "sts", "ReplicaSet", "svc", "no"])
@pytest.mark.parametrize("name", ["d", "web-0", "a.b"])
def test_what_is_no_pod_is_not_taken_for_a_namespace(api: Api, kind: str, name: str) -> None:
    result = run("explain", f"{kind}/{name}")
    assert result.exit_code == 2
    assert f"explain is about pods, and {kind}/{name} is not a pod" in " ".join(result.stderr.split())
    events = "/api/v1/namespaces/default/events?fieldSelector=reason=FailedCreate"
    assert api.requests == [f"GET {events}"], "nothing is asked but why a controller may have no pods"


# doctor --------------------------------------------------------------------------------------------------------------


class _Server(Api):
    """An API server that says nothing about rights."""

    credentials = SimpleNamespace(server="https://example")

    async def request(self, method: str, path: str, *more: Any, **options: Any) -> ApiResponse:
        return FORBIDDEN if "accessreviews" in path else await super().request(method, path, *more, **options)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_doctor_looks_at_policies_and_quotas_of_a_namespace(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    api = _Server([])

    async def connect(*_: object) -> Api:
        return api

    monkeypatch.setattr("vgpu_scheduler.cli.doctor.command.connect", connect)
    rng = np.random.default_rng(seed)
    wrong: dict[str, set[str]] = {"team": set(), "other": set()}
    for number in range(int(rng.integers(1, 6))):
        space, name = str(rng.choice(list(wrong))), f"o{number}"
        metadata = {"name": name, "namespace": space, "uid": f"{space}-{name}"}
        bad = rng.random() < 0.6
        if rng.random() < 0.5:
            hard = {"hard": {"limits.nvidia.com/gpumem": "1.5" if bad else "1000"}}
            obj = {"kind": "ResourceQuota", "metadata": metadata, "spec": hard, "status": hard}
        else:
            spec = {"limits": {"devicesPerPod": "many" if bad else 2}}
            obj = {"kind": "VGPUPolicy", "metadata": metadata, "spec": spec}
        api.objects.append(obj)
        if bad:
            wrong[space].add(name)
    api.refused = EVERYTHING
    result = run("doctor", "-n", "team", "-o", "json")
    found = {each["object"]["name"] for each in json.loads(result.stdout)["findings"]}
    assert found >= wrong["team"]
    assert found.isdisjoint(wrong["other"] - wrong["team"])


def test_whoever_sees_no_nodes_is_told_where_usage_is_shown(api: Api) -> None:
    api.refused = EVERYTHING
    told = run("usage", "-n", "team")
    assert told.exit_code == 2
    assert "you may not list nodes" in told.stderr
    assert "A page (--ui ADDRESS) shows the usage of the namespaces whose pods you may list" in told.stderr


@pytest.mark.parametrize("refused", ["", "Pod", "ResourceQuota", "VGPUPolicy"])
def test_doctor_says_that_a_namespace_is_empty_only_where_it_could_look(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = _Server([node("a")], refused_everywhere=frozenset({refused}))

    async def connect(*_: object) -> Api:
        return api

    monkeypatch.setattr("vgpu_scheduler.cli.doctor.command.connect", connect)
    told = run("doctor", "-n", "zzzzzz").stderr
    assert ("there is no pod, quota or policy in namespace zzzzzz" in told) == (not refused)


# Rights and names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", [EVERYTHING, frozenset({"Node"}), frozenset({"Pod"})])
@pytest.mark.parametrize("words", [("defrag",), ("defrag", "--cards", "2"), ("snapshot",)])
def test_what_needs_the_whole_cluster_names_the_role_that_has_the_rights(
    api: Api, words: tuple[str, ...], refused: frozenset[str]
) -> None:
    api.refused = refused
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (said,) = (line for line in result.stderr.splitlines() if "you may not " in line)
    assert said.endswith(". The ClusterRole vgpu-scheduler-doctor (manifests/doctor) has the right")


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("known", [(), ("data-1",), ("data-1", "date-2"), ("dato", "dat-3"), ("else",)])
@pytest.mark.parametrize("named", [("data-2",), ("data-2", "data-3"), ("data", "data-2")])
def test_a_missing_claim_is_told_once_be_there_a_similar_name_or_not(
    api: Api, named: tuple[str, ...], known: tuple[str, ...], *, seen: bool
) -> None:
    message = ", ".join(f'1 persistentvolumeclaim "{name}" not found' for name in named)
    asked = waiting("p", f"0/1 nodes are available: {message}.")
    asked["spec"]["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in named]
    claims = [
        {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "team", "uid": name}, "spec": {}}
        for name in known
    ]
    api.objects[:] = [asked, *claims]
    api.refused_everywhere = frozenset() if seen else frozenset({"PersistentVolumeClaim"})
    told = [each for each in explained(api, "p")["remedies"] if "PersistentVolumeClaim" in each]
    for name in named:
        (one,) = (each for each in told if each.startswith(f"create the PersistentVolumeClaim {name},"))
        similar = did_you_mean_object(name, known) if seen else ""
        assert one == f"create the PersistentVolumeClaim {name}, or correct the name{similar}"
