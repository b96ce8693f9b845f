"""``vgpu-scheduler usage``: what pods have held, from those that run and from Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import promql_parser as promql
import pytest
from tests.cli.http_server import Answer, serving
from tests.cli.live_cluster import run
from tests.cli.test_cli_defrag import write
from tests.whatif.test_whatif_remedies import node, running

from vgpu_scheduler.telemetry.catalogue import METRICS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIZE = 16384
TWO_HOURS_AGO = "2026-03-01T10:00:00Z"


def held(name: str, where: int, card: int, hours: float, memory: int, cores: int, namespace: str) -> dict[str, Any]:
    made = running(name, f"n{where}", f"GPU-n{where}-{card}", memory, cores)
    made["metadata"] |= {"namespace": namespace, "creationTimestamp": "2020-01-01T00:00:00Z"}
    made["status"] = {"phase": "Running", "startTime": (NOW - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return made


def snapshot(objects: list[dict[str, Any]], folder: Path) -> str:
    path = Path(write(objects, folder))
    listed: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": objects}
    listed["metadata"] = {"annotations": {"vgpu-scheduler.io/read-at": NOW.isoformat()}}
    path.write_text(json.dumps(listed))
    return str(path)


@pytest.mark.parametrize("seed", range(50))
def test_running_pods_count_since_they_started_and_no_longer_than_asked(seed: int, tmp_path: Path) -> None:
    rng, since = np.random.default_rng(seed), int(np.random.default_rng(seed).integers(1, 48))
    objects: list[dict[str, Any]] = [node(f"n{n}", cards=2) for n in range(2)]
    expected: dict[str, list[float]] = {}
    for where in range(2):
        for card in range(2):
            free, percent = SIZE, 100
            for number in range(int(rng.integers(0, 4))):
                memory, cores = int(rng.integers(100, SIZE // 3)), int(rng.integers(0, 33))
                hours, namespace = float(rng.integers(0, 60)), f"team-{rng.integers(3)}"
                free, percent = free - memory, percent - cores
                objects.append(held(f"p{where}{card}{number}", where, card, hours, memory, cores, namespace))
                sums = expected.setdefault(namespace, [0.0, 0.0])
                sums[0] += memory / 1024 * min(hours, since)
                sums[1] += max(memory / SIZE, cores / 100, 1 / 10) * min(hours, since)
    result = run("usage", "--since", f"{since}h", "-o", "json", "--cluster", snapshot(objects, tmp_path))
    assert result.exit_code == 0, result.stderr
    told = {row["namespace"]: (row["gibHours"], row["cardHours"]) for row in json.loads(result.stdout)}
    assert told.keys() == expected.keys()
    for namespace, sums in expected.items():
        assert told[namespace] == pytest.approx(sums, abs=2e-3)
    assert "those that have ended are only in Prometheus" in result.stderr


@pytest.mark.parametrize(
    ("status", "hours"),
    [
        ({}, 0.0),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": TWO_HOURS_AGO}]}, 0.0),
        ({"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": TWO_HOURS_AGO}]}, 2.0),
        ({"startTime": TWO_HOURS_AGO}, 2.0),
    ],
    ids=["not taken up", "not bound by its status", "bound", "started"],
)
def test_a_pod_holds_its_cards_from_its_binding_on(status: dict[str, Any], hours: float, tmp_path: Path) -> None:
    pod = held("a", 0, 0, 0, SIZE, 100, "team")
    pod["status"] = {"phase": "Pending", **status}
    result = run("usage", "-o", "json", "--cluster", snapshot([node("n0", cards=2), pod], tmp_path))
    assert [row["cardHours"] for row in json.loads(result.stdout)] == [hours]


def test_the_table_has_the_greatest_first_and_a_sum(tmp_path: Path) -> None:
    objects = [
        node("n0", cards=2),
        held("a", 0, 0, 2, SIZE, 100, "small"),
        held("b", 0, 1, 10, SIZE, 100, "great"),
    ]
    result = run("usage", "--cluster", snapshot(objects, tmp_path))
    assert result.stdout.splitlines() == [
        "NAMESPACE  GIB-HOURS  CARD-HOURS",
        "great      160.0      10.00",
        "small      32.0       2.00",
        "all        192.0      12.00",
    ]
    result = run("usage", "--models", "-n", "small", "--cluster", snapshot(objects, tmp_path))
    assert result.stdout.splitlines()[1].split() == ["small", "NVIDIA-A100", "32.0", "2.00"]
    result = run("usage", "-n", "nobody", "--cluster", snapshot(objects, tmp_path))
    assert result.stdout == "no pod in nobody has held any cards\n"
    everybody = run("usage", "--cluster", snapshot(objects, tmp_path)).stdout
    assert run("usage", "-n", "", "--cluster", snapshot(objects, tmp_path)).stdout == everybody
    assert run("usage", "-n", "", "--cluster", snapshot(objects[:1], tmp_path)).stdout == "no pod has held any cards\n"


@contextmanager
def answering(answers: list[Answer], queries: list[str]) -> Iterator[str]:
    """Stand for Prometheus, with these answers."""

    def answer(given: dict[str, list[str]]) -> Answer:
        queries.append(given["query"][0])
        return answers[min(len(queries), len(answers)) - 1]

    with serving(answer) as address:
        yield f"{address}/under/a/path/"


def vector(*series: tuple[str, str, object]) -> Answer:
    found = [{"metric": {"namespace": ns, "model": model}, "value": [1.0, str(value)]} for ns, model, value in series]
    return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}}).encode()


def test_prometheus_adds_up_the_counters_of_the_scheduler() -> None:
    queries: list[str] = []
    memory = vector(("a", "A100", 7200), ("a", "T4", 3600), ("b", "T4", "NaN"))
    with answering([memory, vector(("a", "A100", 1800))], queries) as address:
        result = run("usage", "--since", "7d", "--models", "-o", "json", "--prometheus", address)
    assert json.loads(result.stdout) == [
        {"namespace": "a", "model": "A100", "gibHours": 2.0, "cardHours": 0.5},
        {"namespace": "a", "model": "T4", "gibHours": 1.0, "cardHours": 0.0},
    ]
    assert "Prometheus" not in result.stderr
    known = {metric.name: metric for metric in METRICS}
    for query in queries:
        tree: Any = promql.parse(query)
        selector = tree.expr.args[0].vector_selector
        assert set(tree.modifier.labels) == set(known[selector.name].labels) == {"namespace", "model"}
        assert tree.expr.args[0].range == timedelta(days=7)


def test_the_hours_of_other_clusters_are_left_out_where_the_labels_of_this_one_are_given() -> None:
    queries: list[str] = []
    with answering([vector(("a", "A100", 7200))], queries) as address:
        run("usage", "--prometheus", address, "--prometheus-label", "cluster=west", "--prometheus-label", 'of="x"')
    assert len(queries) == 2
    for query in queries:
        matchers = promql.parse(query).expr.args[0].vector_selector.matchers.matchers
        assert {(one.name, str(one.op), one.value) for one in matchers} == {
            ("cluster", "MatchOp.Equal", "west"),
            ("of", "MatchOp.Equal", '"x"'),
        }


def test_a_long_answer_is_read_whole() -> None:
    many = [(f"team-{number:05}", "NVIDIA-NVIDIA A100-SXM4-80GB", 3600 * number) for number in range(5000)]
    with answering([vector(*many)], []) as address:
        result = run("usage", "-o", "json", "--prometheus", address)
    assert [row["gibHours"] for row in json.loads(result.stdout)] == list(range(5000))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, b"<html>"), "not Prometheus"),
        ((200, b"[]"), "not Prometheus"),
        ((200, b'{"data": {"result": [{"metric": {}, "value": [1, "x"]}]}}'), "not Prometheus"),
        ((200, b'{"data": {"result": 7}}'), "not Prometheus"),
        ((200, b"[" * 100_000), "not Prometheus"),
        ((404, b""), "it answers 404 Not Found"),
        ((422, b'{"error": "query too long"}'), "it answers 422 query too long"),
        ((503, b"[1]"), "it answers 503 Service Unavailable"),
        ((503, b"[" * 100_000), "it answers 503 Service Unavailable"),
    ],
)
def test_what_is_no_answer_of_prometheus_is_said(answer: Answer, says: str) -> None:
    with answering([answer], []) as address:
        result = run("usage", "--prometheus", address)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: --prometheus {address.rstrip('/')}"), result.stderr
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1",
        "127.0.0.1:1",
        "nonsense",
        "ftp://x",
        "http://u:secret@127.0.0.1:1",
        "u:secret@127.0.0.1:1",
        "http://u:secret@host:99999",
        "ftp://u:secret@host",
    ],
)
def test_an_address_where_nobody_answers_is_named_without_its_password(address: str) -> None:
    result = run("usage", "--prometheus", address)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --prometheus ")
    assert "secret" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("since", ["", "0d", "1", "1y", "-1d", "d", "1.5h", "401d", "99999999w", "1d2h"])
def test_a_window_that_is_none_is_refused(since: str) -> None:
    result = run("usage", "--since", since)
    assert result.exit_code == 2
    assert "--since" in result.stderr


def test_files_and_prometheus_exclude_each_other(tmp_path: Path) -> None:
    result = run("usage", "--prometheus", "http://x", "--cluster", snapshot([node("n0")], tmp_path))
    assert result.exit_code == 2
    assert "name one" in result.stderr
