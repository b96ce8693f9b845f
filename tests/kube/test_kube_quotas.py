"""ResourceQuota objects."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_scheduler.kube import DecodeError, ResourceQuota, decode_quota


def test_it_reads_what_limits_say() -> None:
    metadata = {"name": "q", "namespace": "team", "uid": "u", "resourceVersion": "7"}
    found = decode_quota({"metadata": metadata, "spec": {"hard": {"limits.nvidia.com/gpumem": "10k", "pods": 3}}})
    assert found == ResourceQuota("team", "q", {"limits.nvidia.com/gpumem": "10k", "pods": "3"}, "u", 7)


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}, {"spec": {"hard": None}}])
def test_one_without_limits_limits_nothing(spec: dict[str, Any]) -> None:
    assert decode_quota({"metadata": {"name": "q"}, **spec}) == ResourceQuota("default", "q", {})


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        ({}, "metadata"),
        ({"metadata": {"name": 3}}, "metadata.name"),
        ({"metadata": {"name": "q"}, "spec": {"hard": ["x"]}}, "spec.hard"),
        ({"metadata": {"name": "q"}, "spec": "x"}, "spec"),
    ],
)
def test_what_is_malformed_is_named(obj: dict[str, Any], field: str) -> None:
    with pytest.raises(DecodeError, match=field):
        decode_quota(obj)
