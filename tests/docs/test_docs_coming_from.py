"""The pages for those who come from elsewhere, about autoscalers, and about trying it: what they say is so."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.doctor.clusters import PLUGIN_FOLDER, healthy, look, workload

from vgpu_scheduler.cli.main import main
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import volcano_dialect
from vgpu_scheduler.doctor import DIAGNOSES
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.model import ConditionReason
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.settings import read
from vgpu_scheduler.whatif import World, make_dialect, simulate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
Obj = dict[str, Any]


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def blocks(name: str) -> list[Any]:
    found = re.findall(r"^( *)```yaml\n(.*?)^ *```", page(name), re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(re.sub(f"^{indent}", "", text, flags=re.MULTILINE)) for indent, text in found]


def pod(name: str, limits: Mapping[str, int], **metadata: Any) -> Obj:
    resources = {"limits": {key: str(amount) for key, amount in limits.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": {"schedulerName": "somebody", "containers": [{"name": "main", "image": "i", "resources": resources}]},
        "status": {"phase": "Pending"},
    }


def node(name: str, annotations: Mapping[str, str], **allocatable: str) -> Obj:
    offered = {"cpu": "32", "memory": "128Gi", "pods": "110", **allocatable}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"allocatable": offered},
    }


def asked(folder: Path, objects: list[Obj], *arguments: str) -> list[Obj]:
    """Run ``simulate`` on a cluster in a file, as the pages do."""
    cluster = folder / "cluster.yaml"
    cluster.write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(main, ["simulate", "--cluster", str(cluster), *arguments, "-o", "json"])
    assert result.exit_code in {0, 1}, result.stderr
    return list(json.loads(result.stdout))


def outcomes(folder: Path, objects: list[Obj], *arguments: str) -> dict[str, tuple[str, str]]:
    """Return where waiting pods go, or why they wait."""
    answers = asked(folder, objects, "--pending", *arguments)
    return {each["pod"].partition("/")[2]: (each["outcome"], each["node"] or each["message"]) for each in answers}


VOLCANO = node(
    "v1",
    {"volcano.sh/node-vgpu-register": "GPU-a,10,24576,NVIDIA-A10,true,hami-core:"},
    **{"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "24576", "volcano.sh/vgpu-cores": "100"},
)
SHARE = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4000}


def test_what_is_not_taken_over_from_volcano_is_told_as_the_page_says(tmp_path: Path) -> None:
    init = pod("init", SHARE)
    init["spec"]["initContainers"] = init["spec"]["containers"]
    init["spec"]["containers"] = [{"name": "app", "image": "i"}]
    pods = [
        pod("plain", SHARE),
        pod("member", SHARE, annotations={"scheduling.k8s.io/group-name": "gang"}),
        pod("percent", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 30}),
        init,
    ]
    found = outcomes(tmp_path, [VOLCANO, *pods], "--dialect", "volcano")
    assert found["plain"] == found["member"] == ("placed", "v1")
    assert "Insufficient volcano.sh/vgpu-memory-percentage" in found["percent"][1]
    assert found["init"][0] == "refused"
    text = re.sub(r"\s+", " ", page("coming-from-volcano"))
    for words in ("are placed one by one", "`Insufficient volcano.sh/vgpu-memory-percentage`", "are refused by name"):
        assert words in text


def device(name: str) -> Obj:
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi"}
    gpu = {
        "type": "gpu",
        "minor": 0,
        "id": "GPU-0",
        "health": True,
        "resources": {**amounts, "koordinator.sh/gpu-memory-ratio": "100"},
    }
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": [gpu]},
    }


def test_what_is_not_taken_over_from_koordinator_is_refused_by_name(tmp_path: Path) -> None:
    half = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100", "huawei.com/npu-core": "9"}
    hint = {"scheduling.koordinator.sh/device-allocate-hint": '{"gpu": {"allocateStrategy": "ApplyForAll"}}'}
    pods = [
        pod("hint", half, annotations=hint),
        pod("npu", {"huawei.com/npu-core": 1}),
        pod("mutated", {**half, "koordinator.sh/gpu.shared": 1}),
    ]
    found = outcomes(tmp_path, [node("k1", {}, **amounts), device("k1"), *pods], "--dialect", "koordinator")
    assert found.pop("mutated") == ("placed", "k1")
    assert {outcome for outcome, _ in found.values()} == {"refused"}


@pytest.mark.parametrize(("name", "dialect"), [("volcano", volcano_dialect()), ("koordinator", koordinator_dialect())])
def test_the_tables_name_every_annotation_that_is_written_and_read(name: str, dialect: Dialect) -> None:
    text = page(f"coming-from-{name}")
    world = World(EngineOptions([dialect], PolicyDefaults()))
    beside = [device("k1")] if name == "koordinator" else []
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    world.add([*beside, node("k1", {}, **amounts) if beside else VOLCANO])
    limits = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50} if beside else SHARE
    (answer,) = simulate(world, [world.pod(pod("p", limits))])
    assert answer.decision.placement
    written = dialect.allocation.annotations(answer.decision.placement, 1.0)
    assert written
    inventory = ["devices.scheduling.koordinator.sh"] if beside else VOLCANO["metadata"]["annotations"]
    for key in (*written, *inventory, *dialect.claims.pod_annotations):
        assert f"`{key}`" in text, key


def test_the_doctor_names_the_account_of_volcanos_plugin() -> None:
    """Under the names of its manifests: they are on the page."""
    folder = {"name": "device-plugin", **PLUGIN_FOLDER}
    image = "docker.io/projecthami/volcano-vgpu-device-plugin:v1.12.0"
    plugin = workload("volcano-device-plugin", image, volumes=[folder])
    objects = healthy()
    objects["DaemonSet"].append(plugin)
    accounts = [each.ref for each in look(objects).findings if each.diagnosis.id == "plugin-refused"]
    assert [f"{account.namespace}:{account.name}" for account in accounts] == ["kube-system:volcano-device-plugin"]
    assert "--serviceaccount=kube-system:volcano-device-plugin" in page("coming-from-volcano")


@pytest.mark.parametrize("name", ["volcano", "koordinator"])
def test_the_settings_of_the_pages_are_understood_and_their_components_are_there(name: str) -> None:
    settings, kustomization = blocks(f"coming-from-{name}")[-2:]
    assert read(settings, {}).dialects == (name,)
    (patch,) = kustomization["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    given = read(yaml.safe_load(operation["value"]), {})
    assert (given.dialects, given.managed_nodes) == ((name,), "pool=vgpu")
    for component in kustomization["components"]:
        assert (ROOT / component / "kustomization.yaml").exists()


def test_the_node_and_the_policy_of_the_page_about_time_slicing(tmp_path: Path) -> None:
    policy, planned = blocks("coming-from-time-slicing")
    (tmp_path / "planned.yaml").write_text(yaml.safe_dump(planned))
    (tmp_path / "quarters.yaml").write_text(yaml.safe_dump(policy))
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod("more", {"nvidia.com/gpu": 1})))
    stock = node("t1", {}, **{"nvidia.com/gpu": "8"})
    waiting = [pod("waits", {"nvidia.com/gpu": 1}), pod("shared", {"nvidia.com/gpu.shared": 1})]
    found = outcomes(tmp_path, [stock, *waiting])
    assert "node unregistered" in found["waits"][1]
    assert "Insufficient nvidia.com/gpu.shared" in found["shared"][1]
    added = ("--add-node", str(tmp_path / "planned.yaml"))
    assert outcomes(tmp_path, [stock, *waiting], *added)["waits"] == ("placed", "planned")
    question = ("-f", str(tmp_path / "pod.yaml"), "--count", "max", *added)
    assert fitting(asked(tmp_path, [stock], *question)) == 2, "each takes all the memory of a card"
    assert fitting(asked(tmp_path, [stock], *question, "--policy", str(tmp_path / "quarters.yaml"))) == 8
    told = {diagnosis.id for diagnosis in DIAGNOSES}
    assert set(re.findall(r"\(doctor\.md#([a-z-]+)\)", page("coming-from-time-slicing"))) <= told


def fitting(answers: list[Obj]) -> int:
    (found,) = answers
    return int(found["count"])


def test_three_slices_fit_on_the_card_on_paper(tmp_path: Path) -> None:
    command = next(line for line in page("trying-it").splitlines() if "node-nvidia-register=" in line)
    key, _, value = shlex.split(command)[5].partition("=")
    paper = node("kind-control-plane", {key: value}, **{"nvidia.com/gpu": "10"})
    example = ROOT / "manifests" / "examples" / "slice.yaml"
    assert fitting(asked(tmp_path, [paper], "-f", str(example), "--count", "max")) == 3
    assert "three of these pods fit" in page("trying-it")


def reason(world: World, asking: Obj) -> ConditionReason:
    (answer,) = simulate(world, [world.pod(asking)])
    assert answer.decision.placement is None
    return answer.decision.condition_reason


def test_conditions_say_what_the_page_about_autoscalers_says() -> None:
    register = json.dumps([{"id": "GPU-0", "count": 10, "devmem": 8000, "devcore": 100, "type": "T4", "health": True}])
    world = World(EngineOptions([make_dialect("hami")], PolicyDefaults()))
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "poor"}}
    (rule,) = blocks("autoscalers")
    assert rule["spec"]["defaults"] == {"memory": f"{23028 // 4}Mi", "cores": 25}
    limits = {"namespaceSelector": {"matchLabels": {"tier": "small"}}, "limits": {"memoryPerPod": "1Gi"}}
    world.add(
        [
            node("n", {"hami.io/node-nvidia-register": register}, **{"nvidia.com/gpu": "10"}),
            {"kind": "Namespace", "metadata": {"name": "small", "labels": {"tier": "small"}}},
            {**quota, "spec": {"hard": {"limits.nvidia.com/gpumem": "100"}}},
            {"kind": "ClusterVGPUPolicy", "metadata": {"name": "limits"}, "spec": limits},
        ]
    )
    share = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000}
    claims = pod("claims", share)
    claims["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    larger_than_any = pod("large", {**share, "nvidia.com/gpumem": 900000})
    no_cpu = pod("cpu", {**share, "cpu": 99})
    for asking in (larger_than_any, no_cpu):
        assert reason(world, asking) is ConditionReason.UNSCHEDULABLE, asking["metadata"]["name"]
    for asking in (pod("quota", share, namespace="poor"), pod("limit", share, namespace="small"), claims):
        assert reason(world, asking) is ConditionReason.SCHEDULER_ERROR, asking["metadata"]["name"]


def test_what_nodes_offer_of_memory_is_left_alone() -> None:
    """Sums over cards, as mock-device-plugin has nodes offer, keep no pod away that a card has room for."""
    unknown = make_dialect("hami").inventory.unknown_to_kubelet
    named = set(re.findall(r"`(nvidia\.com/gpu(?:mem|cores|mem-percentage))`", page("autoscalers")))
    assert named == {"nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage"}
    assert named <= unknown
