"""Ascend chips: what their plugin is told, and what only whole chips or some numbers of them can be asked for."""

from __future__ import annotations

import json

import pytest
from tests.dialects.vendors import Bench, Obj, asking

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import ClaimError, Dialects
from vgpu_scheduler.dialects.hami import RegisteredDevice, VendorSection, configured, encode_register_json, hami_dialect
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import ClaimDefaults

CHIP = {
    "commonWord": "Ascend910B4",
    "resourceName": "corp.com/npu",
    "resourceMemoryName": "corp.com/npu-memory",
    "memoryAllocatable": 32768,
    "memoryCapacity": 32768,
    "templates": [{"name": "vir05_1c_8g", "memory": 8192}, {"name": "vir10_3c_16g", "memory": 16384}],
}


def dialect_with(**changes: object) -> hami_dialect:
    return hami_dialect(configured(VendorSection({"vnpus": {"configs": [{**CHIP, **changes}]}})))


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
    (maker,) = (vendor for vendor in bench.dialect.claims.vendors if vendor.key == "Ascend910B4")
    assert "huawei.com/Ascend910B4" in maker.record.written


@pytest.mark.parametrize("factor", [1, 1000, 1024])
@pytest.mark.parametrize(
    ("asked", "booked"), [(None, 32768), (1, 8192), (8000, 8192), (8193, 16384), (16384, 16384), (16385, 32768)]
)
def test_the_webhook_writes_what_the_decision_books(factor: int, asked: int | None, booked: int) -> None:
    """Memory is asked for in units of so many MiB."""
    dialect = dialect_with(memoryFactor=factor)
    limits = {"corp.com/npu": "1"}
    if asked is not None:
        limits["corp.com/npu-memory"] = str(-(-asked // factor))
        booked = next(size for size in (8192, 16384, 32768) if size >= -(-asked // factor) * factor)
    completed = review(asking(limits), "default", AdmissionRules(Dialects([dialect]), ("s",))).pod
    assert completed is not None
    for wire in (asking(limits), dict(completed)):
        bench = Bench(chips(1), dialect=dialect)
        bench.take(wire)
        assert bench.used()["N0"][1] == booked
    again = review(completed, "default", AdmissionRules(Dialects([dialect]), ("s",)))
    assert not again.changed


def test_several_chips_are_refused_in_parts_whatever_the_unit() -> None:
    rules = AdmissionRules(Dialects([dialect_with(memoryFactor=1024)]), ("s",))
    assert review(asking({"corp.com/npu": "2", "corp.com/npu-memory": "32"}), "default", rules).allowed
    verdict = review(asking({"corp.com/npu": "2", "corp.com/npu-memory": "16"}), "default", rules)
    assert verdict.message == "vNPU not supported for multiple devices"


@pytest.mark.parametrize("mode", ["", "hami-core"])
def test_chips_of_modules_come_in_pairs_without_the_webhook_too(mode: str) -> None:
    def claims(count: str) -> Obj:
        wire = asking({"huawei.com/Ascend910C": count}, {"huawei.com/vnpu-mode": mode})
        return {claim.vendor: claim.count for claim in hami_dialect().claims.read(decode_pod(wire))[0].claims}

    with pytest.raises(ClaimError, match=r'container "c0": huawei.com/Ascend910C: 3: .* modules of 2: write 4'):
        claims("3")
    assert claims("4") == {"Ascend910C": 4}


def test_a_policys_memory_is_of_single_chips_that_are_cut() -> None:
    def memory(count: str, mode: str = "") -> tuple[int, int]:
        wire = decode_pod(asking({"huawei.com/Ascend910B4": count}, {"huawei.com/vnpu-mode": mode}))
        ((claim,),) = (c.claims for c in hami_dialect().claims.read(wire, ClaimDefaults(memory=4 * 2**30, cores=20)))
        assert claim.amounts[2] == (20 if mode else 0)
        return claim.amounts[1], claim.percent[1]

    assert memory("1") == (8192, 0)
    assert memory("2") == (0, 100), "no runtime takes parts of several"
    assert memory("2", "hami-core") == (4096, 0)
