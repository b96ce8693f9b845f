"""Ascend chips: what their plugin is told, and what only whole chips or some numbers of them can be asked for."""

from __future__ import annotations

import json

from tests.dialects.makers import Bench, Obj, asking

from vgpu_scheduler.dialects import HamiDialect
from vgpu_scheduler.dialects.hami import RegisteredDevice, Section, configured, encode_register_json

CHIP = {
    "commonWord": "Ascend910B4",
    "resourceName": "corp.com/npu",
    "resourceMemoryName": "corp.com/npu-memory",
    "memoryAllocatable": 32768,
    "memoryCapacity": 32768,
    "templates": [{"name": "vir05_1c_8g", "memory": 8192}, {"name": "vir10_3c_16g", "memory": 16384}],
}


def dialect_with(**changes: object) -> HamiDialect:
    return HamiDialect(configured(Section({"vnpus": {"configs": [{**CHIP, **changes}]}})))


def chips(number: int, chip: str = "Ascend910B4", memory: int = 32768) -> Obj:
    """The annotation of a node with so many chips."""
    listed = [
        RegisteredDevice(id=f"N{i}", index=i, count=4, devmem=memory, devcore=20, type=chip, health=True)
        for i in range(number)
    ]
    return {f"hami.io/node-register-{chip}": encode_register_json(listed)}


def test_the_runtime_is_told_under_the_chips_name_whatever_the_resource_is_called() -> None:
    bench = Bench(chips(1), dialect=dialect_with())
    written = bench.try_(asking({"corp.com/npu": "1", "corp.com/npu-memory": "8000"}))
    assert isinstance(written, dict)
    assert json.loads(written["huawei.com/Ascend910B4"]) == [{"UUID": "N0", "temp": "vir05_1c_8g", "memory": 8192}]
    assert "corp.com/npu" not in written
    (maker,) = (vendor for vendor in bench.dialect.vendors if vendor.key == "Ascend910B4")
    assert "huawei.com/Ascend910B4" in maker.record.written
