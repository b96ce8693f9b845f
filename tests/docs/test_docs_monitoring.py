"""Alerts and dashboard ask for metrics, labels and values that exist, in PromQL that parses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from vgpu_scheduler.telemetry.catalogue import METRICS
from vgpu_scheduler.telemetry.metric import Metric, MetricType

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "manifests" / "monitoring"
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())
RECORDED = [
    rule
    for group in yaml.safe_load((FOLDER / "usage-rules.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
]
ALERTS: list[dict[str, Any]] = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
CONFIG_MAP = yaml.safe_load((FOLDER / "dashboard.yaml").read_text())
DASHBOARD = json.loads(CONFIG_MAP["data"]["vgpu-scheduler.json"])
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

SCRAPED = {"job": ("vgpu-scheduler-metrics",), "namespace": (), "pod": (), "instance": ()}
"""Labels that Prometheus adds to what it scrapes; the job is the name of the Service."""
SHARED = ("scheduler_", "rest_client_")
"""How names begin that other programs have, too."""


def series() -> dict[str, Metric]:
    """Return all metrics by the names of their series."""
    found = {}
    for metric in METRICS:
        parts = ("_bucket", "_count", "_sum") if metric.type is MetricType.HISTOGRAM else ("",)
        found |= {f"{metric.name}{part}": metric for part in parts}
    return found


SERIES = series()


def parsed(expression: str) -> promql.Expr:
    """Parse an expression, in which Grafana would replace a variable."""
    return promql.parse(expression.replace("$__rate_interval", "5m"))


def parts(node: Any) -> Iterator[Any]:
    """Yield an expression and all in it."""
    yield node
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        inner = getattr(node, name, None)
        if inner is not None:
            yield from parts(inner)
    for inner in getattr(node, "args", None) or ():
        yield from parts(inner)


def labels_of(metric: Metric, name: str) -> dict[str, tuple[str, ...]]:
    """Return the labels of a series with their values."""
    return {**metric.labels, **SCRAPED, **({"le": ()} if name.endswith("_bucket") else {})}


def check(expression: str) -> None:
    """Check each metric, matcher and grouping of an expression."""
    tree = parsed(expression)
    selected = [part for part in parts(tree) if isinstance(part, promql.VectorSelector)]
    known: set[str] = set()
    for selector in selected:
        metric = SERIES[selector.name]
        labels = labels_of(metric, selector.name)
        known |= set(labels)
        given = {matcher.name: matcher for matcher in selector.matchers.matchers}
        if selector.name.startswith(SHARED):
            assert given["job"].value in SCRAPED["job"], f"{selector.name} is a name of other programs, too"
        for name, matcher in given.items():
            values = labels[name]
            wanted = [matcher.value] if matcher.op == promql.MatchOp.Equal else matcher.value.split("|")
            assert not values or set(wanted) <= set(values), (expression, name)
    for part in parts(tree):
        modifier = getattr(part, "modifier", None)
        if isinstance(part, promql.AggregateExpr) and modifier is not None:
            assert set(modifier.labels) <= known, expression
        if isinstance(part, promql.Call) and part.func.name in {"rate", "increase"}:
            for inner in parts(part):
                if isinstance(inner, promql.VectorSelector):
                    assert SERIES[inner.name].type is not MetricType.GAUGE, f"{inner.name} is no counter"


def outer_labels(tree: Any) -> set[str]:
    """Return the labels that the result of an alert's expression has."""
    while isinstance(tree, promql.BinaryExpr | promql.ParenExpr):
        tree = tree.expr if isinstance(tree, promql.ParenExpr) else tree.lhs
    return set(tree.modifier.labels) if isinstance(tree, promql.AggregateExpr) and tree.modifier else set()


@pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])
def test_alerts(alert: dict[str, Any]) -> None:
    check(alert["expr"])
    assert re.fullmatch(r"\d+m", alert["for"])
    assert alert["labels"]["severity"] in {"critical", "warning"}
    texts = alert["annotations"]
    assert texts.keys() == {"summary", "description", "runbook_url"}
    named = set(re.findall(r"\$labels\.(\w+)", texts["summary"] + texts["description"]))
    assert named == outer_labels(parsed(alert["expr"]))


@pytest.mark.parametrize("rule", RECORDED, ids=[rule["record"] for rule in RECORDED])
def test_recorded_series_say_in_their_names_what_they_are(rule: dict[str, Any]) -> None:
    """By Prometheus' convention: labels, metric, operation."""
    check(rule["expr"])
    labels, metric, operation = rule["record"].split(":")
    tree = parsed(rule["expr"])
    (selected,) = [part for part in parts(tree) if isinstance(part, promql.VectorSelector)]
    assert outer_labels(tree) == set(labels.split("_"))
    assert selected.name.replace("_seconds_total", "_hours") == metric
    assert (operation, "[1d]" in rule["expr"], tree.rhs.val) == ("increase1d", True, 3600)


def test_alerts_have_names_of_their_own() -> None:
    names = [alert["alert"] for alert in ALERTS]
    assert len(set(names)) == len(names) >= 15


def test_a_kind_that_is_refused_in_several_ways_has_one_alert() -> None:
    """Otherwise each other status code would begin the wait anew."""
    (alert,) = [one for one in ALERTS if one["alert"] == "VGPUSchedulerCannotList"]
    assert outer_labels(parsed(alert["expr"])) == {"kind"}


@pytest.mark.parametrize("alert", [one for one in ALERTS if "histogram_quantile" in one["expr"]])
def test_quantiles_can_reach_their_threshold(alert: dict[str, Any]) -> None:
    tree = parsed(alert["expr"])
    (selector,) = [part for part in parts(tree) if isinstance(part, promql.VectorSelector)]
    assert tree.rhs.val < SERIES[selector.name].buckets[-1]


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_panels(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        check(target["expr"])
        named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert named <= {name for metric in SERIES.values() for name in metric.labels}
        tree = parsed(target["expr"])
        if isinstance(tree, promql.AggregateExpr):
            assert named == outer_labels(tree)


def test_panels_lie_side_by_side() -> None:
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_grafana_finds_the_dashboard_and_prometheus_the_metrics() -> None:
    assert CONFIG_MAP["metadata"]["labels"]["grafana_dashboard"] == "1"
    monitor = yaml.safe_load((FOLDER / "service-monitor.yaml").read_text())
    service = yaml.safe_load((ROOT / "manifests" / "metrics-service.yaml").read_text())
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert [one["port"] for one in monitor["spec"]["endpoints"]] == [port["name"] for port in service["spec"]["ports"]]
    assert SCRAPED["job"] == (service["metadata"]["name"],)
    ours = {label for metric in METRICS for label in metric.labels} & set(SCRAPED)
    assert not ours or all(one["honorLabels"] for one in monitor["spec"]["endpoints"])  # else they are renamed


@pytest.mark.parametrize(
    "wrong",
    [
        "sum(vgpu_scheduler_leaders)",
        'vgpu_scheduler_closed_nodes{cause="lock_hold"}',
        'vgpu_scheduler_closed_nodes{reason="lock_held"}',
        "sum by (kind) (vgpu_scheduler_closed_nodes)",
        "sum(rate(vgpu_scheduler_leader[5m]))",
        "scheduler_pending_pods",
        "sum(vgpu_scheduler_leader",
    ],
)
def test_what_is_wrong_is_found(wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError)):
        check(wrong)
