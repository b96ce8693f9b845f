"""Metrics of card models and namespaces, summed so that even the largest cluster has few series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from vgpu_scheduler.dialects.hami import HAMI_ZONE
from vgpu_scheduler.engine import RESOURCES, Engine, UsageMeter, held_by_namespace, pools
from vgpu_scheduler.model import GIB
from vgpu_scheduler.telemetry import Metrics, Value, bounded, catalogue

_OF_AMOUNTS: Final = (
    catalogue.CARDS_CAPACITY,
    catalogue.CARDS_ALLOCATABLE,
    catalogue.CARDS_ALLOCATED,
    catalogue.CARDS_FREE,
)
"""The metrics in the order of the fields of :class:`PoolAmounts`."""
_OF_CARDS: Final = (catalogue.CARDS, *_OF_AMOUNTS)
_OF_NAMESPACES: Final = (
    catalogue.NAMESPACE_ALLOCATED,
    catalogue.WAITING_PODS,
    catalogue.OLDEST_WAITING,
    catalogue.QUOTA_USED,
    catalogue.QUOTA_LIMIT,
)
_OF_USAGE: Final = (catalogue.ALLOCATED_GIBIBYTE_SECONDS, catalogue.ALLOCATED_CARD_SECONDS)


def add_pools(metrics: Metrics, engine: Engine, label_values: int, now: Callable[[], float]) -> None:
    """Register the metrics of card models and namespaces.

    Parameters
    ----------
    label_values
        The most models, and the most namespaces, that have series of their own.
    now
        The clock of the queue (seconds).
    """
    metrics.add_together(_OF_CARDS, lambda: _of_cards(engine, label_values))
    metrics.add_together(_OF_NAMESPACES, lambda: _of_namespaces(engine, label_values, now()))


def add_usage(metrics: Metrics, meter: UsageMeter, now: Callable[[], float]) -> None:
    """Register the metrics of what namespaces have held of card models over time.

    Parameters
    ----------
    now
        The clock of the meter (seconds).
    """
    metrics.add_together(_OF_USAGE, lambda: _of_usage(meter, now()))


def _of_usage(meter: UsageMeter, now: float) -> Iterator[Value]:
    meter.advance(now)
    for namespace, model, byte_seconds, card_seconds in meter.metered():
        labels = {"namespace": namespace, "model": model}
        yield catalogue.ALLOCATED_GIBIBYTE_SECONDS, labels, byte_seconds / GIB
        yield catalogue.ALLOCATED_CARD_SECONDS, labels, card_seconds


def _of_cards(engine: Engine, label_values: int) -> Iterator[Value]:
    found = pools(engine.state, engine.dialects)
    ranks: Counter[str] = Counter()
    for pool in found:
        ranks[pool.model] += sum(pool.cards.values())
    shown = bounded(ranks, label_values)

    def values() -> Iterator[Value]:
        for pool in found:
            labels = {"dialect": pool.dialect, "model": shown(pool.model)}
            for state, count in pool.cards.items():
                yield catalogue.CARDS, {**labels, "state": state}, count
            for resource, amounts in pool.amounts.items():
                for metric, value in zip(_OF_AMOUNTS, amounts, strict=True):
                    yield metric, {**labels, **_unit(resource)}, value

    return _added_up(values())


def _unit(resource: str) -> dict[str, str]:
    return {"resource": resource, "unit": RESOURCES[resource]}


def _added_up(values: Iterable[Value]) -> Iterator[Value]:
    """Yield each series once: names that share one label value are summed, or for ages the largest is taken."""
    found: dict[tuple[str, ...], Value] = {}
    for metric, labels, value in values:
        key = (metric.name, *labels.values())
        before = found[key][2] if key in found else 0.0
        together = max(before, value) if metric is catalogue.OLDEST_WAITING else before + value
        found[key] = (metric, labels, together)
    yield from found.values()


def _of_namespaces(engine: Engine, label_values: int, now: float) -> Iterator[Value]:
    held = held_by_namespace(engine.state, engine.dialects)
    waiting = _waiting(engine, now)
    quotas = list(engine.quota_limits.report(engine.state))
    ranks = dict.fromkeys([*waiting, *(report.namespace for report in quotas)], 0.0)
    for (namespace, _), amounts in held.items():
        ranks[namespace] = ranks.get(namespace, 0.0) + amounts["memory"]
    shown = bounded(ranks, label_values)

    def values() -> Iterator[Value]:
        for (namespace, dialect), amounts in held.items():
            for resource, value in amounts.items():
                labels = {"dialect": dialect, "namespace": shown(namespace), **_unit(resource)}
                yield catalogue.NAMESPACE_ALLOCATED, labels, value
        for namespace, ages in waiting.items():
            yield catalogue.WAITING_PODS, {"namespace": shown(namespace)}, len(ages)
            yield catalogue.OLDEST_WAITING, {"namespace": shown(namespace)}, max(ages)
        # HAMi's names, without its label for the limit: each change of a limit would create a new series.
        for report in quotas:
            labels = {"namespace": shown(report.namespace), "quota_name": report.resource, **HAMI_ZONE}
            yield catalogue.QUOTA_USED, labels, report.used
            yield catalogue.QUOTA_LIMIT, labels, report.limit

    return _added_up(values())


def _waiting(engine: Engine, now: float) -> dict[str, list[float]]:
    """Return the waiting times (seconds) of the queued pods of each namespace."""
    found: dict[str, list[float]] = {}
    for uid, came in engine.queue.waiting_since():
        pod = engine.state.pod(uid)
        if pod is not None:
            found.setdefault(pod.namespace, []).append(now - came)
    return found
