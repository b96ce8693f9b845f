"""The guard of allocations knows every annotation that any vendor's plugin obeys, and no user's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.dialects.guard import COUNTS, VARIABLES, guarded

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami import Vendor, hami_dialect, vendors
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import volcano_dialect
from vgpu_scheduler.model import Assignment, Placement

VENDORS = vendors()


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.key)
def test_whatever_is_written_is_guarded(vendor: Vendor) -> None:
    assert all(guarded(key) for key in vendor.record.written)
    assert set(COUNTS) >= set(vendor.claims.counts)


def test_what_users_choose_by_is_not_guarded() -> None:
    dialect = hami_dialect()
    chosen = {*dialect.claims.pod_annotations, "hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy"}
    assert not [key for key in chosen if guarded(key)]


@pytest.mark.parametrize(
    ("dialect", "vendor", "uuid"),
    [(volcano_dialect(), "NVIDIA", "GPU-1"), (koordinator_dialect(), "gpu", "gpu/0/GPU-1")],
)
def test_the_component_of_a_dialect_guards_what_that_writes(dialect: Dialect, vendor: str, uuid: str) -> None:
    amounts = tuple(1 for _ in dialect.inventory.dimensions)
    placement = Placement("n", ((Assignment(vendor, uuid, amounts),),), dialect.name)
    folder = Path(__file__).parents[2] / "manifests" / dialect.name
    named, filled = yaml.safe_load((folder / "guard.yaml").read_text())
    written = dialect.allocation.annotations(placement, 0.0).keys()
    assert written <= dialect.allocation.written
    assert sorted(yaml.safe_load(filled["value"])) == sorted({*written, *dialect.claims.resources})
    number = int(named["path"].split("/")[3])
    assert list(VARIABLES)[number] == named["value"] == dialect.name
    assert filled["path"] == f"/spec/variables/{number}/expression"
