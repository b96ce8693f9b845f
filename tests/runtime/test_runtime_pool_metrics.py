"""Series of models and namespaces: how many there are at most, and that nothing is lost in the rest."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.engine.builders import asks, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.runtime.pool_metrics import add_pools
from vgpu_scheduler.telemetry import OTHER, Metrics, catalogue

GREATEST = {catalogue.OLDEST_WAITING.name}
"""Of what is under the other values the greatest counts, and not the sum."""
CLUSTERS = 60
NAMES = [
    metric.name for metric in catalogue.METRICS if metric.of_cluster and metric.labels.keys() & {"model", "namespace"}
]


def cluster(seed: int) -> tuple[Engine, float]:
    """Return a cluster of several models and namespaces, in which some pods wait and some namespaces have quotas."""
    rng = np.random.default_rng(seed)
    models = [f"NVIDIA-{letter}{rng.integers(10)}" for letter in "ABCDEFG"[: int(rng.integers(1, 8))]]
    nodes = [node(f"n{n}", cards(f"n{n}", int(rng.integers(1, 5)), type=str(rng.choice(models)))) for n in range(6)]
    engine = engine_with(nodes, [])
    namespaces = [f"team-{n}" for n in range(int(rng.integers(1, 9)))]
    for number in range(40):
        asked = asks(1, int(rng.choice([500, 2000, 7000, 9000])), int(rng.choice([0, 20])))
        engine.observe_pod(pod(f"p{number}", asked, namespace=str(rng.choice(namespaces))), float(number))
    for namespace in namespaces:
        if rng.random() < 0.5:
            quota = {"limits.nvidia.com/gpumem": str(rng.integers(0, 30000))}
            engine.quota_limits.observe(ResourceQuota(namespace, "q", quota))
    while engine.attempt(50.0) is not None:
        pass
    return engine, 100.0


Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scrape(engine: Engine, now: float, label_values: int) -> Series:
    """Return the values of all series by name and labels."""
    metrics = Metrics()
    metrics.leads = lambda: True
    add_pools(metrics, engine, label_values, lambda: now)
    found: Series = defaultdict(dict)
    for family in text_string_to_metric_families(metrics.render(NAMES).decode()):
        for sample in family.samples:
            key = tuple(sorted(sample.labels.items()))
            assert key not in found[family.name]
            found[family.name][key] = sample.value
    return found


def folded(series: Series, label: str) -> dict[Any, float]:
    """Take a label away from all series that have it."""
    found: dict[Any, list[float]] = defaultdict(list)
    for name, samples in series.items():
        for labels, value in samples.items():
            if label in dict(labels):
                found[name, tuple(pair for pair in labels if pair[0] != label)].append(value)
    return {key: max(values) if key[0] in GREATEST else sum(values) for key, values in found.items()}


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_labels_have_no_more_values_than_the_setting_says_and_the_rest_is_summed(seed: int) -> None:
    engine, now = cluster(seed)
    everything = scrape(engine, now, 1000)
    for most in (0, 1, 3):
        some = scrape(engine, now, most)
        assert some.keys() == everything.keys()
        for label in ("model", "namespace"):
            assert folded(some, label) == pytest.approx(folded(everything, label))
            values = {
                value for samples in some.values() for labels in samples for name, value in labels if name == label
            }
            assert len(values - {OTHER}) <= most
            for name, samples in some.items():
                for labels, value in samples.items():
                    if dict(labels).get(label, OTHER) != OTHER:
                        assert everything[name][labels] == value


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_waiting_pods_and_quotas_are_told_by_namespace(seed: int) -> None:
    engine, now = cluster(seed)
    series = scrape(engine, now, 1000)
    came: dict[str, list[float]] = defaultdict(list)
    for waiting in engine.state.pods():
        if engine.state.reservation(waiting.uid) is None:
            came[waiting.namespace].append(float(waiting.name.removeprefix("p")))
    held = defaultdict(int)
    for reservation in engine.state.reservations():
        held[reservation.namespace] += sum(a[1] for use in reservation.uses.values() for a in use.charges.values())
    told = {dict(labels)["namespace"]: value for labels, value in series[catalogue.WAITING_PODS.name].items()}
    trying = {reservation.namespace for reservation in engine.state.reservations()}
    assert {name: len(listed) for name, listed in came.items() if name not in trying} == {
        name: value for name, value in told.items() if name not in trying
    }
    for labels, value in series[catalogue.QUOTA_USED.name].items():
        assert value == held[dict(labels)["namespace"]]
    memory = {
        dict(labels)["namespace"]: value / 2**20
        for labels, value in series[catalogue.NAMESPACE_ALLOCATED.name].items()
        if dict(labels)["resource"] == "memory"
    }
    assert memory == {name: amount for name, amount in held.items() if amount}


def test_the_longest_wait_is_that_of_the_pod_that_came_first() -> None:
    engine = engine_with([node("a", cards("a", 1))], [])
    for number in (30, 10, 20):
        engine.observe_pod(pod(f"p{number}", asks(1, 9000), namespace="team"), float(number))
    while engine.attempt(40.0) is not None:
        pass
    (waited,) = scrape(engine, 100.0, 10)[catalogue.OLDEST_WAITING.name].values()
    (count,) = scrape(engine, 100.0, 10)[catalogue.WAITING_PODS.name].values()
    assert (waited, count) == (90.0, 3)
