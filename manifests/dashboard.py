"""The Grafana dashboard as a table of panels, and the JSON that Grafana reads; rendered by ``render.py``."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_JOB = 'job="vgpu-scheduler-metrics"'
_WIDTH, _HEIGHT, _STAT_HEIGHT = 24, 8, 4
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """A panel: its title, a unit of Grafana's, and expressions with the legends of their series."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    description: str = ""
    stat: bool = False


def _quantiles(metric: str, matchers: str = "") -> tuple[tuple[str, str], ...]:
    bucket = f"{metric}_bucket{{{matchers}}}" if matchers else f"{metric}_bucket"
    return tuple(
        (f"histogram_quantile({q}, sum by (le) (rate({bucket}[$__rate_interval])))", f"p{q * 100:.0f}")
        for q in (0.5, 0.9, 0.99)
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "At a glance",
        (
            Panel("Leaders", "short", (("sum(vgpu_scheduler_leader)", ""),), "One, always.", stat=True),
            Panel("Nodes", "short", (("max(vgpu_scheduler_nodes)", ""),), stat=True),
            Panel("Pods that wait", "short", ((f"sum(scheduler_pending_pods{{{_JOB}}})", ""),), stat=True),
            Panel("Closed nodes", "short", (("sum(vgpu_scheduler_closed_nodes)", ""),), stat=True),
            Panel("Nodes over capacity", "short", (("max(vgpu_scheduler_over_capacity_nodes)", ""),), stat=True),
            Panel("Unreadable pods", "short", (("max(vgpu_scheduler_unreadable_pods)", ""),), stat=True),
        ),
    ),
    (
        "Pods",
        (
            Panel(
                "Attempts by result",
                "ops",
                (
                    (
                        f"sum by (result) (rate(scheduler_schedule_attempts_total{{{_JOB}}}[$__rate_interval]))",
                        "{{result}}",
                    ),
                ),
            ),
            Panel(
                "Pods that wait, by where",
                "short",
                ((f"max by (queue) (scheduler_pending_pods{{{_JOB}}})", "{{queue}}"),),
            ),
            Panel(
                "Unschedulable pods by reason",
                "short",
                ((f"sum by (plugin) (scheduler_unschedulable_pods{{{_JOB}}})", "{{plugin}}"),),
                "A pod counts under each reason that kept it from nodes: do not add them up.",
            ),
            Panel(
                "From a pod's coming to its binding",
                "s",
                _quantiles("scheduler_pod_scheduling_sli_duration_seconds", _JOB),
            ),
        ),
    ),
    (
        "Decisions and binds",
        (
            Panel("Time of a decision", "s", _quantiles("vgpu_scheduler_decision_duration_seconds")),
            Panel(
                "Time of a Binding",
                "s",
                _quantiles("scheduler_framework_extension_point_duration_seconds", f'{_JOB},extension_point="Bind"'),
            ),
            Panel(
                "Binds by result",
                "ops",
                (("sum by (result) (rate(vgpu_scheduler_binds_total[$__rate_interval]))", "{{result}}"),),
            ),
            Panel(
                "Pods that wait at nodes",
                "short",
                (
                    ("sum(vgpu_scheduler_bind_queue_depth)", "all nodes"),
                    ("max(vgpu_scheduler_bind_queue_deepest)", "one node, at most"),
                ),
            ),
            Panel(
                "Node locks",
                "ops",
                (("sum by (outcome) (rate(vgpu_scheduler_node_locks_total[$__rate_interval]))", "{{outcome}}"),),
            ),
            Panel(
                "Closed nodes by cause",
                "short",
                (("max by (cause) (vgpu_scheduler_closed_nodes)", "{{cause}}"),),
            ),
        ),
    ),
    (
        "Preemption",
        (
            Panel(
                "Searches for victims",
                "ops",
                ((f"sum(rate(scheduler_preemption_attempts_total{{{_JOB}}}[$__rate_interval]))", "searches"),),
            ),
            Panel("Victims of a preemption", "short", _quantiles("scheduler_preemption_victims", _JOB)),
            Panel(
                "Evictions by answer",
                "short",
                (
                    (
                        "sum by (answer) (increase(vgpu_scheduler_evictions_total[$__rate_interval]))",
                        "{{answer}}",
                    ),
                ),
            ),
            Panel(
                "Victims that are overdue",
                "short",
                (("max(vgpu_scheduler_overdue_victims)", "overdue"),),
                "They should have ended, and pods of higher priority wait for them.",
            ),
            Panel(
                "Longest preemption under way",
                "s",
                (("max(vgpu_scheduler_longest_preemption_seconds)", "longest"),),
            ),
        ),
    ),
    (
        "What is wrong",
        (
            Panel(
                "Problems by kind and reason",
                "short",
                (
                    (
                        "sum by (kind, reason) (increase(vgpu_scheduler_problems_total[$__rate_interval]))",
                        "{{kind}} {{reason}}",
                    ),
                ),
            ),
            Panel(
                "Pods rejected by kubelets",
                "short",
                (
                    (
                        "sum by (reason) (increase(vgpu_scheduler_rejected_by_kubelet_total[$__rate_interval]))",
                        "{{reason}}",
                    ),
                ),
            ),
            Panel(
                "Ledger",
                "short",
                (
                    ("max(vgpu_scheduler_ledger_drift_nodes)", "nodes that differ"),
                    ("sum(increase(vgpu_scheduler_ledger_repairs_total[$__rate_interval]))", "repairs"),
                    (
                        f"sum(increase(scheduler_pod_scheduled_after_flush_total{{{_JOB}}}[$__rate_interval]))",
                        "changes that requeued no pod",
                    ),
                ),
                "All of them are errors of the scheduler: please report them with its log.",
            ),
            Panel(
                "Requests to the API server by code",
                "ops",
                ((f"sum by (code) (rate(rest_client_requests_total{{{_JOB}}}[$__rate_interval]))", "{{code}}"),),
            ),
            Panel(
                "Watches and lists",
                "short",
                (
                    ("sum(increase(vgpu_scheduler_kopf_restarts_total[$__rate_interval]))", "kopf started again"),
                    ("sum(increase(vgpu_scheduler_relists_total[$__rate_interval]))", "lists"),
                    ("sum(increase(vgpu_scheduler_swept_objects_total[$__rate_interval]))", "missed deletions"),
                ),
            ),
            Panel(
                "What was not written",
                "short",
                (
                    ("sum(increase(vgpu_scheduler_reports_dropped_total[$__rate_interval]))", "dropped"),
                    ("sum(increase(vgpu_scheduler_events_limited_total[$__rate_interval]))", "limited"),
                ),
            ),
        ),
    ),
    (
        "Cards that are out of service",
        (
            Panel(
                "Unhealthy cards",
                "short",
                (('max by (dialect, model) (vgpu_scheduler_cards{state="unhealthy"})', "{{model}} ({{dialect}})"),),
            ),
            Panel(
                "Cordoned cards",
                "short",
                (('max by (dialect, model) (vgpu_scheduler_cards{state="cordoned"})', "{{model}} ({{dialect}})"),),
            ),
        ),
    ),
    (
        "Pools",
        (
            *(
                Panel(
                    f"Allocated {name} by model",
                    "percentunit",
                    (
                        (
                            (
                                f"max by (dialect, model) (1 - vgpu_scheduler_cards_free{{{of}}} / "
                                f"(vgpu_scheduler_cards_allocatable{{{of}}} > 0))"
                            ),
                            "{{model}} ({{dialect}})",
                        ),
                    ),
                    "Of the cards that are in service.",
                )
                for name, of in (("memory", 'resource="memory"'), ("compute", 'resource="cores"'))
            ),
            Panel(
                "Memory that is free, by model",
                "bytes",
                (
                    (
                        'max by (dialect, model) (vgpu_scheduler_cards_free{resource="memory"})',
                        "{{model}} ({{dialect}})",
                    ),
                ),
            ),
            Panel(
                "Memory that namespaces hold",
                "bytes",
                (('sum by (namespace) (vgpu_scheduler_namespace_allocated{resource="memory"})', "{{namespace}}"),),
            ),
            Panel(
                "Cards that namespaces hold",
                "short",
                (
                    (
                        "sum by (namespace) (rate(vgpu_scheduler_allocated_card_seconds_total[$__rate_interval]))",
                        "{{namespace}}",
                    ),
                ),
                "A pod's share of a card is the largest of its shares of slots, memory and compute.",
            ),
        ),
    ),
    (
        "Pods that wait, by namespace",
        (
            Panel("Pods that wait", "short", (("max by (namespace) (vgpu_scheduler_waiting_pods)", "{{namespace}}"),)),
            Panel(
                "The longest wait",
                "s",
                (("max by (namespace) (vgpu_scheduler_oldest_waiting_pod_seconds)", "{{namespace}}"),),
            ),
        ),
    ),
    (
        "Namespaces with quotas",
        (
            Panel(
                "Used of the quota",
                "percentunit",
                (
                    (
                        "hami_resource_quota_used / (hami_resource_quota_limit > 0)",
                        "{{namespace}} {{quota_name}}",
                    ),
                ),
            ),
        ),
    ),
)
"""Titles of rows, and their panels."""


def dashboard() -> str:
    """Return the dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    below = 0
    for title, row in ROWS:
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": below}
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "gridPos": place, "panels": []})
        below += 1
        height = _STAT_HEIGHT if row[0].stat else _HEIGHT
        across = len(row) if row[0].stat else 2
        for number, panel in enumerate(row):
            line, column = divmod(number, across)
            width = _WIDTH // across
            place = {"h": height, "w": width, "x": column * width, "y": below + line * height}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
        below += -(-len(row) // across) * height
    whole = {
        "uid": "vgpu-scheduler",
        "title": "vgpu-scheduler",
        "tags": ["kubernetes", "scheduler", "gpu"],
        "timezone": "",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }
    return json.dumps(whole, indent=2)


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        for number, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }
