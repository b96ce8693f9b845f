"""What makes the golden cases of groups, on the real API server and kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.conftest import running
from tests.e2e.conftest import OLDER
from tests.golden.group_recorder import FLAGS, Recorder
from tests.golden.kubernetes import cases

pytestmark = pytest.mark.skipif(OLDER, reason="it has no such objects")

ONCE = ("gang", "topology", "basic", "apart", "incomplete", "impossible")
"""Kinds of groups of which the outcome does not hang on chance: their members are alike, or never fit."""


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    for plane in running(ControlPlane(api_flags=FLAGS)):
        with Recorder.running(plane) as found:
            yield found


def test_what_kube_scheduler_does_is_what_the_cases_say(recorder: Recorder) -> None:
    for kind in ONCE:
        found = [case for case in cases("groups") if case["kind"] == kind]
        outcomes = {bool(case["expect"]["bound"]): case for case in found}
        for is_placed, case in outcomes.items():
            world = {key: part for key, part in case.items() if key != "expect"}
            recorded = recorder.record(world)
            assert {**recorded, "expect": case["expect"]} == case
            assert bool(recorded["expect"]["bound"]) is is_placed, case["id"]
