"""Stands for a Prometheus that scrapes kube-state-metrics: keeps samples, and answers what it is asked."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import promql_parser as promql
from tests.cli.http_server import Answer, serving

SCRAPED_EVERY = 30.0
_LOOKBACK = 300.0

Labels = tuple[tuple[str, str], ...]
Vector = dict[Labels, float]


@dataclass(frozen=True, slots=True)
class Lived:
    """A pod as kube-state-metrics sees it; times are seconds since the epoch.

    Attributes
    ----------
    requests, init_requests
        What containers ask for, by container and resource as the label has it.
    placed, ended, deleted
        When it was placed, when its containers ended, and when it was deleted; None if never.
    labels
        The labels that are shown, as they are called there.
    cluster
        The cluster, where samples of several are kept.
    """

    name: str
    requests: Mapping[str, Mapping[str, float]]
    created: float
    placed: float | None = None
    ended: float | None = None
    deleted: float | None = None
    node: str = "node-0"
    scheduler: str | None = "vgpu-scheduler"
    priority_class: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, str]] = ()
    init_requests: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    uid: str = ""
    cluster: str = ""

    def shown(self, at: float) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Yield the metrics of one scrape."""
        placed = self.placed is not None and at >= self.placed
        node = self.node if placed else ""
        yield "kube_pod_info", {"node": node, "priority_class": self.priority_class, "created_by_kind": ""}, 1.0
        yield "kube_pod_created", {}, self.created
        if placed and self.placed is not None:
            yield "kube_pod_status_scheduled_time", {}, self.placed
        ended = self.ended is not None and at >= self.ended
        if ended and self.ended is not None:
            yield "kube_pod_completion_time", {}, self.ended
        for phase in ("Pending", "Running", "Succeeded", "Failed"):
            now = "Succeeded" if ended else "Running" if placed else "Pending"
            yield "kube_pod_status_phase", {"phase": phase}, float(phase == now)
        if self.scheduler is not None:
            yield "kube_pod_scheduler", {"name": self.scheduler}, 1.0
        for each in self.tolerations:
            yield "kube_pod_tolerations", each, 1.0
        yield "kube_pod_labels", self.labels, 1.0
        yield "kube_pod_annotations", self.annotations, 1.0
        for kind, containers in (("", self.requests), ("init_", self.init_requests)):
            for container, amounts in containers.items():
                for resource, amount in amounts.items():
                    unit = "core" if resource == "cpu" else "byte" if resource == "memory" else "integer"
                    about = {"container": container, "node": node, "resource": resource, "unit": unit}
                    yield f"kube_pod_{kind}container_resource_requests", about, amount


