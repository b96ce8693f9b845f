"""Commands that look at a live cluster: what they read, with whose rights, and what they say where these do not do."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.cli.live_cluster import Api, Object, run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.cli.cluster.world import exit_on_error
from vgpu_scheduler.reading import ClusterView, MissingRightsError, settings_from_file
from vgpu_scheduler.reading.lists import MissingList


def test_settings_are_those_of_the_cluster_or_assumed(api: Api) -> None:
    assert "settings: assumed" in run("top").stderr
    api.settings = "nvidia: {resource_count_name: example.com/gpu}\n"
    result = run("top", "pods")
    assert "assumed" not in result.stderr
    assert result.stdout == "no pods in namespace default hold cards\n"  # nobody asks for any by that name
    api.settings = "profil: x\n"
    assert "the settings of the cluster cannot be read: profil: there is no such setting" in run("top").stderr


def test_what_may_not_be_seen_is_told(api: Api) -> None:
    api.refused = frozenset({"ResourceQuota"})
    told = run("top").stderr
    assert "objects of kind ResourceQuota could not be read (list resourcequotas in all namespaces)" in told
    api.refused = frozenset({"Pod"})
    result = run("top")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: you may not list pods in all namespaces; top pods -n ")


def test_simulate_on_the_live_cluster(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(pod("one", {GPU: 1, MEMORY: 5000})))
    assert "2 of default/one fit." in run("simulate", "-f", str(file), "--count", "max").stdout
    more = run("simulate", "-f", str(file), "--count", "max", "--add-node", "a=2", "-o", "json")
    assert json.loads(more.stdout)[0]["nodes"] == {"a": 2, "a-2": 6, "a-3": 6}
    without = run("simulate", "-f", str(file), "--count", "max", "--without", "pod/default/first", "-o", "yaml")
    assert yaml.safe_load(without.stdout)[0]["count"] == 3
    few = run("simulate", "-f", str(file), "--count", "3")
    assert (few.exit_code, few.stdout.splitlines()[0]) == (1, "2 of default/one fit.")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--count", "many"), "'many' is neither a number"),
        (("--count", "0"), "'0' is neither a number"),
        (("--add-node", "b"), "there is neither such a node nor such a file"),
        (("--add-node", "a=x"), "'x' is not a number"),
        (("--without", "node/b"), "there is no such pod or node"),
        (("--without", "a"), "there is no such pod or node"),
    ],
)
def test_questions_that_make_no_sense(api: Api, tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(pod("one", {GPU: 1})))
    result = run("simulate", "-f", str(file), *flags)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_policy_that_is_tried(api: Api, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(pod("one", {GPU: 1, MEMORY: 5000})))
    limit = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "l"}, "spec": {"limits": {"memoryPerPod": "4Gi"}}}
    (tmp_path / "l.yaml").write_text(yaml.safe_dump(limit))
    result = run("simulate", "-f", str(tmp_path / "p.yaml"), "--policy", str(tmp_path / "l.yaml"))
    assert result.exit_code == 1
    assert "limits.memoryPerPod" in result.stdout


def test_services_and_controllers_are_read_only_where_nodes_are_ranked_by_them(api: Api) -> None:
    assert "Service" not in run("top").stderr
    assert not any(request.endswith("/services") for request in api.requests)
    api.settings = "scoring: {system_spread: true}\n"
    assert run("top").stderr == ""
    assert any(request.endswith("/services") for request in api.requests)
    api.refused = frozenset({"Service"})
    told = run("top").stderr
    assert "objects of kind Service could not be read (list services in all namespaces): the answer assumes" in told


def test_a_snapshot_has_of_controllers_only_what_they_select(api: Api) -> None:
    api.settings = "scoring: {system_spread: true}\n"
    selector = {"matchLabels": {"app": "web"}}
    template = {"spec": {"containers": [{"name": "c", "env": [{"name": "PASSWORD", "value": "hunter2"}]}]}}
    metadata = {"name": "web", "namespace": "default", "uid": "web"}
    spec = {"selector": selector, "template": template}
    api.objects.append({"kind": "StatefulSet", "metadata": metadata, "spec": spec, "status": {"replicas": 1}})
    items = json.loads(run("snapshot").stdout)["items"]
    (found,) = [item for item in items if item["kind"] == "StatefulSet"]
    assert found == {"kind": "StatefulSet", "metadata": metadata, "spec": {"selector": selector}}


def test_a_snapshot_stands_for_the_cluster(api: Api, tmp_path: Path) -> None:
    api.settings = "node_policy: spread\n"
    secret = {"name": "PASSWORD", "value": "hunter2"}
    api.objects[1]["spec"]["containers"][0] |= {"env": [secret], "command": ["run", "hunter2"]}
    api.objects[1]["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "hunter2"
    api.objects[1]["metadata"]["managedFields"] = [{"manager": "hunter2"}]
    file = tmp_path / "cluster.json"
    result = run("snapshot", "-f", str(file))
    assert result.exit_code == 0
    assert "hunter2" not in file.read_text()
    live, copied = run("explain", "large"), run("explain", "large", "--cluster", str(file))
    assert copied.stdout == live.stdout
    assert copied.stderr == ""  # its settings are those of the cluster
    assert run("top", "cards", "--cluster", str(file)).stdout == run("top", "cards").stdout
    assert json.loads(run("snapshot").stdout)["kind"] == "List"


def test_a_snapshot_has_of_managed_fields_only_who_nominated_a_pod(api: Api) -> None:
    written = {"f:status": {"f:nominatedNodeName": {}, "f:conditions": {}}}
    large = next(obj for obj in api.objects if obj["metadata"]["name"] == "large")
    large["metadata"]["managedFields"] = [{"manager": "hunter2", "fieldsV1": {"f:spec": {}}}]

    def managed() -> list[object] | None:
        items = json.loads(run("snapshot").stdout)["items"]
        (found,) = (item for item in items if item["metadata"]["name"] == "large")
        fields: list[object] | None = found["metadata"].get("managedFields")
        return fields

    assert managed() is None
    large["status"]["nominatedNodeName"] = "a"
    assert managed() == [{}], "somebody is known to have written it, and nobody knows who"
    large["metadata"]["managedFields"].append({"manager": "autoscaler", "operation": "Update", "fieldsV1": written})
    assert managed() == [{"manager": "autoscaler", "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}]


def test_locks_are_judged_at_the_time_of_a_snapshot(api: Api, tmp_path: Path) -> None:
    """A pod of another scheduler keeps its lock for five minutes, however old the snapshot is by now."""
    taken = datetime.now(UTC) - timedelta(minutes=4)
    node = next(obj for obj in api.objects if obj["kind"] == "Node")
    node["metadata"]["annotations"]["hami.io/mutex.lock"] = f"{taken:%Y-%m-%dT%H:%M:%SZ},default,holder"
    holder = json.loads(json.dumps(next(obj for obj in api.objects if obj["metadata"]["name"] == "large")))
    holder["metadata"] |= {"name": "holder", "uid": "holder"}
    holder["spec"]["schedulerName"] = "hami-scheduler"
    api.objects.append(holder)
    file = tmp_path / "cluster.json"
    assert run("snapshot", "-f", str(file)).exit_code == 0
    small = tmp_path / "small.yaml"
    asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1"}
    containers = [{"name": "c", "resources": {"limits": asked}}]
    small.write_text(yaml.safe_dump({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}))
    held = run("simulate", "-f", str(small), "--cluster", str(file))
    assert "1 node(s) had their device lock held by another pod" in held.stdout
    written = json.loads(file.read_text())
    written["metadata"]["annotations"]["vgpu-scheduler.io/read-at"] = (taken + timedelta(minutes=6)).isoformat()
    file.write_text(json.dumps(written))
    later = run("simulate", "-f", str(small), "--cluster", str(file))
    assert (later.exit_code, "lock" in later.stdout) == (0, False)


def test_a_snapshot_has_the_settings_of_the_file_that_is_given(api: Api, tmp_path: Path) -> None:
    api.settings = "nvidia: {resource_count_name: example.com/gpu}\n"
    devices, config, file = (tmp_path / name for name in ("device-config.yaml", "settings.yaml", "cluster.json"))
    devices.write_text(yaml.safe_dump({"nvidia": {"resourceCountName": "example.com/card"}}))
    content = {"hami_device_config": str(devices), "scheduler_names": ["other"], "kubeconfig": "/home/private"}
    config.write_text(yaml.safe_dump(content))
    assert run("snapshot", "-f", str(file), "--config", str(config)).exit_code == 0
    devices.unlink()
    assert "private" not in file.read_text()
    settings = json.loads(file.read_text())["items"][-1]
    assert settings["metadata"] == {"name": "vgpu-scheduler", "namespace": "vgpu-system"}
    content = yaml.safe_load(settings["data"]["settings.yaml"])
    assert content["hami_devices"] == {"nvidia": {"resourceCountName": "example.com/card"}}
    copied = run("explain", "large", "--cluster", str(file))
    assert "vgpu-scheduler places pods of other only" in copied.stdout
    assert copied.stderr == ""
    assert run("top", "pods", "--cluster", str(file)).stdout == "no pods in namespace default hold cards\n"


def test_a_server_that_does_not_answer_is_told(tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    for words in (("top",), ("explain", "p"), ("snapshot",), ("cordon", "c"), ("defrag",), ("simulate", "--pending")):
        result = run(*words, "--kubeconfig", str(tmp_path / "kubeconfig"))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Error: ")
        assert "127.0.0.1" in result.stderr or "/api" in result.stderr


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "ConfigMap", "metadata": 5},
        {"kind": "ConfigMap", "metadata": {"name": ["a"], "namespace": "vgpu-system"}},
        {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": 5},
        {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": 5}}},
        {
            "kind": "ConfigMap",
            "metadata": {"name": "vgpu-scheduler", "namespace": "vgpu-system"},
            "data": {"settings.yaml": "5: x"},
        },
    ],
)
@pytest.mark.parametrize("words", [("top",), ("defrag",), ("explain", "p")])
def test_odd_objects_give_no_traceback(tmp_path: Path, odd: Object, words: tuple[str, ...]) -> None:
    (tmp_path / "c.yaml").write_text(yaml.safe_dump_all([node("a"), pod("p", {GPU: 1}), odd]))
    assert run(*words, "--cluster", str(tmp_path / "c.yaml")).exit_code in {0, 1, 2}


def test_flags_of_the_scheduler_count_without_a_settings_file(tmp_path: Path) -> None:
    container = {"name": "s", "args": ["run", "--resource-name=example.com/gpu"], "env": [{"name": "X", "value": "y"}]}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "vgpu-scheduler", "namespace": "vgpu-system"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    config = {"kind": "ConfigMap", "metadata": {"name": "vgpu-scheduler", "namespace": "vgpu-system"}, "data": {}}
    objects = [node("a"), running("r", "a", "GPU-a-0", 4000), deployment, config]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump_all(objects))
    result = run("top", "pods", "--cluster", str(tmp_path / "c.yaml"))
    assert (result.stdout, result.stderr) == ("no pods in namespace default hold cards\n", "")


def test_nobody_waits_and_why_is_explain(api: Api) -> None:
    assert run("why", "large").stdout == run("explain", "large").stdout
    api.objects = api.objects[:2]
    result = run("simulate", "--pending")
    assert (result.exit_code, result.stdout) == (0, "no pod waits in namespace default\n")


def test_explain_warns_where_a_policy_asks_for_labels_of_a_namespace_that_is_not_there(tmp_path: Path) -> None:
    spec = {"namespaceSelector": {"matchLabels": {"tier": "x"}}, "limits": {"devicesPerPod": 0}}
    limit = {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": "ClusterVGPUPolicy", "metadata": {"name": "limit"}}
    waiting = pod("asked", {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler")
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([node("a"), waiting, {**limit, "spec": spec}]))
    told = run("explain", "default/asked", "--cluster", str(file)).stderr
    assert "warning: Namespace default does not exist: it is assumed to have no labels" in told


@pytest.mark.parametrize("error", [None, "502: no backend"])
def test_the_role_is_named_only_where_a_right_is_missing(error: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    view = ClusterView([], {"Node": MissingList("nodes", error)}, settings_from_file(None), live=True)
    with pytest.raises(SystemExit), exit_on_error():
        raise MissingRightsError(view)
    told = capsys.readouterr().err
    assert "you may not list nodes" in told
    assert ("ClusterRole vgpu-scheduler-doctor" in told) is (error is None)
