"""Metrics: kube-scheduler's stable names where they say the same, our own prefix for the rest.

What other rooms count in plain integers is read when Prometheus asks; only durations are recorded as they happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

_ATTEMPT_BUCKETS = tuple(0.001 * 2**n for n in range(15))
_DECISION_BUCKETS = tuple(0.00005 * 2**n for n in range(14))
_POINT_BUCKETS = tuple(0.0001 * 2**n for n in range(12))
_SLI_BUCKETS = tuple(0.01 * 2**n for n in range(20))
_TRIES_BUCKETS = tuple(float(2**n) for n in range(5))
_MANY_TRIES = 15
"""Attempts from which on pods have one label together, as kube-scheduler's have."""

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
    of_cluster
        It says something of the cluster, which all replicas know alike: only the leader shows it, so that sums over
        replicas are right.
    """

    name: str
    help: str
    read: Callable[[], Iterable[tuple[Labels, float]]]
    of_cluster: bool = False


class Attempts:
    """Scheduling attempts, under kube-scheduler's names, with its labels and buckets.

    Parameters
    ----------
    registry
        Where they are shown.

    Notes
    -----
    The profile is the scheduler name that a pod gives. An attempt ends with the decision where no node was found, else
    with the answer to the Binding.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of a scheduling attempt: the decision, and the binding where there is one.",
            ["result", "profile"],
            buckets=_ATTEMPT_BUCKETS,
            registry=registry,
        )
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time of a decision.",
            buckets=_ATTEMPT_BUCKETS,
            registry=registry,
        )
        self._decision = Histogram(
            "vgpu_scheduler_decision_duration_seconds",
            "Time of a decision, in buckets that are fine enough for it.",
            buckets=_DECISION_BUCKETS,
            registry=registry,
        )
        self._tries = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was bound.",
            buckets=_TRIES_BUCKETS,
            registry=registry,
        )
        self._sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's coming to its binding.",
            ["attempts"],
            buckets=_SLI_BUCKETS,
            registry=registry,
        )
        self._points = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of an extension point; there is Bind, the write of the Binding until its outcome is known.",
            ["extension_point", "status", "profile"],
            buckets=_POINT_BUCKETS,
            registry=registry,
        )
        self._counts: Counter[tuple[str, str]] = Counter()

    def decided(self, seconds: float) -> None:
        """Record a decision, whatever it was."""
        self._algorithm.observe(seconds)
        self._decision.observe(seconds)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Record the end of an attempt: scheduled, unschedulable or error."""
        self._duration.labels(result, profile).observe(seconds)
        self._counts[result, profile] += 1

    def scheduled(self, attempts: int, seconds: float) -> None:
        """Record that a pod was bound, so long after it came."""
        self._tries.observe(attempts)
        self._sli.labels(f"{_MANY_TRIES}+" if attempts >= _MANY_TRIES else str(attempts)).observe(seconds)

    def answered(self, status: str, profile: str, seconds: float) -> None:
        """Record that the outcome of a Binding is known: ``Success`` or ``Error``."""
        self._points.labels("Bind", status, profile).observe(seconds)

    def totals(self) -> Iterator[tuple[Labels, float]]:
        """Return how many attempts came to each result."""
        for (result, profile), count in sorted(self._counts.items()):
            yield {"result": result, "profile": profile}, count


class _Reader(Collector):
    def __init__(self, gauges: Callable[[], Iterable[Gauge]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for gauge in self._gauges():
            values = list(gauge.read())
            labels = sorted(values[0][0]) if values else []
            counter = gauge.name.endswith("_total")
            family = (CounterMetricFamily if counter else GaugeMetricFamily)(gauge.name, gauge.help, labels=labels)
            for where, value in values:
                family.add_metric([where[label] for label in labels], value)
            yield family


class Metrics:
    """The operator's metrics.

    Attributes
    ----------
    leads
        Whether this process leads.
    """

    def __init__(self) -> None:
        self.leads: Callable[[], bool] = lambda: False
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._gauges: list[Gauge] = []
        self.attempts = Attempts(self._registry)
        self.add("scheduler_schedule_attempts_total", "Attempts to schedule pods.", self.attempts.totals)
        self._registry.register(_Reader(self._shown))

    def add(
        self, name: str, text: str, read: Callable[[], Iterable[tuple[Labels, float]]], *, of_cluster: bool = False
    ) -> None:
        """Add a number that is read when asked for; see :class:`Gauge`."""
        self._gauges.append(Gauge(name, text, read, of_cluster))

    def add_number(self, name: str, text: str, read: Callable[[], float], *, of_cluster: bool = False) -> None:
        """Add a number without labels."""
        self.add(name, text, lambda: [({}, read())], of_cluster=of_cluster)

    def _shown(self) -> list[Gauge]:
        leads = self.leads()
        return [gauge for gauge in self._gauges if leads or not gauge.of_cluster]

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