class Samples:
    """What was scraped, and what queries find in it.

    Parameters
    ----------
    pods
        The pods that were there.
    since, until
        From when to when it was scraped.
    honors
        Whether labels of what is scraped win over those of the target (``honor_labels``).
    limit
        The most samples that a query may load; None for any number.
    """

    def __init__(
        self, pods: Sequence[Lived], since: float, until: float, *, honors: bool = True, limit: int | None = None
    ) -> None:
        self._limit = limit
        self._loaded = 0
        self._series: dict[str, dict[Labels, list[tuple[float, float]]]] = {}
        for pod in pods:
            about = {"namespace": "team", "pod": pod.name, "uid": pod.uid or f"uid-{pod.name}", "job": "ksm"}
            if pod.cluster:
                about["cluster"] = pod.cluster
            last = until if pod.deleted is None else min(until, pod.deleted)
            at = since + SCRAPED_EVERY * max(0, -(-(pod.created - since) // SCRAPED_EVERY))
            while at < last:
                for metric, labels, value in pod.shown(at):
                    shown = {k: v for k, v in {**about, **labels}.items() if v}  # no label is empty
                    if not honors:
                        own = {"namespace": "monitoring", "pod": "ksm-0", "container": "ksm"}
                        shown = {f"exported_{k}" if k in own else k: v for k, v in shown.items()} | own
                    key = tuple(sorted(shown.items()))
                    self._series.setdefault(metric, {}).setdefault(key, []).append((at, value))
                at += SCRAPED_EVERY

    def query(self, text: str, at: float) -> Vector:
        """Return what an expression comes to at a time; LookupError says that it loads too many samples."""
        self._loaded = 0
        return self._evaluate(promql.parse(text), at)

    def _evaluate(self, tree: Any, at: float) -> Vector:
        if isinstance(tree, promql.ParenExpr):
            return self._evaluate(tree.expr, at)
        if isinstance(tree, promql.BinaryExpr):
            return self._set_operation(tree, at)
        if isinstance(tree, promql.AggregateExpr):
            assert str(tree.op) == "min"
            found = self._evaluate(tree.expr, at)
            return {(): min(found.values())} if found else {}
        assert isinstance(tree, promql.Call)
        (argument,) = tree.args
        if tree.func.name == "last_over_time":
            span = argument.range.total_seconds()
            within = {
                key: samples[_after(samples, at - span) : _after(samples, at)]
                for key, samples in self._selected(argument.vector_selector)
            }
            self._loaded += sum(map(len, within.values()))
            if self._limit is not None and self._loaded > self._limit:
                raise LookupError("query processing would load too many samples into memory in query execution")
            return {key: found[-1][1] for key, found in within.items() if found}
        choose = {"max_over_time": max, "min_over_time": min}[tree.func.name]
        return self._times(argument, at, choose)

    def _times(self, subquery: Any, at: float, choose: Callable[[list[float]], float]) -> Vector:
        """Return the greatest or least times of the samples that a subquery of timestamps finds."""
        assert subquery.expr.func.name == "timestamp"
        span, step = subquery.range.total_seconds(), subquery.step.total_seconds()
        (selector,) = subquery.expr.args
        steps = [number * step for number in range(int((at - span) // step) + 1, int(at // step) + 1)]
        found: Vector = {}
        for key, samples in self._selected(selector):
            ends = samples[-1][0] + SCRAPED_EVERY  # where a series ends it is marked as stale
            scraped = [time for time, _ in samples]
            times = [
                scraped[number - 1]
                for when in steps
                if when < ends and (number := bisect_right(scraped, when)) and when - _LOOKBACK < scraped[number - 1]
            ]
            if times:
                found[key] = choose(times)
        return found

    def _set_operation(self, tree: Any, at: float) -> Vector:
        left, right = self._evaluate(tree.lhs, at), self._evaluate(tree.rhs, at)
        if str(tree.op) == "or":
            return {**right, **left}
        assert str(tree.op) == "and"
        assert tree.modifier.matching.labels == ["uid"]
        uids = {dict(key)["uid"] for key in right}
        return {key: value for key, value in left.items() if dict(key)["uid"] in uids}

    def _selected(self, selector: Any) -> Iterator[tuple[Labels, list[tuple[float, float]]]]:
        matchers = [(one.name, re.compile(one.value)) for one in selector.matchers.matchers]
        for key, samples in self._series.get(selector.name, {}).items():
            labels = dict(key)
            if all(pattern.fullmatch(labels.get(name, "")) for name, pattern in matchers):
                yield key, samples


def _after(samples: list[tuple[float, float]], at: float) -> int:
    """Return how many samples are no later than a time."""
    return bisect_right(samples, at, key=lambda each: each[0])


@contextmanager
def prometheus(samples: Samples) -> Iterator[str]:
    """Serve samples; yield the address."""

    def answer(given: dict[str, list[str]]) -> Answer:
        try:
            found = samples.query(given["query"][0], float(given["time"][0]))
        except LookupError as error:
            return 422, json.dumps({"status": "error", "errorType": "execution", "error": str(error)}).encode()
        result = [{"metric": dict(key), "value": [0.0, str(value)]} for key, value in found.items()]
        return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    with serving(answer) as address:
        yield address
