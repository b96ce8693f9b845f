"""The guard of allocations knows every annotation that any maker's plugin obeys, and no user's."""

from __future__ import annotations

import pytest
from tests.dialects.guard import COUNTS, guarded

from vgpu_scheduler.dialects.hami import Vendor, hami_dialect, vendors

VENDORS = vendors()


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.key)
def test_whatever_is_written_is_guarded(vendor: Vendor) -> None:
    assert all(guarded(key) for key in vendor.record.written)
    assert set(COUNTS) >= set(vendor.claims.counts)


def test_what_users_choose_by_is_not_guarded() -> None:
    dialect = hami_dialect()
    chosen = {*dialect.claims.pod_annotations, "hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy"}
    assert not [key for key in chosen if guarded(key)]
