"""Volcano's device configuration: from a file or its ConfigMap to names, the unit of memory and MIG geometries."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.engine.dialect_worlds import asking, decided, engine_of, under, volcano_node
from tests.runtime.test_runtime_device_config import written

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami.templates import MigGeometry
from vgpu_scheduler.dialects.volcano import VolcanoRequests
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_node
from vgpu_scheduler.runtime.assembly import make_dialects
from vgpu_scheduler.runtime.device_config import volcano_requests
from vgpu_scheduler.settings import Settings, SettingsError

# The structure of the file that comes with Volcano's device plugin.
CONFIG: dict[str, Any] = {
    "nvidia": {
        "resourceCountName": "volcano.sh/vgpu-number",
        "resourceMemoryName": "volcano.sh/vgpu-memory",
        "resourceMemoryPercentageName": "volcano.sh/vgpu-memory-percentage",
        "resourceCoreName": "volcano.sh/vgpu-cores",
        "overwriteEnv": False,
        "defaultMemory": 0,
        "defaultCores": 0,
        "defaultGPUNum": 1,
        "deviceSplitCount": 10,
        "deviceMemoryScaling": 1,
        "deviceCoreScaling": 1,
        "gpuMemoryFactor": 10,
        "knownMigGeometries": [
            {
                "models": ["A30"],
                "allowedGeometries": [
                    {"group": "group1", "geometries": [{"name": "1g.6gb", "memory": 6144, "count": 4}]},
                    {"group": "group2", "geometries": [{"name": "2g.12gb", "memory": 12288, "count": 2}]},
                ],
            }
        ],
    }
}
NUMBER, PERCENT = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory-percentage"


def dialect_of(folder: Path, content: object = CONFIG, **settings: Any) -> Dialect:
    return make_dialects(Settings(dialects=("volcano",), volcano_device_config=written(folder, content), **settings))[0]


@pytest.mark.parametrize("wrapped", [False, True])
def test_names_unit_and_geometries_carry_over(tmp_path: Path, *, wrapped: bool) -> None:
    content = {"nvidia": {**CONFIG["nvidia"], "resourceCountName": "example.com/gpu"}}
    manifest = {"kind": "ConfigMap", "data": {"device-config.yaml": yaml.safe_dump(content)}}
    names = volcano_requests(Settings(volcano_device_config=written(tmp_path, manifest if wrapped else content)))
    geometry = MigGeometry(("A30",), ((("1g.6gb", 6144, 4),), (("2g.12gb", 12288, 2),)), ("group1", "group2"))
    assert names == VolcanoRequests(
        "example.com/gpu", memory_percent=PERCENT, memory_factor=10, mig_geometries=(geometry,)
    )
    assert volcano_requests(Settings()) == VolcanoRequests(), "without a file there are Volcano's own"


def test_fields_of_the_settings_rank_above_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, CONFIG)
    names = volcano_requests(Settings(volcano_device_config=file, volcano_devices={"nvidia": {"gpuMemoryFactor": 2}}))
    assert (names.memory_factor, names.memory_percent) == (2, PERCENT)


# Half of a card ------------------------------------------------------------------------------------------------------


def engine_with(dialect: Dialect) -> Engine:
    """An engine with a node of one card of 24570 MiB, which its plugin registers in blocks of 10 MiB."""
    engine, node = engine_of(dialect), volcano_node("v", "GPU-0")
    listed = node["metadata"]["annotations"]
    listed["volcano.sh/node-vgpu-register"] = listed["volcano.sh/node-vgpu-register"].replace("24576", "2457")
    engine.observe_node(decode_node(node), 0.0)
    return engine


def test_half_of_a_card_is_half_whatever_its_unit(tmp_path: Path) -> None:
    engine = engine_with(dialect_of(tmp_path))
    decision = decided(engine, asking("half", {NUMBER: 1, PERCENT: 50}))
    assert decision.placement is not None, decision.message
    written = engine.dialects.annotations(decision.placement, 0)
    assert written["volcano.sh/vgpu-ids-new"] == "GPU-0,NVIDIA,1228,0:"
    assert decided(engine, asking("other", {NUMBER: 1, PERCENT: 50})).placement is not None
    assert decided(engine, asking("third", {NUMBER: 1, PERCENT: 50})).message.endswith("1 CardInsufficientMemory.")


@pytest.mark.parametrize(
    ("limit", "asked", "fits"),
    [
        ("13Gi", {PERCENT: 50}, True),
        ("11Gi", {PERCENT: 50}, False),
        ("4Gi", {"volcano.sh/vgpu-memory": 409}, True),
        ("4Gi", {"volcano.sh/vgpu-memory": 410}, False),
    ],
)
def test_a_limit_of_a_policy_is_in_bytes_whatever_the_unit(
    tmp_path: Path, limit: str, asked: dict[str, object], *, fits: bool
) -> None:
    engine = under({"limits": {"memoryPerPod": limit}}, engine_with(dialect_of(tmp_path)))
    assert (decided(engine, asking("p", {NUMBER: 1, **asked})).placement is not None) is fits


# What is wrong -------------------------------------------------------------------------------------------------------


def test_a_configuration_as_it_is_has_no_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        dialect_of(tmp_path, {**CONFIG, "vnpus": []})
    assert not caplog.records


def test_what_has_no_effect_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        dialect_of(tmp_path, {"nvidia": {"gpuMemoryFacto": 5}, "amd": {}})
    for said in ("nvidia.gpuMemoryFacto is not known", "amd is not known"):
        assert f"Volcano's device configuration {tmp_path}/device-config.yaml: {said}" in caplog.text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"nvidia": {"gpuMemoryFactor": "ten"}}, "nvidia.gpuMemoryFactor: 'ten' is not an integer"),
        ({"nvidia": {"resourceCountName": 5}}, "nvidia.resourceCountName: 5 is not a text"),
        ({"nvidia": ["x"]}, "nvidia: ['x'] is not a section"),
        (
            {"nvidia": {"resourceCoreName": "volcano.sh/vgpu-memory"}},
            "nvidia.resourceMemoryName, nvidia.resourceCoreName: resource volcano.sh/vgpu-memory stands for 2 things",
        ),
        ({"nvidia": {"knownMigGeometries": [{"models": ["A"]}]}}, "nvidia.knownMigGeometries[0]: "),
        (
            {
                "nvidia": {
                    "knownMigGeometries": [{"models": ["A"], "allowedGeometries": [{"group": "g", "geometries": [{}]}]}]
                }
            },
            "nvidia.knownMigGeometries[0].allowedGeometries[0].geometries[0].name is missing",
        ),
        (
            {
                "nvidia": {
                    "gpuMemoryFactor": 8192,
                    "knownMigGeometries": [
                        {
                            "models": ["A30"],
                            "allowedGeometries": [
                                {"group": "g", "geometries": [{"name": "1g.6gb", "memory": 6144, "count": 4}]}
                            ],
                        }
                    ],
                }
            },
            "nvidia.knownMigGeometries: instance 1g.6gb has 6144 MiB, which is less than one block of gpuMemoryFactor",
        ),
        ("nvidia: [", "while parsing"),
        ({"kind": "ConfigMap", "data": {}}, "the ConfigMap has no data['device-config.yaml']"),
    ],
)
def test_errors_name_the_file_and_the_field(tmp_path: Path, content: object, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        dialect_of(tmp_path, content)
    assert str(error.value).count(f"Volcano's device configuration {tmp_path}") == 1
    assert says in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        make_dialects(Settings(dialects=("volcano",), volcano_device_config=tmp_path / "nowhere"))
