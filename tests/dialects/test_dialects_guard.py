"""The guard of allocations knows every annotation that any maker's plugin obeys, and no user's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from vgpu_scheduler.dialects.hami import HamiDialect, Vendor
from vgpu_scheduler.dialects.hami.vendors import Handed
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Assignment

VENDORS = HamiDialect().vendors
POLICIES = yaml.safe_load_all((Path(__file__).parents[2] / "manifests" / "admission.yaml").read_text())
VARIABLES = {one["name"]: one["expression"] for one in next(iter(POLICIES))["spec"]["variables"]}
KEYS, PREFIXES, COUNTS = (yaml.safe_load(VARIABLES[name]) for name in ("keys", "prefixes", "counts"))  # lists of CEL


def guarded(key: str) -> bool:
    return key in KEYS or key.startswith(tuple(PREFIXES))


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.key)
def test_whatever_is_written_is_guarded(vendor: Vendor) -> None:
    assert all(guarded(key) for key in vendor.record.written)
    pod = decode_pod({"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": [{"name": "c"}]}})
    assert vendor.record.extras is not None
    cards = [(Assignment(vendor.key, "uuid", (1, 1024, 10), tag="0"),)]
    extras = vendor.record.extras(Handed("n", cards, 0.0, pod))
    assert all(guarded(key) for key in extras)
    assert set(COUNTS) >= set(vendor.claims.counts)


def test_what_users_choose_by_is_not_guarded() -> None:
    dialect = HamiDialect()
    chosen = {*dialect.pod_annotations, "hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy"}
    assert not [key for key in chosen if guarded(key)]
