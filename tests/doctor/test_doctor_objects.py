"""Objects that the doctor reads: what is wrong with one is said of its field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vgpu_scheduler.doctor import EXAMINED_KINDS, decode_objects, inventory_kind
from vgpu_scheduler.doctor.objects import Lease, decoder
from vgpu_scheduler.kube import ApiResource

LEASES = next(listed for listed in EXAMINED_KINDS if listed.kind == "Lease")


def lease(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "system", "name": "l"}, "spec": spec}


def nested(levels: int) -> Any:
    inner: Any = None
    for _ in range(levels):
        inner = {"f:x": [inner]}
    return inner


@pytest.mark.parametrize("encode", [lambda obj: obj, msgspec.json.encode])
def test_a_field_of_another_type_is_named(encode: Any) -> None:
    values, (finding,) = decode_objects(
        LEASES, [encode(lease(leaseDurationSeconds="x")), encode(lease(holderIdentity="a"))]
    )
    assert [each.spec.holder_identity for each in values] == ["a"]
    assert str(finding.ref) == "Lease system/l"
    assert finding.message == "it cannot be read: spec.leaseDurationSeconds: Expected `int`, got `str`"


def test_what_is_null_has_its_default() -> None:
    found = decoder("Lease", Lease)({**lease(holderIdentity=None, renewTime="x"), "status": None})
    assert (found.spec.holder_identity, found.spec.renew_time) == ("", "x")


@pytest.mark.parametrize("levels", [50, 5000])
def test_an_object_is_read_however_deep_it_is(levels: int) -> None:
    obj = lease(holderIdentity="a", extra=nested(levels))
    assert decoder("Lease", Lease)(obj).spec.holder_identity == "a"


def test_an_inventory_is_read_as_the_scheduler_reads_it() -> None:
    listed = inventory_kind(ApiResource("Device", "scheduling.koordinator.sh", "v1alpha1", "devices"))
    good = {"metadata": {"name": "k", "uid": "u", "resourceVersion": "7"}, "spec": {}}
    odd = {"metadata": {"name": "odd", "resourceVersion": "x"}}
    (found,), (finding,) = decode_objects(listed, [good, odd])
    assert (found.name, found.uid, found.resource_version, found.content["spec"]) == ("k", "u", 7, {})
    assert str(finding.ref) == "Device odd"
    assert finding.message == "it cannot be read: metadata.resourceVersion: 'x' is not a number"
