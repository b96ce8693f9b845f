"""What objects say alike is kept once, and says what it said."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.ui.shared_values import SharedValues

TEXTS = st.sampled_from(["", "a", "b", "1"])
SCALARS = st.one_of(TEXTS, st.none(), st.booleans(), st.sampled_from([0, 1, 1.0, 70000, 0.0]))
VALUES = st.recursive(SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXTS, each, max_size=3))


@given(st.lists(VALUES, max_size=12))
def test_what_is_shared_says_the_same(values: list[Any]) -> None:
    values_shared = SharedValues()
    shared = [values_shared.share(copy.deepcopy(value)) for value in values]
    assert json.dumps(shared) == json.dumps(values)  # types and the order of fields, too


def template(number: int) -> dict[str, Any]:
    ports = [{"containerPort": 8000 + number}]
    return {"name": f"p-{number}", "spec": {"env": [{"name": "A", "value": "b"}], "on": True}, "ports": ports}


def test_parts_that_are_equal_are_there_once_and_others_are_not() -> None:
    values = SharedValues()
    first, again = values.share(template(1)), values.share(template(2))
    assert first["spec"] is again["spec"]
    assert first["ports"] is not again["ports"]
    assert values.share({"spec": template(3)["spec"]})["spec"]["env"][0] is first["spec"]["env"][0]
    assert values.share({"x": {}, "y": []}) == {"x": {}, "y": []}


def test_what_recurs_stays_known_while_others_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.shared_values._MOST", 32)
    values = SharedValues()
    found = [values.share(template(number)) for number in range(200)]
    assert len({id(each["spec"]) for each in found}) == 1
    assert len(values._known) + len(values._before) <= 64
