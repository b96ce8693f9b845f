"""Fields of pods: those of the API, as a real API server has them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.whatif.openapi_fields import TARGET, fields_of_pods, schemas

from vgpu_scheduler.whatif import unknown_fields


def test_the_fields_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    assert json.loads(TARGET.read_text()) == fields_of_pods(schemas(control_plane))


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}, []),
        ({"sepc": {}}, ["sepc: there is no such field, and it has no effect, did you mean spec?"]),
        ({"spec": {"zzz": 1}}, ["spec.zzz: there is no such field, and it has no effect"]),
        ({"spec": {"containers": "none"}, "metadata": 5}, []),
        ({"metadata": {"labels": {"anything": "goes"}}, "spec": {"nodeSelector": {"anything": "goes"}}}, []),
        (
            {"spec": {"affinity": {"nodeAffinity": {"required": {}}}}},
            ["spec.affinity.nodeAffinity.required: there is no such field, and it has no effect"],
        ),
        ({"status": {"anything": 1}}, []),
    ],
)
def test_what_the_api_does_not_know_is_told(pod: dict[str, Any], says: list[str]) -> None:
    assert list(unknown_fields(pod)) == says
