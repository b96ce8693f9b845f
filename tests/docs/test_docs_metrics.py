"""The catalogue of metrics, from which their page is rendered, says what is served."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import Configuration
from prometheus_client.parser import text_string_to_metric_families
from tests.binding.bench import ShiftedClock
from tests.binding.ended import ended_bind
from tests.engine.builders import allocation, asks, cards, engine_with, node, pod

from vgpu_scheduler.apiclient import ApiClient, Credentials
from vgpu_scheduler.binding import (
    BindContext,
    Binder,
    BindingAnswer,
    EventSource,
    Evictor,
    Reporter,
)
from vgpu_scheduler.engine import Engine, ObservationSignals, UsageMeter
from vgpu_scheduler.intake import Observer
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.model import EventReason
from vgpu_scheduler.runtime.metrics import add_metrics, add_preemption, add_relists, add_requests, binder_hooks
from vgpu_scheduler.runtime.pool_metrics import add_pools, add_usage
from vgpu_scheduler.runtime.relist import ListFailure, Relister
from vgpu_scheduler.runtime.replica import binder_options
from vgpu_scheduler.runtime.scheduling import DecisionHandlers, SchedulingLoop
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.telemetry import OTHER, Metrics, catalogue
from vgpu_scheduler.telemetry.catalogue import METRICS
from vgpu_scheduler.telemetry.metric import Metric

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ELSEWHERE = (catalogue.ADMISSION_REVIEWS, catalogue.HISTORY_ROWS, catalogue.HISTORY_FAILURES)
"""Only shown where the webhook is on, or where it is written down what happens."""
BUCKETS = {
    "scheduler_scheduling_attempt_duration_seconds": (0.001, 15),
    "scheduler_scheduling_algorithm_duration_seconds": (0.001, 15),
    "scheduler_pod_scheduling_sli_duration_seconds": (0.01, 20),
    "scheduler_pod_scheduling_attempts": (1, 5),
    "scheduler_framework_extension_point_duration_seconds": (0.0001, 12),
}
"""kube-scheduler 1.36.3: the first bucket and how many there are, each twice as large as the one before."""

Seen = dict[str, dict[str, Any]]


class Lease:
    """Whether it is held."""

    def __init__(self, *, leading: bool) -> None:
        self.leading = leading


def shown(engine: Engine, *, leading: bool = True) -> Iterator[Any]:
    """Yield the families that a busy operator shows."""
    metrics, clock, nobody = Metrics(), ShiftedClock(), None
    reporter = Reporter(nobody, EventSource("s", "i"), clock)  # type: ignore[arg-type]
    context = BindContext(nobody, engine, reporter, clock, lambda _: True, lambda _: None)  # type: ignore[arg-type]
    hooks = binder_hooks(metrics.attempts)
    binder = Binder(context, binder_options(Settings(), label_first=False), hooks)
    observer = Observer(engine, clock.monotonic, ObservationSignals(), reporter.problem)
    add_metrics(metrics, engine, binder, reporter, observer, Lease(leading=leading))  # type: ignore[arg-type]
    evictor = Evictor(context, 5.0, binder.cancel_unsent)
    add_preemption(metrics, engine, evictor)
    add_pools(metrics, engine, 100, clock.monotonic)
    meter = UsageMeter(engine.state, engine.dialects, 100, OTHER)
    meter.start(0.0)
    add_usage(metrics, meter, clock.monotonic)
    api = ApiClient(Credentials(Configuration(host="https://10.0.0.1:6443")), "test")
    api.answers["GET", "200"] += 1
    add_requests(metrics, api)
    relister = Relister(api, engine, observer, 300.0)
    relister._failures["Node"] = ListFailure("/api/v1/nodes", "403", "no")
    add_relists(metrics, relister)
    observer.stats.problems["Pod", EventReason.ALLOCATION_UNREADABLE] += 1
    loop = SchedulingLoop(
        engine, DecisionHandlers(binder, evictor, reporter), clock, metrics.attempts, ObservationSignals()
    )
    asking = pod("x", asks(1, 9000))
    engine.observe_pod(asking, 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    loop._record(decision, 0.0002)
    metrics.attempts.preempted(2)
    engine.closed_nodes.kubelet_rejections.counts["OutOfcpu"] += 1
    hooks.on_answer(asking, BindingAnswer.BOUND, 0.002)
    hooks.on_attempt(ended_bind(asking, "a", 14, 0.0, 1.0, 1.0, 1.0, 1.02), asking, BindingAnswer.CONFLICT)
    hooks.on_attempt(ended_bind(asking, "a", 15, 0.0, 2.0, 2.0, 2.0, 3.0), asking, BindingAnswer.BOUND)
    yield from text_string_to_metric_families(metrics.render().decode())


def families(*, leading: bool = True) -> Seen:
    """Return labels and buckets of all families, by the name that is scraped."""
    held = pod("held", annotations=allocation("a", ("a-gpu-0", 1000, 0)), nodeName="a")
    engine = engine_with([node("a", cards("a", 1))], [held])
    engine.quota_limits.observe(ResourceQuota("default", "q", {"limits.nvidia.com/gpumem": "2500"}))
    found: Seen = {}
    for family in shown(engine, leading=leading):
        if family.name.startswith("process_") or family.name.endswith("_created"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = {
            "type": family.type,
            "labels": labels,
            "buckets": {s.labels["le"] for s in family.samples if "le" in s.labels},
        }
    return found


async def test_every_metric_is_served_as_the_catalogue_says_and_no_other() -> None:
    told = {metric.name: (metric.type.value, set(metric.labels)) for metric in METRICS if metric not in ELSEWHERE}
    assert told == {name: (seen["type"], seen["labels"]) for name, seen in families().items()}


async def test_labels_have_the_values_that_the_catalogue_lists() -> None:
    known = {metric.name: metric for metric in METRICS}
    engine = engine_with([node("a", cards("a", 1))], [])
    for family in shown(engine):
        metric = known.get(f"{family.name}_total" if family.type == "counter" else family.name)
        for label, values in metric.labels.items() if metric else ():
            given = {sample.labels[label] for sample in family.samples}
            assert not values or given <= set(values), (family.name, label)


def test_the_catalogue_lists_all_of_its_metrics_once_and_the_page_has_each() -> None:
    declared = [value for value in vars(catalogue).values() if isinstance(value, Metric)]
    assert declared == list(METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE) == [(m.name, m.type.value) for m in METRICS]


async def test_buckets_are_those_of_kube_scheduler() -> None:
    seen = families()
    for name, (first, number) in BUCKETS.items():
        bounds = sorted(float(bound) for bound in seen[name]["buckets"])[:-1]
        assert len(bounds) == number, name
        assert all(abs(bound / (first * 2**n) - 1) < 1e-9 for n, bound in enumerate(bounds)), name


async def test_attempts_are_labelled_as_kube_scheduler_labels_them() -> None:
    engine = engine_with([node("a", cards("a", 1))], [])
    samples = {(s.name, *sorted(s.labels.items())): s.value for family in shown(engine) for s in family.samples}
    profile = ("profile", "vgpu-scheduler")
    assert samples["scheduler_schedule_attempts_total", profile, ("result", "error")] == 1
    assert samples["scheduler_schedule_attempts_total", profile, ("result", "unschedulable")] == 1
    assert samples["scheduler_pod_scheduling_sli_duration_seconds_count", ("attempts", "15+")] == 1
    assert samples["scheduler_unschedulable_pods", ("plugin", "CardInsufficientMemory"), profile] == 1
    assert samples["scheduler_pending_pods", ("queue", "unschedulable")] == 1
    incoming = "scheduler_queue_incoming_pods_total"
    assert samples[incoming, ("event", "UnschedulablePodAdd"), ("queue", "active")] == 1
    assert samples[incoming, ("event", "ScheduleAttemptFailure"), ("queue", "unschedulable")] == 1
    assert samples["scheduler_cache_size", ("type", "nodes")] == 1
    assert samples[
        "scheduler_framework_extension_point_duration_seconds_count", ("extension_point", "Bind"), profile,
        ("status", "Success"),
    ] == 1  # fmt: skip


async def test_what_is_of_the_cluster_is_shown_by_the_leader_alone() -> None:
    marked = re.findall(r"^\| `(\w+)`.*\(leader\) \|$", PAGE, re.MULTILINE)
    assert families().keys() - families(leading=False).keys() == set(marked)
    assert {metric.name for metric in METRICS if metric.of_cluster} == set(marked)
    assert len(marked) == 26


async def test_problems_are_counted_from_zero_on_for_every_reason() -> None:
    engine = engine_with([node("a", cards("a", 1))], [])
    (family,) = (family for family in shown(engine) if family.name == "vgpu_scheduler_problems")
    seen = {(s.labels["kind"], s.labels["reason"]): s.value for s in family.samples if s.name.endswith("_total")}
    assert {reason for _, reason in seen} == set(catalogue.PROBLEMS.labels["reason"])
    assert seen.pop(("pod", "AllocationUnreadable")) == 1
    assert set(seen.values()) == {0}


async def test_pods_whose_allocation_cannot_be_read_are_counted_while_they_are_there() -> None:
    engine = engine_with([node("a", cards("a", 1))], [])
    held = {"hami.io/vgpu-devices-allocated": "nonsense"}
    engine.observe_pod(pod("bad", asks(1, 1000), nodeName="a", started=True, annotations=held), 0.0)
    assert _value(engine, "vgpu_scheduler_unreadable_pods") == 1
    engine.remove_pod("uid-bad", 1.0)
    assert _value(engine, "vgpu_scheduler_unreadable_pods") == 0


def _value(engine: Engine, name: str) -> float:
    return next(sample.value for family in shown(engine) for sample in family.samples if sample.name == name)
