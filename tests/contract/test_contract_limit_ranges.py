"""LimitRanges are stored alike: with what follows from the rest of them, and in canonical amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.contract.client import Api, Object


@pytest.mark.parametrize(
    ("item", "stored"),
    [
        (
            {"type": "Container", "max": {"cpu": "2000m"}, "min": {"cpu": "0.1", "memory": "1024Mi"}},
            {
                "type": "Container",
                "max": {"cpu": "2"},
                "min": {"cpu": "100m", "memory": "1Gi"},
                "default": {"cpu": "2"},
                "defaultRequest": {"cpu": "2", "memory": "1Gi"},
            },
        ),
        (
            {"type": "Container", "default": {"nvidia.com/gpumem": "4000"}},
            {
                "type": "Container",
                "default": {"nvidia.com/gpumem": "4k"},
                "defaultRequest": {"nvidia.com/gpumem": "4k"},
            },
        ),
        ({"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}}),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "1.5"}},
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}},
        ),
    ],
)
async def test_a_limit_range_is_stored_with_what_follows_from_it(api: Api, item: Object, stored: Object) -> None:
    path = f"/api/v1/namespaces/{api.namespace}/limitranges"
    made = (await api.post(path, {"metadata": {"name": "r"}, "spec": {"limits": [item]}})).object()
    assert made["spec"]["limits"] == [stored]
