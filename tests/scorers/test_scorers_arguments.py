"""Volcano's arguments as a policy takes them: what is followed, and what is warned about."""

import pytest

from vgpu_scheduler.dialects.volcano import parse_binpack_arguments
from vgpu_scheduler.scorers import BinpackScorer


def test_nothing_given() -> None:
    found = parse_binpack_arguments({})
    assert (found.weight, found.weights, found.warnings) == (1, (("cpu", 1), ("memory", 1)), ())


@pytest.mark.parametrize("value", ["5", 5.0, True, None, 2**63, -(2**63) - 1, [5]])
@pytest.mark.parametrize("key", ["binpack.weight", "binpack.cpu", "binpack.resources.x"])
def test_what_is_no_integer_keeps_the_default_and_is_said(key: str, value: object) -> None:
    found = parse_binpack_arguments({"binpack.resources": "x", key: value})
    assert (found.weight, dict(found.weights)) == (1, {"cpu": 1, "memory": 1, "x": 1})
    assert found.warnings == (f"{key}: {value!r} is not an integer, 1 is used",)


def test_negative_weights() -> None:
    given = {"binpack.weight": -2, "binpack.cpu": -5, "binpack.resources": "x", "binpack.resources.x": -1}
    found = parse_binpack_arguments(given)
    assert (found.weight, dict(found.weights)) == (-2, {"cpu": 1, "memory": 1, "x": 1})
    assert found.warnings == (
        "binpack.cpu: -5 is negative, 1 is used",
        "binpack.resources.x: -1 is negative, 1 is used",
    )


def test_what_has_no_effect_is_said() -> None:
    found = parse_binpack_arguments({"binpack.resources": ["x"], "binpack.resources.x": 3, "other": 1})
    assert dict(found.weights) == {"cpu": 1, "memory": 1}
    assert found.warnings == (
        "binpack.resources: ['x'] is not a text, no further resource is weighed",
        "binpack.resources.x: the resource is not listed in binpack.resources and is ignored",
    )


def test_the_weights_make_a_scorer() -> None:
    given = {"binpack.cpu": 0, "binpack.resources": " b.c/d ,, a, cpu", "binpack.resources.b.c/d": 7}
    found = parse_binpack_arguments(given)
    assert found.weights == (("a", 1), ("b.c/d", 7), ("cpu", 0), ("memory", 1))
    assert BinpackScorer(found.weights).weights == found.weights
