"""``vgpu-scheduler top`` on a live cluster: what it shows, and how it is watched."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from tests.cli.live_cluster import Api, run
from tests.whatif.test_whatif_remedies import node, running

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.cli import main, top
from vgpu_scheduler.cli.cluster import messages


def test_top_shows_nodes_cards_pods_and_namespaces(api: Api) -> None:
    assert run("top").stdout.splitlines() == [
        "NODE  STATUS  CARDS  IDLE  MEMORY        MEM%  CORES   CORES%  PODS  FRAG",
        "a     Ready   2      0     6000/32768Mi  18%   0/200%  0%      1     100%",
    ]
    assert run("top", "cards").stdout.splitlines()[1:] == [
        "a     GPU-a-0  NVIDIA-A100  6000/16384Mi  36%   0/100%  1/10    1     ready",
        "a     GPU-a-1  NVIDIA-A100  0/16384Mi     0%    0/100%  0/10    0     cordoned",
    ]
    wide = run("top", "pods", "-o", "wide").stdout.splitlines()
    assert wide[1].split() == ["default", "first", "a", "1", "6000Mi", "0%", "GPU-a-0"]
    other = run("top", "pods", "-n", "other").stdout
    assert other == "no pods in namespace other hold cards; 1 in other namespaces do: -A shows them\n"
    (found,) = json.loads(run("top", "namespaces", "-o", "json").stdout)
    amounts = {"cards": 1, "memory": 6000, "cores": 0}
    assert found == {"namespace": "default", "pods": 1, "waiting": 1, **amounts, "quotas": []}
    (card, _) = yaml.safe_load(run("top", "cards", "-o", "yaml").stdout)
    assert card["memory"] == {"used": 6000, "total": 16384, "free": 10384}
    assert card["pods"] == ["default/first"]


def test_the_sum_of_all_nodes_is_for_people(api: Api) -> None:
    api.objects.append(node("b", cards=1))
    assert [line.split()[0] for line in run("top").stdout.splitlines()] == ["NODE", "a", "b", "all"]
    assert [row["node"] for row in json.loads(run("top", "-o", "json").stdout)] == ["a", "b"]


def watch_times(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have somebody press Ctrl-C after so many tables."""
    naps = iter(range(times - 1))

    def sleep(_: float) -> None:
        if next(naps, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("vgpu_scheduler.cli.top.time.sleep", sleep)


def test_watching_ends_quietly_and_warns_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    watch_times(monkeypatch, 3)
    result = run("top", "-w")
    assert result.exit_code == 130
    assert result.stdout.count("NODE  STATUS") == 3
    assert result.stderr == "settings: assumed (the defaults; use --config for others)\n"


def test_on_a_terminal_each_table_is_followed_by_its_warnings(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    watch_times(monkeypatch, 2)
    monkeypatch.setattr("vgpu_scheduler.cli.top.on_terminal", lambda: True)
    monkeypatch.setattr("vgpu_scheduler.cli.top.click.clear", lambda: click.echo("CLEARED"))
    lines = run("top", "-w").output.splitlines()
    assert [line.split()[0] for line in lines] == ["CLEARED", "NODE", "a", "settings:"] * 2


def test_watching_goes_on_after_the_cluster_did_not_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    watch_times(monkeypatch, 4)
    answers = iter([True, False, True, True])
    read = top.read_cluster

    def sometimes(*given: Any) -> Any:
        if not next(answers):
            raise ApiUnreachableError("GET /api/v1/nodes: refused")
        return read(*given)

    monkeypatch.setattr(top, "read_cluster", sometimes)
    result = run("top", "-w")
    assert result.exit_code == 130
    assert result.stdout.count("NODE  STATUS") == 3
    assert "GET /api/v1/nodes: refused; trying again" in result.stderr


def test_a_cluster_that_does_not_answer_at_first_is_not_watched(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise ApiUnreachableError("GET /api/v1/nodes: refused")

    monkeypatch.setattr(top, "read_cluster", refused)
    assert run("top", "-w").exit_code == 2


def test_subjects_may_be_singular(api: Api) -> None:
    for subject in ("node", "card", "pod", "namespace"):
        assert run("top", subject).stdout == run("top", f"{subject}s").stdout
    assert "'cats' is not one of" in run("top", "cats").stderr


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_that_want_them(
    api: Api, monkeypatch: pytest.MonkeyPatch, no_color: str, *, coloured: bool
) -> None:
    monkeypatch.setattr(messages, "on_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", no_color)
    api.objects.append(running("full", "a", "GPU-a-0", 9000))
    result = CliRunner().invoke(main, ["top", "cards"], color=True)
    assert ("\x1b[" in result.stdout) == coloured


def test_a_cluster_on_stdin_cannot_be_watched() -> None:
    result = run("top", "-w", "--cluster", "-")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "-w reads the cluster again and again, and stdin can be read only once" in result.stderr
