"""Metrics: kube-scheduler's stable names where they say the same, our own prefix for the rest.

What other rooms count in plain integers is read when Prometheus asks; only durations are recorded as they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

_ATTEMPT_BUCKETS = tuple(0.0001 * 2**n for n in range(15))
_SLI_BUCKETS = tuple(0.01 * 2**n for n in range(20))

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that is read when asked for.

    Attributes
    ----------
    name, help
        As Prometheus shows them; a name that ends in ``_total`` is a counter.
    read
        Returns the values by their labels.
    """

    name: str
    help: str
    read: Callable[[], Iterable[tuple[Labels, float]]]


class Attempts:
    """Scheduling attempts, under kube-scheduler's names."""

    def __init__(self, registry: CollectorRegistry, profile: str) -> None:
        self._profile = profile
        self._duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of a scheduling attempt: the decision, without the binding.",
            ["result", "profile"],
            buckets=_ATTEMPT_BUCKETS,
            registry=registry,
        )
        self._sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's coming to its binding.",
            ["attempts"],
            buckets=_SLI_BUCKETS,
            registry=registry,
        )
        self._counts: dict[str, int] = {}

    def attempted(self, result: str, seconds: float) -> None:
        """Record an attempt: scheduled, unschedulable or error."""
        self._duration.labels(result, self._profile).observe(seconds)
        self._counts[result] = self._counts.get(result, 0) + 1

    def scheduled(self, attempts: int, seconds: float) -> None:
        """Record that a pod was bound, so long after it came."""
        self._sli.labels(str(min(attempts, 16))).observe(seconds)

    def totals(self) -> Iterator[tuple[Labels, float]]:
        """Return how many attempts came to each result."""
        for result, count in sorted(self._counts.items()):
            yield {"result": result, "profile": self._profile}, count


class _Reader(Collector):
    def __init__(self, gauges: list[Gauge]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for gauge in self._gauges:
            values = list(gauge.read())
            labels = sorted(values[0][0]) if values else []
            counter = gauge.name.endswith("_total")
            family = (CounterMetricFamily if counter else GaugeMetricFamily)(gauge.name, gauge.help, labels=labels)
            for where, value in values:
                family.add_metric([where[label] for label in labels], value)
            yield family


class Metrics:
    """The operator's metrics.

    Parameters
    ----------
    profile
        The scheduler name, kube-scheduler's label of that name.
    """

    def __init__(self, profile: str) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._gauges: list[Gauge] = []
        self.attempts = Attempts(self._registry, profile)
        self.add("scheduler_schedule_attempts_total", "Attempts to schedule pods.", self.attempts.totals)
        self._registry.register(_Reader(self._gauges))

    def add(self, name: str, text: str, read: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        """Add a number that is read when asked for."""
        self._gauges.append(Gauge(name, text, read))

    def add_number(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a number without labels."""
        self.add(name, text, lambda: [({}, read())])

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
