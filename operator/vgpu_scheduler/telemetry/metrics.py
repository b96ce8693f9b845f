"""Prometheus metrics; :mod:`vgpu_scheduler.telemetry.catalogue` defines them.

Counts that other rooms keep as plain integers are read at each scrape; only durations are recorded as they happen.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from vgpu_scheduler.apiclient import guarded
from vgpu_scheduler.telemetry import catalogue
from vgpu_scheduler.telemetry.metric import Metric, MetricType

log = logging.getLogger(__name__)

_MANY_TRIES = 15
"""Attempts from which on pods share one label value, as in kube-scheduler."""

Labels = Mapping[str, str]
Value = tuple[Metric, Labels, float]
"""A metric with labels and a value."""


class AttemptMetrics:
    """Scheduling attempts, with kube-scheduler's names, labels and buckets; recording never raises.

    Parameters
    ----------
    registry
        The registry that shows them.

    Notes
    -----
    The profile is the pod's scheduler name. An attempt ends with the decision if no node was found, else with the
    answer to the Binding.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(metric: Metric) -> Histogram:
            return Histogram(metric.name, metric.help, list(metric.labels), buckets=metric.buckets, registry=registry)

        self._duration = histogram(catalogue.ATTEMPT_DURATION)
        self._algorithm = histogram(catalogue.ALGORITHM_DURATION)
        self._decision = histogram(catalogue.DECISION_DURATION)
        self._tries = histogram(catalogue.POD_ATTEMPTS)
        self._sli = histogram(catalogue.POD_SLI)
        self._points = histogram(catalogue.EXTENSION_POINT)
        self._victims = histogram(catalogue.PREEMPTION_VICTIMS)
        self._groups = histogram(catalogue.GROUP_DURATION)
        self._counts: Counter[tuple[str, str]] = Counter()

    @guarded
    def preempted(self, victims: int) -> None:
        """Record the number of victims of a preemption."""
        self._victims.observe(victims)

    @guarded
    def decided(self, seconds: float) -> None:
        """Record the duration of a decision, whatever its outcome."""
        self._algorithm.observe(seconds)
        self._decision.observe(seconds)

    @guarded
    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Record the end of an attempt: scheduled, unschedulable or error."""
        self._duration.labels(result, profile).observe(seconds)
        self._counts[result, profile] += 1

    @guarded
    def scheduled(self, attempts: int, seconds: float) -> None:
        """Record that a pod was bound, with its attempts and the seconds since it arrived."""
        self._tries.observe(attempts)
        self._sli.labels(f"{_MANY_TRIES}+" if attempts >= _MANY_TRIES else str(attempts)).observe(seconds)

    @guarded
    def answered(self, status: str, profile: str, seconds: float) -> None:
        """Record the outcome of a Binding: ``Success`` or ``Error``."""
        self._points.labels("Bind", status, profile).observe(seconds)

    @guarded
    def group_whole(self, seconds: float) -> None:
        """Record that a group's minimum is bound, with the seconds since its first pod arrived."""
        self._groups.observe(seconds)

    def totals(self) -> Iterator[tuple[Labels, float]]:
        """Yield the number of attempts by result and profile."""
        for (result, profile), count in sorted(self._counts.items()):
            yield {"result": result, "profile": profile}, count


@dataclass(frozen=True, eq=False)
class _Filled(Collector):
    """Metrics whose values are read together at each scrape.

    Attributes
    ----------
    read
        Returns the values with their labels.
    leads
        Tells whether this process leads.
    """

    metrics: Sequence[Metric]
    read: Callable[[], Iterable[Value]]
    leads: Callable[[], bool]

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for metric in self.metrics:
            make = CounterMetricFamily if metric.type is MetricType.COUNTER else GaugeMetricFamily
            yield make(metric.name, metric.help, labels=list(metric.labels))

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        shown = [metric for metric in self.metrics if self.leads() or not metric.of_cluster]
        if not shown:
            return
        families = dict(zip((metric.name for metric in self.metrics), self.describe(), strict=True))
        try:
            for metric, where, value in self.read():
                families[metric.name].add_metric([where[label] for label in metric.labels], value)
        except Exception:  # leave these metrics out, and show all others
            log.exception("metric %s cannot be read", ", ".join(families))
            return
        yield from (families[metric.name] for metric in shown)


class Metrics:
    """The operator's metrics.

    Attributes
    ----------
    leads
        Whether this process leads.
    """

    def __init__(self) -> None:
        self.leads: Callable[[], bool] = lambda: False
        self._registry = CollectorRegistry(
            auto_describe=True
        )  # a collector that does not describe itself is collected once to get its names
        ProcessCollector(registry=self._registry)
        self.attempts = AttemptMetrics(self._registry)
        self.add(catalogue.ATTEMPTS, self.attempts.totals)

    def add(self, metric: Metric, read: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        """Register a metric whose values are read at each scrape."""
        self.add_together([metric], lambda: ((metric, labels, value) for labels, value in read()))

    def add_together(self, metrics: Sequence[Metric], read: Callable[[], Iterable[Value]]) -> None:
        """Register metrics whose values are read together, because they come from the same computation."""
        self._registry.register(_Filled(metrics, read, self._is_leading))

    def _is_leading(self) -> bool:
        return self.leads()

    def add_number(self, metric: Metric, read: Callable[[], float]) -> None:
        """Register a metric without labels."""
        self.add(metric, lambda: [({}, read())])

    def render(self, names: Collection[str] = ()) -> bytes:
        """Return metrics in Prometheus' text format: those with the given names, or all."""
        return generate_latest(self._registry.restricted_registry(names) if names else self._registry)


OTHER: Final = "other"
"""The label value of names without a series of their own."""


def bounded(ranks: Mapping[str, float], most: int) -> Callable[[str], str]:
    """Return a function that maps a name to a label value: its own for the first names, a common one for the rest.

    Parameters
    ----------
    ranks
        The rank of each name; the names with the highest ranks are shown, in order of name among equals.
    most
        The most names with a label value of their own.
    """
    if len(ranks) <= most:
        return lambda name: name
    own = frozenset(sorted(ranks, key=lambda name: (-ranks[name], name))[:most])
    return lambda name: name if name in own else OTHER
