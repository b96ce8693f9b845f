"""HAMi's device configuration: from a file or its ConfigMap to resource names; what is wrong is named."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.runtime.assembly import make_dialects
from vgpu_scheduler.settings import Settings, SettingsError

# The structure of the file that HAMi's chart renders, cut to what differs from the defaults here.
CONFIG: dict[str, Any] = {
    "nvidia": {
        "resourceCountName": "example.com/gpu",
        "resourceMemoryName": "example.com/gpumem",
        "resourceMemoryPercentageName": "example.com/percent",
        "resourceCoreName": "example.com/cores",
        "resourcePriorityName": "example.com/priority",
        "overwriteEnv": False,
        "defaultMemory": 2000,
        "defaultCores": 10,
        "defaultGPUNum": 1,
        "memoryFactor": 2,
        "deviceSplitCount": 10,
        "migProfileAllowlist": [{"models": ["A100"], "profiles": ["1g.5gb"]}],
    },
    "hygon": {"resourceCountName": "example.com/dcu", "memoryFactor": 3},
    "vnpus": {
        "hamiVnpuCore": True,
        "configs": [
            {
                "chipName": "910X",
                "commonWord": "Ascend910X",
                "resourceName": "example.com/npu",
                "resourceMemoryName": "example.com/npu-memory",
                "memoryAllocatable": 1000,
                "memoryCapacity": 1000,
                "aiCore": 8,
                "aiCPU": 4,
                "templates": [{"name": "half", "memory": 500, "aiCore": 4, "aiCPU": 2}],
            }
        ],
    },
    "iluvatars": [{"chipName": "X1", "commonWord": "X1"}],
}


def written(folder: Path, content: object) -> Path:
    path = folder / "device-config.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def claims(settings: Settings, **limits: str) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...]]]:
    named = {f"example.com/{name.replace('_', '-')}": amount for name, amount in limits.items()}
    pod = decode_pod({
        "metadata": {"name": "p", "uid": "u", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": named}}]},
    })  # fmt: skip
    ((container,),) = [make_dialects(settings)[0].claims.read(pod)]
    return [(claim.vendor, claim.count, claim.amounts, claim.percent) for claim in container.claims]


@pytest.mark.parametrize("wrapped", [False, True])
def test_names_units_and_templates_carry_over(tmp_path: Path, *, wrapped: bool) -> None:
    manifest = {"kind": "ConfigMap", "data": {"device-config.yaml": yaml.safe_dump(CONFIG)}}
    settings = Settings(hami_device_config=written(tmp_path, manifest if wrapped else CONFIG))
    assert claims(settings, gpu="1") == [("NVIDIA", 1, (1, 2000, 10), (0, 0, 0))]
    assert claims(settings, gpu="2", gpumem="100") == [("NVIDIA", 2, (1, 200, 10), (0, 0, 0))]
    assert claims(settings, npu="1", npu_memory="400") == [("Ascend910X", 1, (1, 500, 0), (0, 0, 0))]
    assert claims(settings, dcu="1") == [("DCU", 1, (1, 0, 100), (0, 100, 0))]
    dialect = make_dialects(settings)[0]
    assert {"Ascend910X", "X1", "MLU"} <= dialect.inventory.cards  # what has no section keeps its names
    assert not {"Ascend910B3", "BI-V150"} & dialect.inventory.cards
    assert "hygon.com/dcumem" in dialect.inventory.unknown_to_kubelet


def test_settings_rank_above_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, CONFIG)
    settings = Settings(
        hami_device_config=file,
        nvidia={"default_memory": 0, "resource_core_name": "example.com/compute"},
        hami_devices={"hygon": {"resourceCountName": "example.com/other"}},
        exclusive_when_unspecified=True,
    )
    assert claims(settings, gpu="1") == [("NVIDIA", 1, (1, 0, 100), (0, 100, 0))]
    assert claims(settings, gpu="1", compute="7") == [("NVIDIA", 1, (1, 0, 7), (0, 100, 0))]
    assert claims(settings, gpu="1", percent="50") == [("NVIDIA", 1, (1, 0, 10), (0, 50, 0))]
    assert claims(settings, dcu="1") == []
    assert claims(settings, other="1")[0][0] == "DCU"


def test_a_field_that_is_given_leaves_the_other_fields_of_its_section(tmp_path: Path) -> None:
    file = written(tmp_path, {"hygon": {"resourceCountName": "a/dcu", "memoryFactor": 256}})
    settings = Settings(hami_device_config=file, hami_devices={"hygon": {"resourceCountName": "b/dcu"}})
    limits = {"b/dcu": "1", "hygon.com/dcumem": "2"}
    wire = {
        "metadata": {"name": "p", "uid": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    (container,) = make_dialects(settings)[0].claims.read(decode_pod(wire))
    assert [claim.amounts[1] for claim in container.claims] == [512]


def test_what_the_file_says_to_the_webhook_is_followed(tmp_path: Path) -> None:
    content = {
        "nvidia": {"defaultGPUNum": 3, "overwriteEnv": True, "runtimeClassName": "nvidia", "gpuCorePolicy": "force"},
        "vnpus": {"configs": [{"commonWord": "A", "memoryAllocatable": 8, "runtimeClassName": "ascend"}]},
    }
    dialect = make_dialects(Settings(hami_device_config=written(tmp_path, content), nvidia={"default_gpu_num": 2}))[0]
    limits = ({"nvidia.com/gpumem": "1"}, {"huawei.com/A": "1"})
    containers = [{"name": f"c-{number}", "resources": {"limits": asked}} for number, asked in enumerate(limits)]
    verdict = review(
        {"metadata": {}, "spec": {"containers": containers}}, "a", AdmissionRules(Dialects([dialect]), ("ours",))
    )
    assert verdict.pod is not None
    gpu, npu = verdict.pod["spec"]["containers"]
    assert gpu["resources"]["limits"]["nvidia.com/gpu"] == "2", "the settings rank above the file"
    assert npu["resources"]["limits"]["huawei.com/A-memory"] == "8"
    assert [e["name"] for e in gpu["env"]] == ["GPU_CORE_UTILIZATION_POLICY"]
    assert [e["name"] for e in npu["env"]] == ["GPU_CORE_UTILIZATION_POLICY", "NVIDIA_VISIBLE_DEVICES"]
    assert verdict.pod["spec"]["runtimeClassName"] == "nvidia"


def test_what_has_no_effect_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = {"nvidia": {"resourceCuntName": "x"}, "nvidai": {}, "vnpus": {"configs": [{"commonWord": "A", "x": 1}]}}
    with caplog.at_level(logging.WARNING):
        make_dialects(Settings(hami_device_config=written(tmp_path, content)))[0]
    said = caplog.text
    assert "nvidia.resourceCuntName is not known" in said
    assert "nvidai is not known" in said
    assert "vnpus.configs[0].x is not known" in said
    assert "set profile: HAMi210" in said


def test_a_configuration_of_hami_as_it_is_has_no_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        make_dialects(Settings(hami_device_config=written(tmp_path, CONFIG), profile="HAMi210"))[0]
    assert not caplog.records


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"nvidia": {"memoryFactor": "two"}}, "nvidia.memoryFactor: 'two' is not an integer"),
        ({"nvidia": {"resourceCountName": 5}}, "nvidia.resourceCountName: 5 is not a text"),
        ({"nvidia": ["x"]}, "nvidia: ['x'] is not a section"),
        ({"nvidia": {"migProfileAllowlist": [{"models": ["A"]}]}}, "nvidia.migProfileAllowlist[0]: "),
        ({"vnpus": {"configs": [{}]}}, "vnpus.configs[0].commonWord is missing"),
        ({"iluvatars": [{"commonWord": "X"}, {"commonWord": ""}]}, "iluvatars[1].commonWord is missing"),
        (
            {"hygon": {"resourceCountName": "nvidia.com/gpu"}},
            "nvidia.resourceCountName, hygon.resourceCountName: resource nvidia.com/gpu is both of NVIDIA and of DCU",
        ),
        (
            {"hygon": {"resourceCoreName": "hygon.com/dcumem"}},
            "hygon.resourceMemoryName, hygon.resourceCoreName: resource hygon.com/dcumem stands for 2 things of DCU",
        ),
        (
            {"nvidia": {"resourcePriorityName": "hygon.com/dcucores"}},
            "nvidia.resourcePriorityName, hygon.resourceCoreName: resource hygon.com/dcucores is both of",
        ),
        (
            {"vnpus": {"configs": [{"commonWord": "Ascend910B4"}, {"commonWord": "Ascend910B4"}]}},
            "vnpus.configs[0].commonWord, vnpus.configs[1].commonWord: Ascend910B4 is more than one kind of cards",
        ),
        (
            {"iluvatars": [{"commonWord": "X"}, {"commonWord": "X", "resourceCountName": "x/y"}]},
            "iluvatars[0].commonWord, iluvatars[1].commonWord: X is more than one kind of cards",
        ),
        ({"iluvatars": [{"commonWord": "DCU"}]}, "iluvatars[0].commonWord: DCU is more than one kind of cards"),
        (
            {"vnpus": [{"commonWord": "A"}, {"commonWord": "B", "resourceName": "huawei.com/A"}]},
            "vnpus[1].resourceName: resource huawei.com/A is both of A and of B",
        ),
        ("nvidia: [", "while parsing"),
        ("- a", "not a map of sections"),
        ("nvidia: " + "[" * 5000, "nested too deeply"),
        ("nvidia: 2026-99-99", "month must be in 1..12"),
        ({"kind": "ConfigMap", "data": {}}, "the ConfigMap has no data['device-config.yaml']"),
        ({"kind": "ConfigMap", "data": [1]}, "the ConfigMap has no data['device-config.yaml']"),
        ({"kind": "ConfigMap", "data": {"device-config.yaml": 1}}, "the ConfigMap has no data['device-config.yaml']"),
    ],
)
def test_errors_name_the_file_and_the_field(tmp_path: Path, content: object, says: str) -> None:
    file = written(tmp_path, content)
    with pytest.raises(SettingsError) as error:
        make_dialects(Settings(hami_device_config=file))[0]
    assert str(error.value).count(str(file)) == 1
    assert says in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        make_dialects(Settings(hami_device_config=tmp_path / "nowhere"))[0]
