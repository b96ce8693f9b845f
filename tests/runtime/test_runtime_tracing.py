"""Traces of pods: what a collector is sent."""

from __future__ import annotations

import sys

import pytest
from tests.binding.bench import ShiftedClock
from tests.binding.ended import ended_bind
from tests.engine.builders import asks, pod
from tests.runtime.collector import collecting

from vgpu_scheduler.binding import BindingAnswer, BindTask
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime.tracing import pod_traces
from vgpu_scheduler.settings import SettingsError, TracingSettings


def attempt(answer: BindingAnswer, began: float) -> tuple[BindTask, Pod, BindingAnswer]:
    times = (began, began + 1, began + 1.5, began + 1.75, began + 2)
    asking = pod("x", asks(1, 9000))
    return ended_bind(asking, "a", 3, *times), asking, answer


async def test_each_attempt_is_a_trace_with_a_span_for_each_part() -> None:
    clock = ShiftedClock()
    async with collecting() as (collector, url):
        traces = pod_traces(TracingSettings(endpoint=url), clock)
        assert traces is not None
        began = clock.monotonic() - 60
        traces.record(*attempt(BindingAnswer.CONFLICT, began))
        traces.record(*attempt(BindingAnswer.BOUND, began))
        await traces.close()
    spans = collector.spans["/v1/traces"]
    refused, bound = (span for span in spans if not span["parent"])
    assert (bound["name"], bound["k8s.pod.name"], bound["k8s.node.name"]) == ("Schedule pod", "x", "a")
    assert (bound["vgpu_scheduler.attempts"], bound["vgpu_scheduler.answer"]) == (3, "bound")
    assert (refused["error"], bound["error"]) == ("conflict", "")
    assert abs(bound["began"] - (clock.now().timestamp() - 60)) < 1
    parts = [span for span in spans if span["parent"] == bound["id"]]
    assert {span["trace"] for span in parts} == {bound["trace"]} != {refused["trace"]}
    assert {span["name"]: round(span["seconds"], 3) for span in parts} == {
        "Wait in scheduling queue": 1.0,
        "Wait for turn at node": 0.5,
        "Take node lock": 0.25,
        "Send Binding": 0.25,
    }
    assert round(bound["seconds"], 3) == 2.0
    assert collector.services == {"vgpu-scheduler"}


async def test_a_path_is_kept_and_only_a_part_of_the_pods_is_traced() -> None:
    async with collecting() as (collector, url):
        settings = TracingSettings(endpoint=f"{url}/team/traces", sampling_rate_per_million=200_000)
        traces = pod_traces(settings, ShiftedClock())
        assert traces is not None
        for _ in range(200):
            traces.record(*attempt(BindingAnswer.BOUND, 0.0))
        await traces.close()
    roots = [span for span in collector.spans["/team/traces"] if not span["parent"]]
    assert 10 <= len(roots) <= 80  # 40 on average, six standard deviations to each side are more than this
    assert len(collector.spans["/team/traces"]) == 5 * len(roots)


async def test_a_collector_that_is_not_there_holds_nothing_up() -> None:
    traces = pod_traces(TracingSettings(endpoint="http://127.0.0.1:9"), ShiftedClock())
    assert traces is not None
    traces.record(*attempt(BindingAnswer.BOUND, 0.0))
    await traces.close()


def test_without_an_endpoint_there_are_no_traces() -> None:
    assert pod_traces(TracingSettings(), ShiftedClock()) is None


def test_without_the_packages_it_is_said_which_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"tracing\.endpoint: traces need the extra vgpu-scheduler\[tracing\]"):
        pod_traces(TracingSettings(endpoint="http://collector:4318"), ShiftedClock())
