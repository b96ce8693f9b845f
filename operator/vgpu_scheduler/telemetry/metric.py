"""The definition of a metric: name, type, labels and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class MetricType(Enum):
    """The types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a metric.

    Attributes
    ----------
    name, help
        As Prometheus shows them.
    labels
        Its labels with their possible values; empty if these are not a fixed set.
    of_cluster
        Whether the metric describes the cluster, which all replicas see alike: only the leader shows it, so that sums
        over replicas are right.
    buckets
        The upper bounds of a histogram, in ascending order.
    """

    name: str
    type: MetricType
    help: str
    labels: Mapping[str, tuple[str, ...]]
    of_cluster: bool = False
    buckets: tuple[float, ...] = ()


_NO_LABELS: Final[Mapping[str, tuple[str, ...]]] = {}


def counter(
    name: str, text: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS, *, of_cluster: bool = False
) -> Metric:
    """Return a counter."""
    return Metric(name, MetricType.COUNTER, text, labels, of_cluster)


def gauge(
    name: str, text: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS, *, of_cluster: bool = False
) -> Metric:
    """Return a gauge."""
    return Metric(name, MetricType.GAUGE, text, labels, of_cluster)


def histogram(name: str, text: str, labels: Mapping[str, tuple[str, ...]], first: float, number: int) -> Metric:
    """Return a histogram with ``number`` buckets, each twice the one before it."""
    return Metric(name, MetricType.HISTOGRAM, text, labels, buckets=tuple(first * 2**n for n in range(number)))
