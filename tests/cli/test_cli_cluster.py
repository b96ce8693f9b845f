"""Commands that look at a live cluster: what they read, with whose rights, and what they say where these do not do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from kubernetes_asyncio.config import kube_config
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.apiclient import ApiResponse, client
from vgpu_scheduler.cli import main
from vgpu_scheduler.cli.cluster.view import LIST_PATHS
from vgpu_scheduler.whatif.cards import Card, KoordinatorCards

Object = dict[str, Any]
KINDS = {path: kind for kind, path in LIST_PATHS.items()}
FORBIDDEN = ApiResponse(403, b'{"message": "nodes is forbidden"}')
SETTINGS = "/api/v1/namespaces/vgpu-system/configmaps/vgpu-scheduler"


@dataclass
class Api:
    """Stands for the client: answers from objects in memory, and takes patches of nodes."""

    objects: list[Object]
    refused: frozenset[str] = frozenset()
    settings: str | None = None
    conflicts: int = 0
    patches: list[tuple[str, Object]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "",
        params: Mapping[str, str] | None = None,
    ) -> ApiResponse:
        del content_type, params
        self.requests.append(f"{method} {path}")
        if method == "PATCH":
            if self.conflicts:
                self.conflicts -= 1
                return ApiResponse(409, b'{"message": "the object has been modified"}')
            self.patches.append((path, body))
            return self._patched(path.rpartition("/")[2], body["metadata"])
        if path == SETTINGS and self.settings is not None:
            metadata = {"name": "vgpu-scheduler", "namespace": "vgpu-system"}
            return self._answer({"metadata": metadata, "data": {"settings.yaml": self.settings}})
        kind = KINDS.get(path)
        if kind in self.refused:
            return FORBIDDEN
        if kind is not None:
            items = [{k: v for k, v in obj.items() if k != "kind"} for obj in self.objects if obj["kind"] == kind]
            return self._answer({"items": items, "metadata": {}})
        with suppress(StopIteration):
            ends = (f"/{name}/{{}}" for name in ("pods", "nodes"))
            return self._answer(
                next(o for end in ends for o in self.objects if path.endswith(end.format(o["metadata"]["name"])))
            )
        return ApiResponse(404, b'{"message": "not found"}')

    def _patched(self, name: str, change: Object) -> ApiResponse:
        found = next(obj for obj in self.objects if (obj["kind"], obj["metadata"]["name"]) == ("Node", name))
        assert change["resourceVersion"] == found["metadata"].get("resourceVersion")
        annotations = {**(found["metadata"].get("annotations") or {}), **change["annotations"]}
        found["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        found["metadata"]["resourceVersion"] = str(int(found["metadata"].get("resourceVersion", 0)) + 1)
        return self._answer(found)

    @staticmethod
    def _answer(content: Object) -> ApiResponse:
        return ApiResponse(200, json.dumps(content).encode())

    async def close(self) -> None:
        """Be a client."""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """A cluster with a node, two pods on it and two that wait."""
    tight = node("a", cards=2, cordoned=(1,))
    tight["metadata"]["resourceVersion"] = "7"
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: told before"}
    waiting = {**pod("large", {GPU: 1, MEMORY: 12000}), "status": {"phase": "Pending", "conditions": [told]}}
    waiting["spec"]["schedulerName"] = "vgpu-scheduler"
    bound = running("first", "a", "GPU-a-0", 6000)
    bound["metadata"]["annotations"]["vgpu-scheduler.io/decision"] = json.dumps(
        {"nodes": 3, "score": 1.5, "policy": {"nodes": "settings"}}
    )
    found = Api([tight, bound, waiting, pod("plain", {}, schedulerName="default-scheduler")])

    async def connect(*_: object) -> Api:
        return found

    monkeypatch.setattr("vgpu_scheduler.cli.cluster.view.connect", connect)
    return found


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def test_top_shows_nodes_cards_pods_and_namespaces(api: Api) -> None:
    assert run("top").stdout.splitlines() == [
        "NODE  CARDS  IDLE  MEMORY      MEM%  CORES  CORES%  PODS  FRAG",
        "a     2      0     6000/32768  18%   0/200  0%      1     100%",
    ]
    assert run("top", "cards").stdout.splitlines()[1:] == [
        "a     GPU-a-0  NVIDIA-A100  6000/16384  36%   0/100  1/10    1        ready",
        "a     GPU-a-1  NVIDIA-A100  0/16384     0%    0/100  0/10    0        cordoned",
    ]
    wide = run("top", "pods", "-o", "wide").stdout.splitlines()
    assert wide[1].split() == ["default", "first", "a", "GPU-a-0", "6000", "0"]
    assert run("top", "pods", "-n", "other").stdout == "no pods hold cards\n"
    (found,) = json.loads(run("top", "namespaces", "-o", "json").stdout)
    assert found == {"namespace": "default", "pods": 1, "waiting": 1, "cards": 1, "memory": 6000, "cores": 0}
    (card, _) = yaml.safe_load(run("top", "cards", "-o", "yaml").stdout)
    assert card["memory"] == {"used": 6000, "total": 16384, "free": 10384}
    assert card["tenants"] == ["default/first"]


def watch_times(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have somebody press Ctrl-C after so many tables."""
    naps = iter(range(times - 1))

    def sleep(_: float) -> None:
        if next(naps, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("vgpu_scheduler.cli.top.time.sleep", sleep)


def test_watching_ends_quietly_and_warns_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    watch_times(monkeypatch, 3)
    result = run("top", "-w")
    assert result.exit_code == 130
    assert result.stdout.count("NODE  CARDS") == 3
    assert result.stderr == "settings: assumed (the defaults; --config gives others)\n"


def test_on_a_terminal_each_table_is_followed_by_its_warnings(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    watch_times(monkeypatch, 2)
    monkeypatch.setattr("vgpu_scheduler.cli.top.on_terminal", lambda: True)
    monkeypatch.setattr("vgpu_scheduler.cli.top.click.clear", lambda: click.echo("CLEARED"))
    lines = run("top", "-w").output.splitlines()
    assert [line.split()[0] for line in lines] == ["CLEARED", "NODE", "a", "settings:"] * 2


def test_a_cluster_on_stdin_cannot_be_watched() -> None:
    result = run("top", "-w", "--cluster", "-")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "-w reads the cluster again and again, and stdin can be read only once" in result.stderr


def test_settings_are_those_of_the_cluster_or_assumed(api: Api) -> None:
    assert "settings: assumed" in run("top").stderr
    api.settings = "nvidia: {resource_count_name: example.com/gpu}\n"
    result = run("top", "pods")
    assert "assumed" not in result.stderr
    assert result.stdout == "no pods hold cards\n"  # nobody asks for any by that name
    api.settings = "profil: x\n"
    assert "the settings of the cluster cannot be read: profil: there is no such setting" in run("top").stderr


def test_explain_says_why_a_pod_waits_and_what_would_help(api: Api) -> None:
    result = run("explain", "pod", "default/large")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "default/large waits (unschedulable)"
    assert "  a     GPU-a-0  NVIDIA-A100  main       CardInsufficientMemory: 10384 of 12000 MiB memory free" in lines
    assert "  a     GPU-a-1  NVIDIA-A100  main       CardCordoned" in lines
    helps = [line for line in lines if line.startswith("  - ")]
    assert helps == [
        "  - ask 10384 of nvidia.com/gpumem instead of 12000 in container main, 1616 less (goes to a)",
        "  - uncordon card GPU-a-1 of node a (goes to a)",
        "  - end pod default/first on node a (goes to a)",
        "  - add a node like a (goes to a-2)",
    ]
    assert lines[-1] == "Its condition says: 0/1 nodes: told before"
    found = json.loads(run("explain", "large", "-o", "json").stdout)
    assert found["remedies"][0]["kind"] == "ask for less"
    assert found["cards"]["a"][0]["lacks"] == {"dimension": "memory", "unit": "MiB", "asked": 12000, "free": 10384}


def test_explain_shows_all_cards_where_it_may_be_wide(api: Api) -> None:
    api.objects += [node(f"n{number}", cards=1, memory=2048) for number in range(9)]
    short, wide = run("explain", "large").stdout, run("explain", "large", "-o", "wide").stdout
    assert "and the cards of 2 more nodes: --node NAME shows those of one, -o wide all" in short
    assert "more nodes" not in wide
    assert [f"GPU-n{number}-0" in wide for number in range(9)] == [True] * 9
    assert wide.splitlines()[-1] == "Its condition says: 0/1 nodes: told before"


def test_explain_says_that_combinations_were_not_searched(api: Api) -> None:
    api.objects = [node("a", cards=1), pod("odd", {GPU: 1, MEMORY: 99999, "example.com/x": 1})]
    result = run("explain", "odd")
    assert result.exit_code == 1
    assert "No single change was found that would help; combinations of changes were not searched." in result.stdout


def test_explain_says_in_mib_what_cards_of_koordinator_lack(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [Card(f"GPU-{n}", n, "A100", 16384, 0, 100, 0, "", healthy=True) for n in range(2)]
    made = KoordinatorCards().register("k", cards)
    monkeypatch.setitem(KINDS, "/apis/scheduling.koordinator.sh/v1alpha1/devices", "Device")
    written = node("k", cards=0)
    written["status"]["allocatable"] |= made.allocatable
    limits = {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-memory": "17Gi", "koordinator.sh/gpu-core": 10}
    api.objects = [written, *made.objects, pod("large", limits)]
    api.settings = "dialects: [koordinator]\n"
    text = run("explain", "large").stdout
    assert text.count("16384 of 17408 MiB memory free") == 3  # the nearest miss, and both cards
    assert str(2**34) not in text


def test_explain_a_pod_of_another_scheduler(api: Api) -> None:
    result = run("explain", "plain")
    assert result.exit_code == 0
    assert (
        "It names the scheduler default-scheduler: vgpu-scheduler places pods of vgpu-scheduler only." in result.stdout
    )


def test_explain_a_bound_pod(api: Api) -> None:
    result = run("explain", "first")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:5] == [
        "default/first is bound to a.",
        "  decided among 3 nodes, score 1.5",
        "  nodes by settings",
        "",
        "If it were created now, without itself, it would go to the same node:",
    ]


def test_explain_says_why_a_bound_pod_is_not_on_another_node(api: Api) -> None:
    api.objects += [node("b", cards=1), running("second", "b", "GPU-b-0", 6000)]
    api.objects += [node("c", cards=1), running("third", "c", "GPU-c-0", 14000), node("d", cards=0)]
    elsewhere = run("explain", "first").stdout.splitlines()
    assert "If it were created now, without itself, it would go to b:" in elsewhere
    assert "Both fit, and b is better: hami gives 4.66 to b and 0 to a." in elsewhere
    cards = ["a     GPU-a-0", "a     GPU-a-1", "b     GPU-b-0"]
    assert [line.strip()[: len(cards[0])] for line in elsewhere if "NVIDIA-A100" in line] == cards
    too_small = run("explain", "first", "--node", "c").stdout.splitlines()
    assert "c does not fit: 1/1 CardInsufficientMemory." in too_small
    assert any(line.endswith("CardInsufficientMemory: 2384 of 6000 MiB memory free") for line in too_small)
    found = json.loads(run("explain", "first", "--node", "d", "-o", "json").stdout)
    assert found["today"]["comparison"] == "d does not fit: Insufficient nvidia.com/gpu."
    assert [*found["today"]["cards"]] == ["a", "d"]
    assert run("explain", "first", "--node", "e").stderr.endswith("Error: there is no node e\n")
    api.objects += [node("f", cards=1), node("g", cards=1), running("fourth", "g", "GPU-g-0", 1000)]
    alike = run("explain", "fourth", "--node", "f").stdout
    assert "g and f fit alike; of equals the first by name is taken." in alike


@pytest.mark.parametrize("words", [("pod/large",), ("pod", "large"), ("po/large",), ("default/large",)])
def test_explain_takes_a_pod_as_kubectl_does(api: Api, words: tuple[str, ...]) -> None:
    assert run("explain", *words).stdout == run("explain", "large").stdout


def test_explain_takes_the_namespace_of_the_context(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = [
        {"name": "team", "context": {"cluster": "c", "user": "u", "namespace": "research"}},
        {"name": "none", "context": {"cluster": "c", "user": "u"}},
    ]
    clusters, users = [{"name": "c", "cluster": {"server": "http://c"}}], [{"name": "u", "user": {}}]
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump({"current-context": "team", "contexts": contexts, "clusters": clusters, "users": users})
    )
    elsewhere = run("explain", "large", "--kubeconfig", str(file))
    assert elsewhere.stderr.endswith("Error: there is no pod research/large that waits or runs\n")
    assert run("explain", "large", "--kubeconfig", str(file), "--context", "none").exit_code == 1
    assert run("explain", "large", "--kubeconfig", str(file), "-n", "default").exit_code == 1
    monkeypatch.setattr(client, "KUBE_CONFIG_DEFAULT_LOCATION", f"{tmp_path / 'missing'}:{file}")
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", f"{tmp_path / 'missing'}:{file}")
    assert run("explain", "large").stderr == elsewhere.stderr


def test_explain_without_rights_says_what_the_pod_says(api: Api) -> None:
    api.refused = frozenset({"Node", "Pod"})
    result = run("explain", "large")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "default/large waits.",
        "  Unschedulable: 0/1 nodes: told before",
        "",
        "More cannot be said: you may not list nodes, list pods.",
    ]
    assert "decided among 3 nodes" in run("explain", "first").stdout
    gone = run("explain", "gone")
    assert (gone.exit_code, gone.stdout) == (2, "")
    assert gone.stderr.endswith("the pod itself cannot be seen: not found\n")


def test_what_may_not_be_seen_is_told(api: Api) -> None:
    api.refused = frozenset({"ResourceQuota"})
    told = run("top").stderr
    assert "objects of kind ResourceQuota could not be seen (list resourcequotas)" in told
    api.refused = frozenset({"Pod"})
    result = run("top")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "Error: you may not list pods")


@pytest.mark.parametrize("words", [("pod",), ("a", "b"), ("pod", "a", "b")])
def test_explain_is_about_one_pod(api: Api, words: tuple[str, ...]) -> None:
    result = run("explain", *words)
    assert result.exit_code == 2


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
        (("--add-node", "a=x"), "'x' is no number"),
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
    assert run("top", "pods", "--cluster", str(file)).stdout == "no pods hold cards\n"


def test_cards_are_cordoned_by_the_annotation_of_their_dialect(api: Api) -> None:
    assert run("cordon", "card", "GPU-a-0").stdout == "card a/GPU-a-0 cordoned\n"
    (path, body) = api.patches.pop()
    assert path == "/api/v1/nodes/a"
    annotations = {"hami.io/device-cordon": "GPU-a-1,GPU-a-0"}
    assert body == {"metadata": {"resourceVersion": "7", "annotations": annotations}}
    api.conflicts = 2
    assert run("uncordon", "GPU-a-1").stdout == "card a/GPU-a-1 uncordoned\n"
    assert api.patches.pop()[1]["metadata"]["annotations"] == {"hami.io/device-cordon": "GPU-a-0"}
    assert run("uncordon", "GPU-a-0").stdout == "card a/GPU-a-0 uncordoned\n"
    assert api.patches.pop()[1]["metadata"]["annotations"] == {"hami.io/device-cordon": None}
    assert run("uncordon", "GPU-a-1").stdout == "card a/GPU-a-1 is uncordoned already\n"
    assert not api.patches


NODES = "GET /api/v1/nodes"


def test_nodes_are_listed_once_for_all_cards_and_written_once_each(api: Api) -> None:
    api.objects.append(node("b", cards=2))
    result = run("cordon", "cards", "GPU-b-0", "a/GPU-a-0", "GPU-b-1", "GPU-a-1", "GPU-b-0")
    assert result.stdout.splitlines() == [
        "card b/GPU-b-0 cordoned",
        "card b/GPU-b-1 cordoned",
        "card a/GPU-a-0 cordoned",
        "card a/GPU-a-1 is cordoned already",
    ]
    assert [request for request in api.requests if "/nodes" in request] == [
        NODES,
        "PATCH /api/v1/nodes/b",
        "PATCH /api/v1/nodes/a",
    ]
    assert api.patches[0][1]["metadata"]["annotations"] == {"hami.io/device-cordon": "GPU-b-0,GPU-b-1"}


def test_a_conflict_reads_the_node_alone_again(api: Api) -> None:
    api.conflicts = 1
    assert run("cordon", "GPU-a-0").exit_code == 0
    patch, again = "PATCH /api/v1/nodes/a", "GET /api/v1/nodes/a"
    assert [request for request in api.requests if "/nodes" in request] == [NODES, patch, again, patch]
    api.conflicts = 9
    result = run("uncordon", "GPU-a-0")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "node a: it is written too often; try again" in result.stderr


def test_a_name_that_is_no_card_keeps_everything_from_being_written(api: Api) -> None:
    result = run("cordon", "GPU-a-0", "GPU-a-7")
    assert (result.exit_code, result.stdout, api.patches) == (2, "", [])
    assert "there is no card GPU-a-7" in result.stderr


def test_cards_of_koordinator_are_found_by_the_name_that_is_shown(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"type": "gpu", "minor": 0, "id": "GPU-k", "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
    path = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
    monkeypatch.setitem(KINDS, path, "Device")
    api.objects += [node("k", cards=0), {"kind": "Device", "metadata": {"name": "k"}, "spec": {"devices": [gpu]}}]
    api.settings = "dialects: [hami, koordinator]\n"
    shown = next(line.split()[1] for line in run("top", "cards").stdout.splitlines() if line.startswith("k "))
    for name in (shown, f"k/{shown}"):
        result = run("cordon", name)
        assert (result.exit_code, api.patches) == (2, [])
        assert f"card {shown}: cards of gpu have no annotation that cordons them; cordon node k" in result.stderr


def test_cards_that_cannot_be_cordoned_are_refused(api: Api) -> None:
    assert "there is no card GPU-x" in run("cordon", "GPU-x").stderr
    card = "x,10,8192,NVIDIA-T4,true,hami-core:"
    advertised = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "8192", "volcano.sh/vgpu-cores": "100"}
    api.objects.append(
        {
            "kind": "Node",
            "metadata": {"name": "v", "annotations": {"volcano.sh/node-vgpu-register": card}},
            "status": {"allocatable": advertised},
        }
    )
    api.settings = "dialects: [hami, volcano]\n"
    result = run("cordon", "x")
    assert (result.exit_code, api.patches) == (2, [])
    assert "have no annotation that cordons them; cordon node v" in result.stderr


def test_a_plan_of_moves(api: Api) -> None:
    api.objects[0] = node("a", cards=2)
    made = running("more", "a", "GPU-a-1", 2000)
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    result_without = run("defrag")
    assert (result_without.exit_code, result_without.stdout) == (1, "No card can be freed.\n")
    api.objects.append(made)
    result = run("defrag", "--cards", "1")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "1 move frees 1 card.",
        "",
        "1. Cordon, so that nothing else goes there:",
        "   vgpu-scheduler cordon card GPU-a-1",
        "",
        "2. Evict these pods, each when the one before runs again:",
        "   -  POD           FROM       TO".replace("-", " ", 1),
        "   1  default/more  a/GPU-a-1  a/GPU-a-0",
        "",
        "3. Uncordon the cards of step 1. Free will be:",
        "   a/GPU-a-1   # taken at once by default/large, which waits",
    ]
    assert "1 pod waits for cards, and would take 1 of those that become free." in result.stderr.splitlines()
    found = json.loads(run("defrag", "-o", "json").stdout)
    assert found["freed"] == [{"node": "a", "card": "GPU-a-1"}]
    assert run("defrag", "--cards", "1", "-o", "wide").stdout == result.stdout
    assert found["moves"][0]["to"] == {"node": "a", "cards": ["GPU-a-0"]}


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
    assert (result.stdout, result.stderr) == ("no pods hold cards\n", "")


def test_nobody_waits_and_why_is_explain(api: Api) -> None:
    assert run("why", "large").stdout == run("explain", "large").stdout
    api.objects = api.objects[:2]
    result = run("simulate", "--pending")
    assert (result.exit_code, result.stdout) == (0, "no pod waits\n")
