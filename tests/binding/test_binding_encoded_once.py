"""What was measured against the limits when a pod was decided is what its Binding writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.binding.quick import QuickBench
from tests.engine.builders import asks

from vgpu_scheduler.dialects.hami.allocation import HamiAllocation
from vgpu_scheduler.engine import algorithm
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import DECISION


async def test_annotations_are_encoded_once_and_sent_with_the_time_of_the_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded, measured, encode = 0, list[Mapping[str, str]](), HamiAllocation.annotations

    def counted(*about: Any) -> dict[str, str]:
        nonlocal encoded
        encoded += 1
        return encode(*about)

    def noted(_: Pod, annotations: Mapping[str, str]) -> str:
        measured.append(annotations)
        return ""

    monkeypatch.setattr(HamiAllocation, "annotations", counted)
    monkeypatch.setattr(algorithm, "metadata_problem", noted)
    bench = QuickBench()
    decision = bench.decide("p", asks(1, 1000))
    assert decision.placement is not None
    bench.binder.submit(decision)
    await bench.until(lambda: bench.binder.stats.bound)
    await bench.binder.stop(0.0)
    written: dict[str, str] = bench.api.pods["p"]["metadata"]["annotations"]
    (expected,) = measured
    assert encoded == 1
    assert written.keys() - {DECISION} == expected.keys()
    now = str(int(bench.clock.now().timestamp()))
    changed = {name for name in expected if written[name] != expected[name]}
    assert {written[name] for name in changed} == {now}
    assert changed == {"hami.io/vgpu-time", "hami.io/bind-time"}
    assert {type(value) for value in bench.engine.dialects.annotations(decision.placement, 1.0).values()} == {str}


async def test_a_pod_that_has_changed_since_is_encoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    about: list[int] = []
    encode = HamiAllocation.annotations

    def noted(dialect: HamiAllocation, placement: Any, unix_time: float, pod: Pod) -> dict[str, str]:
        about.append(pod.resource_version)
        return encode(dialect, placement, unix_time, pod)

    monkeypatch.setattr(HamiAllocation, "annotations", noted)
    bench = QuickBench()
    bench.binder.submit(bench.decide("p", asks(1, 1000)))
    bench.api.pods["p"]["metadata"]["labels"]["new"] = "label"
    bench.see_pod("p")
    await bench.until(lambda: bench.binder.stats.bound)
    await bench.binder.stop(0.0)
    assert about[-1] > about[0]
