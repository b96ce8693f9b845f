"""What the page in the cluster answers to commands of those who cannot read the cluster themselves."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from tests.apiserver.certificates import Authority
from tests.cli.live_cluster import run
from tests.ui.doors import ADMIN, EVERYTHING, People, deployed, seeing
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running, world_of

from vgpu_scheduler.cli.from_page import simulate_from_page
from vgpu_scheduler.cli.simulated import show_capacities
from vgpu_scheduler.forecast import DurationClass, Forecast, NoForecast, forecast_of_json
from vgpu_scheduler.reading import ClusterOptions, PageOptions
from vgpu_scheduler.reading.answers import bounded_body
from vgpu_scheduler.reading.page import OTHERS, ask_page
from vgpu_scheduler.ui.access import Certificate
from vgpu_scheduler.whatif import MOST_COPIES, Capacity, ask

Object = dict[str, Any]
OURS = "vgpu-scheduler"


def in_namespace(obj: Object, namespace: str) -> Object:
    obj["metadata"]["namespace"] = namespace
    return obj


def objects() -> list[Object]:
    return [
        node("a"),
        in_namespace(running("x", "a", "GPU-a-0", 9000), "blue"),
        in_namespace(running("y", "a", "GPU-a-1", 9000), "green"),
        in_namespace(pod("w", {GPU: 1, MEMORY: 15000}, schedulerName=OURS), "blue"),
        in_namespace(pod("v", {GPU: 1, MEMORY: 15000}, schedulerName=OURS, priority=7), "green"),
    ]


@contextmanager
def page(folder: Path, more: Sequence[Object] = ()) -> Iterator[dict[str, str]]:
    """Serve the page of a cluster, with more objects, in a thread, and yield the options that name it."""
    authority = Authority(folder)
    cert, key = folder / "tls.crt", folder / "tls.key"
    authority.sign(cert, key)
    people = People()
    people.add(ADMIN, *EVERYTHING)
    people.add("tenant", *seeing("blue"))
    ready, done = threading.Event(), threading.Event()
    found: dict[str, str] = {"--ui-ca": str(authority.file)}

    async def serve() -> None:
        async with deployed([*objects(), *more], people, tls=Certificate(cert, key).context) as served:
            found["--ui"] = served.browser.home
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield found
    finally:
        done.set()
        thread.join(30)


def kubeconfig(folder: Path, user: Mapping[str, Any]) -> str:
    file = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": dict(user)}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "blue"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(content))
    return str(file)


@pytest.fixture
def given(tmp_path: Path) -> Iterator[list[str]]:
    """The options of a tenant."""
    config = kubeconfig(tmp_path, {"token": "token-of-tenant"})
    with page(tmp_path) as found:
        yield [word for pair in found.items() for word in pair] + ["--kubeconfig", config]


def test_a_tenant_learns_why_a_pod_waits_and_where_it_stands(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(page: PageOptions, cluster: ClusterOptions, path: str, form: Mapping[str, str]) -> str:
        asked.append(path)
        return ask_page(page, cluster, path, form)

    monkeypatch.setattr("vgpu_scheduler.cli.from_page.ask_page", ask)
    told = run("explain", "w", *given)
    assert told.exit_code == 1
    assert asked == ["/pods/blue/w", "/waiting"]  # the text and the exit status are of one answer
    monkeypatch.undo()
    assert "CardInsufficientMemory" in told.stdout
    assert "ask 7384 of nvidia.com/gpumem instead of 15000" in told.stdout
    assert "Its place in the queue: 2" in told.stdout
    assert "green" not in told.output
    plain = json.loads(run("explain", "blue/w", "-o", "json", *given).stdout)
    assert (plain["pod"], plain["node"], set(plain["reasons"])) == ("blue/w", "", {"a"})
    assert "green" not in json.dumps(plain)
    bound = run("explain", "x", *given)
    assert (bound.exit_code, "blue/x is bound to a." in bound.stdout) == (0, True)


def test_a_tenant_sees_how_full_cards_are(given: list[str]) -> None:
    cards = json.loads(run("top", "cards", "-o", "json", *given).stdout)
    assert [(card["card"], card["memory"]["used"], card["pods"]) for card in cards] == [
        ("GPU-a-0", 9000, ["blue/x"]),
        ("GPU-a-1", 9000, [OTHERS]),
    ]
    nodes = run("top", "nodes", *given).stdout
    assert "18000/32768Mi" in nodes
    head, row = (line.split() for line in nodes.splitlines())
    assert row[head.index("PODS")] == "-"  # of two whose names are hidden nobody can tell whether they are one
    assert json.loads(run("top", "nodes", "-o", "json", *given).stdout)[0]["pods"] is None
    assert run("top", "nodes", "--sort-by", "pods", *given).exit_code == 0
    kubeconfig(Path(given[-1]).parent, {"token": f"token-of-{ADMIN}"})
    assert json.loads(run("top", "nodes", "-o", "json", *given).stdout)[0]["pods"] == 2
    kubeconfig(Path(given[-1]).parent, {"token": "token-of-tenant"})
    assert "NVIDIA-A100" in run("top", "models", *given).stdout
    assert [row["namespace"] for row in json.loads(run("top", "namespaces", "-o", "json", *given).stdout)] == ["blue"]
    assert json.loads(run("top", "cards", "a/GPU-a-1", "-o", "json", *given).stdout) == cards[1:]
    assert json.loads(run("top", "cards", "a/GPU-a-1…", "-o", "json", *given).stdout) == cards[1:]
    assert "card GPU-a may be a/GPU-a-0, a/GPU-a-1" in run("top", "cards", "GPU-a", *given).stderr
    assert "there is no card nothing" in run("top", "cards", "nothing", *given).stderr


def test_a_tenant_learns_whether_a_pod_would_fit(given: list[str], tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    for memory, status in ((7000, 0), (15000, 1)):
        asked = {**pod("new", {GPU: 1, MEMORY: memory}), "apiVersion": "v1"}
        del asked["metadata"]["namespace"]
        file.write_text(yaml.safe_dump(asked))
        told = run("simulate", "-f", str(file), *given)
        assert (told.exit_code, "blue/new" in told.stdout) == (status, True), told.output
    counted = run("simulate", "-f", str(file), "--count", "max", "--add-node", "a=2", *given)
    assert "4 of blue/new fit." in counted.stdout
    assert "\nThe next one: 0/3 nodes are available: " in counted.stdout, counted.stdout
    assert "you may not see pods of namespace 'green'" in run("simulate", "-f", str(file), "-n", "green", *given).stderr


@pytest.mark.parametrize("quotas", ["", "the quota is full"])
@pytest.mark.parametrize(("count", "said"), [(99_999, "99999 of"), (MOST_COPIES, "at least 100000 of")])
def test_copies_that_the_page_counts_are_shown_as_those_that_are_counted_here(
    count: int, said: str, quotas: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world, waiting = world_of(node("a"), pod("p", {GPU: 3, MEMORY: 1}))
    refused = replace(ask(world, waiting), quotas=quotas)
    capacities = [Capacity("blue/p", count, {"a": count}, refused), Capacity("blue/q", 0)]
    show_capacities(capacities, "table")
    shown = capsys.readouterr().out
    assert shown.startswith(said)
    plain = json.dumps({"answers": [each.as_json() for each in capacities], "warnings": []})
    monkeypatch.setattr("vgpu_scheduler.cli.from_page.ask_page", lambda *_, **__: plain)
    with pytest.raises(SystemExit):
        simulate_from_page(
            PageOptions("http://page"), ClusterOptions(None, None, "", None), (), {"count": "max"}, "table"
        )
    assert capsys.readouterr().out == shown


def test_who_has_no_token_is_told_so(given: list[str], tmp_path: Path) -> None:
    kubeconfig(tmp_path, {})
    for words in (("explain", "w"), ("top",), ("simulate", "--pending")):
        told = run(*words, *given)
        assert (
            told.exit_code,
            "no token that could be sent there (client certificates cannot be used)" in told.stderr,
        ) == (
            2,
            True,
        ), told.output


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://127.0.0.1:1", "tokens are sent over TLS only"),
        ("127.0.0.1", "tokens are sent over TLS only"),
        ("https://u:p@host", "tokens are sent over TLS only"),
        ("https://host/path", "tokens are sent over TLS only"),
        ("https://127.0.0.1:1", "--ui https://127.0.0.1:1: "),
    ],
)
def test_tokens_go_over_tls_alone(address: str, why: str, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, {"token": "token-of-tenant"})
    told = run("explain", "w", "--ui", address, "--kubeconfig", config)
    assert (told.exit_code, why in told.stderr) == (2, True), told.output
    assert "token-of-tenant" not in told.output


def test_a_certificate_of_nobody_known_and_a_wrong_token_are_said(given: list[str], tmp_path: Path) -> None:
    without = [word for word in given if word != "--ui-ca" and not word.endswith("authority.crt")]
    assert "certificate verify failed" in run("explain", "w", *without).stderr
    kubeconfig(tmp_path, {"token": "wrong"})
    assert "the API server rejects this token" in run("explain", "w", *given).stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("explain", "-l", "a=b"), "one pod at a time"),
        (("top", "pods"), "reads the pods themselves"),
        (("top", "cards", "-l", "a=b"), "the page cannot select by labels"),
        (("top", "-w"), "leave out -w and -n"),
        (("simulate", "--pending", "--explain"), "the page takes only"),
        (("simulate", "--trace", "synthetic"), "it cannot be used with --trace"),
        (("usage", "--since", "7d"), "the page shows only the last day: leave out --since"),
        (("usage", "--prometheus", "http://p"), "leave out --prometheus"),
    ],
)
def test_what_the_page_does_not_tell_is_said(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, {"token": "t"})
    told = run(*words, "--ui", "https://127.0.0.1:1", "--kubeconfig", config)
    assert (told.exit_code, why in told.stderr) == (2, True), told.output


def test_a_page_that_the_environment_names_is_asked_where_it_has_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_VGPU_UI", "https://127.0.0.1:1")
    config = kubeconfig(tmp_path, {"token": "t"})
    assert "--ui https://127.0.0.1:1: " in run("top", "cards", "--kubeconfig", config).stderr
    assert "--ui" not in run("top", "pods", "-n", "x", "--kubeconfig", config).stderr
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects()))
    assert run("top", "cards", "--cluster", str(file)).exit_code == 0
    assert "--ui is for the live cluster" in run("top", "--cluster", str(file), "--ui", "https://h").stderr


def test_a_tenant_learns_how_long_a_pod_will_wait(given: list[str]) -> None:
    told = run("explain", "w", "--forecast", *given)

    assert told.exit_code == 1, told.output
    assert "How long it will wait cannot be estimated: it does not fit now, and the run time of no pod is known." in (
        told.stdout
    )
    assert json.loads(run("explain", "w", "--forecast", "-o", "json", *given).stdout)["forecast"]["unknown"]
    assert "the page has no history log: leave out --log" in run("explain", "w", "--log", ".", *given).stderr


def test_a_tenant_learns_how_long_all_its_pods_will_wait(given: list[str]) -> None:
    told = run("simulate", "--pending", "--forecast", *given)

    assert told.exit_code == 1, told.output
    why = "it does not fit now, and the run time of no pod is known"
    assert f"blue/w: How long it will wait cannot be estimated: {why}.\n" in told.stdout
    (plain,) = json.loads(run("simulate", "--pending", "--forecast", "-o", "json", *given).stdout)
    assert plain["forecast"] == {"unknown": why}
    (plain,) = json.loads(run("simulate", "--pending", "-o", "json", *given).stdout)
    assert "forecast" not in plain
    assert "the page has no history log: leave out --log" in run("simulate", "--pending", "--log", ".", *given).stderr


@pytest.mark.parametrize(
    "found",
    [
        *(
            Forecast(least, most, 0.8, 99, 10 * (known is not None), known)
            for least, most in ((0.0, 0.0), (600.0, 600.0), (30.0, 90_000.0), (3600.0, inf))
            for known in (None, *DurationClass)
        ),
        NoForecast("nobody knows"),
    ],
)
def test_a_forecast_of_the_page_is_said_in_the_words_of_commands(found: Forecast | NoForecast) -> None:
    assert forecast_of_json(json.loads(json.dumps(found.as_json()))).text() == found.text()


@pytest.mark.parametrize("plain", [{}, {"probability": "x"}, {**Forecast(1, 2).as_json(), "durations": {"class": "x"}}])
def test_what_is_no_forecast_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no forecast|could not convert"):
        forecast_of_json(plain)


def test_a_tenant_learns_what_its_namespace_has_held(given: list[str]) -> None:
    told = run("usage", *given)
    assert told.exit_code == 0, told.output
    assert [line.split()[0] for line in told.stdout.splitlines()] == ["NAMESPACE", "blue"]
    assert "those that have ended are only in Prometheus\n" in told.stderr
    (row,) = json.loads(run("usage", "--models", "-o", "json", *given).stdout)
    assert (row["namespace"], row["model"], row.keys()) == (
        "blue",
        "NVIDIA-A100",
        {"namespace", "model", "gibHours", "cardHours"},
    )
    told = "no pod in green has held any cards, or you may not list its pods"
    assert told in run("usage", "-n", "green", *given).stdout
    kubeconfig(Path(given[-1]).parent, {"token": f"token-of-{ADMIN}"})
    assert [row["namespace"] for row in json.loads(run("usage", "-o", "json", *given).stdout)] == ["blue", "green"]


def test_that_nobody_has_held_any_cards_is_said_of_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps({"metered": True, "trouble": "", "pending": False, "hours": []})
    monkeypatch.setattr("vgpu_scheduler.cli.from_page.ask_page", lambda *_, **__: answer)
    told = run("usage", "--ui", "https://127.0.0.1:1").stdout
    assert told == "none of the namespaces whose pods you may list has held any cards\n"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([{"metered": True, "trouble": "in <other> words", "pending": True, "hours": []}, 3.0], "3.0"),
        ([{"metered": True, "trouble": "Prometheus does not answer", "hours": []}], "not known: Prometheus does not"),
        ([[]], "is not the page of vgpu-scheduler"),
        ([{"hours": [{"namespace": "a"}]}], "cannot be decoded"),
    ],
)
def test_hours_that_the_page_does_not_know_yet_are_asked_for_again(
    answers: list[Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"namespace": "blue", "model": "A", "gibHours": 3.0, "cardHours": 0.5}
    left = [{"metered": True, "trouble": "", "hours": [row]} if isinstance(each, float) else each for each in answers]
    monkeypatch.setattr("vgpu_scheduler.cli.from_page.ask_page", lambda *_, **__: json.dumps(left.pop(0)))
    assert told in run("usage", "--ui", "https://127.0.0.1:1").output
    assert not left


async def test_an_answer_in_many_small_pieces_takes_no_longer_than_one_in_few() -> None:
    class Content:
        async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
            for _ in range(2**13):
                yield b"x" * 2**9

    began = time.process_time()
    body = await bounded_body(cast("Any", SimpleNamespace(content=Content())))
    assert (type(body), len(body)) == (bytes, 2**22)
    assert time.process_time() - began < 0.3
