"""Who wrote a field, as the API server notes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vgpu_scheduler.kube import DecodeError, managers_of

STATUS = {"f:status": {"f:conditions": {}, "f:nominatedNodeName": {}}}
FIELD = ("status", "nominatedNodeName")


def entry(manager: str, fields: object) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "subresource": "status", "fieldsV1": fields}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (None, set()),
        ([], set()),
        ([entry("one", STATUS)], {"one"}),
        ([entry("one", STATUS), entry("two", STATUS), entry("three", {"f:status": {}})], {"one", "two"}),
        ([entry("one", None)], set()),
        ([entry("one", {"f:status": "odd"})], set()),
        ([entry("one", {"f:spec": {"f:nominatedNodeName": {}}})], set()),
    ],
)
def test_those_that_wrote_it_are_named(entries: Any, expected: set[str]) -> None:
    pod = {"metadata": {"name": "p", "namespace": "n", "managedFields": entries}}
    assert managers_of(pod, "Pod", *FIELD) == expected
    assert managers_of(json.dumps(pod).encode(), "Pod", *FIELD) == expected


@pytest.mark.parametrize("entries", ["many", [1], [entry("one", "odd")], [{"manager": 5}]])
def test_what_cannot_be_read_is_named(entries: Any) -> None:
    pod = {"metadata": {"name": "p", "namespace": "n", "managedFields": entries}}
    with pytest.raises(DecodeError, match=r"Pod n/p: metadata\.managedFields"):
        managers_of(pod, "Pod", *FIELD)
