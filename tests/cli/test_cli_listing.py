"""What lists of kubectl do, all lists do: rules over all commands that have an option, on random clusters."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import yaml
from tests.cli.listed_clusters import SUBJECTS, cluster, kubeconfig, matches, selector, write
from tests.cli.live_cluster import Api, run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, pod, running

from vgpu_scheduler.cli.main import COMMANDS, main
from vgpu_scheduler.cli.top import TABLES

CLUSTERS = 10
CASES = [pytest.param(subject, seed, id=f"{subject}-{seed}") for subject in SUBJECTS for seed in range(CLUSTERS)]
"""50 inputs for each rule."""
OUTPUTS = ("table", "wide", "name", "json", "yaml")


def options(command: str) -> dict[str, click.Option]:
    """Return the options of a command by each of their names."""
    found = main.get_command(click.Context(main), command)
    assert found is not None
    return {name: each for each in found.params if isinstance(each, click.Option) for name in each.opts}


def top(path: str, *words: str) -> Any:
    """Return what ``top`` says of a cluster of all namespaces, as plain values."""
    result = run("top", *words, "-A", "-o", "json", "--cluster", path)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def name_of(subject: str, row: dict[str, Any]) -> str:
    """Return the name of a row that says which one it is."""
    names = {"nodes": "{node}", "cards": "{node}/{card}", "models": "{model}", "pods": "{namespace}/{pod}"}
    return names.get(subject, "{namespace}").format(**row)


def lines(path: str, *words: str) -> list[str]:
    """Return the lines that ``top`` prints."""
    return run("top", *words, "-A", "--cluster", path).stdout.splitlines()


@pytest.fixture
def made(seed: int, tmp_path: Path) -> str:
    return write(cluster(np.random.default_rng(seed)), tmp_path)


# -l --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("subject", "seed"), CASES)
def test_selectors_choose_by_the_labels_of_nodes_pods_and_namespaces(subject: str, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(rng)
    path = write(objects, tmp_path)
    kind = {"pods": "Pod", "namespaces": "Namespace"}.get(subject, "Node")
    labels = {
        (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj["metadata"]["labels"]
        for obj in objects
        if obj["kind"] == kind
    }
    everything = top(path, subject)
    for text in {selector(rng) for _ in range(5)}:
        found = top(path, subject, "-l", text)
        chosen = {where for where, given in labels.items() if matches(text, given)}
        if subject == "models":
            assert sum(row["cards"] for row in found) == sum(
                row["cards"] for row in top(path, "nodes") if ("", row["node"]) in chosen
            )
            continue
        key = {
            "pods": lambda row: (row["namespace"], row["pod"]),
            "namespaces": lambda row: ("", row["namespace"]),
        }.get(subject, lambda row: ("", row["node"]))
        assert found == [row for row in everything if key(row) in chosen]


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("wrong", ["a==b==c", "pool in", "pool in (a", ",", "a=b,", "!", "(a)", "a in b", "=x"])
def test_selectors_that_are_none_are_refused_before_anything_is_read(subject: str, wrong: str) -> None:
    result = run("top", subject, "-l", wrong, "--kubeconfig", "/nowhere")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "-l: " in result.stderr


# --sort-by, --no-headers, -o name --------------------------------------------------------------------------------


@pytest.mark.parametrize(("subject", "seed"), CASES)
def test_rows_are_sorted_by_any_column(subject: str, seed: int, made: str) -> None:
    del seed
    everything = top(made, subject)
    for column in TABLES[subject].listed:
        found = top(made, subject, "--sort-by", column.name.upper())
        assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, everything))
        values = _values(found, column.name)
        if values is not None:
            numbers = not any(isinstance(value, str) for value in values)
            assert all(a >= b if numbers else a <= b for a, b in pairwise(values)), (column.name, values)


def _values(rows: list[dict[str, Any]], column: str) -> list[Any] | None:
    """Return what rows have in a column, of those that say it under its name."""
    values = [row.get(column) for row in rows]
    if any(value is None for value in values):
        return None
    return [
        value["used"] if isinstance(value, dict) else len(value) if isinstance(value, list) else value
        for value in values
    ]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_columns_that_are_not_there_are_refused_with_those_that_are(subject: str) -> None:
    result = run("top", subject, "--sort-by", "memroy", "--kubeconfig", "/nowhere")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no column memroy" in result.stderr
    assert all(column.name in result.stderr for column in TABLES[subject].listed)


@pytest.mark.parametrize(("subject", "seed"), CASES)
def test_without_headers_there_are_rows_alone(subject: str, seed: int, made: str) -> None:
    del seed
    count = len(top(made, subject))
    for output in ("table", "wide"):
        found = lines(made, subject, "-o", output, "--no-headers")
        assert len(found) == count
        if count:
            head, *rest = lines(made, subject, "-o", output)
            assert head == head.upper()
            wide = output == "wide"  # long names are not cut there, however wide the heads are
            assert not wide or [re.split(r"\s{2,}", each) for each in found] == [
                re.split(r"\s{2,}", each) for each in rest[:count]
            ]


@pytest.mark.parametrize(("subject", "seed"), CASES)
def test_names_name_what_the_rows_are_and_are_understood(subject: str, seed: int, made: str) -> None:
    del seed
    rows = top(made, subject)
    names = lines(made, subject, "-o", "name")
    assert names == [f"{subject[:-1]}/{name_of(subject, row)}" for row in rows]
    for name, row in zip(names, rows, strict=True):
        (found,) = top(made, subject, name)
        assert {key: found[key] for key in row if key not in {"cards", "pods"}} == {
            key: value for key, value in row.items() if key not in {"cards", "pods"}
        }
        assert top(made, subject, name.partition("/")[2]) == [found]


@pytest.mark.parametrize(("subject", "seed"), CASES)
def test_json_and_yaml_say_the_same(subject: str, seed: int, made: str) -> None:
    del seed
    text = run("top", subject, "-A", "-o", "yaml", "--cluster", made).stdout
    assert yaml.safe_load(text) == top(made, subject)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_is_not_there_is_told_with_what_is_meant(subject: str, tmp_path: Path) -> None:
    path = write(cluster(np.random.default_rng(7)), tmp_path)
    result = run("top", subject, "no-such-thing", "-A", "--cluster", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no-such-thing" in result.stderr


# Outputs and their widths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_whoever_has_json_has_yaml_and_lists_have_all_outputs(command: str) -> None:
    output = options(command).get("--output")
    if output is None:
        return
    assert isinstance(output.type, click.Choice)
    assert {"json", "yaml"} <= set(output.type.choices)
    if "--sort-by" in options(command):
        assert tuple(output.type.choices) == OUTPUTS
        assert {"-l", "--no-headers"} <= options(command).keys()


@pytest.mark.parametrize("seed", range(12))
def test_tables_fit_120_columns_unless_they_are_wide(seed: int, made: str, tmp_path: Path) -> None:
    del seed
    waits = tmp_path / "pod.yaml"
    waits.write_text(yaml.safe_dump(pod("new-" + "pod" * 30, {GPU: 2, MEMORY: 70000})))
    questions = [
        *(("top", subject, "-A") for subject in SUBJECTS),
        *(("top", "nodes", name.partition("/")[2]) for name in lines(made, "nodes", "-o", "name")[:2]),
        ("simulate", "-f", str(waits)),
        ("simulate", "-f", str(waits), "--explain"),
        ("simulate", "-f", str(waits), "--count", "3"),
        ("simulate", "--pending", "-A"),
        ("defrag",),
        *(("explain", key) for key in _pods_of(made)),
    ]
    for words in questions:
        result = run(*words, "--cluster", made)
        table = [line for line in result.stdout.splitlines() if re.search(r"\S {2,}[^\s#]", line)]
        assert [line for line in table if len(line) > 120] == [], words
    for subject in SUBJECTS:
        assert "…" not in run("top", subject, "-A", "-o", "wide", "--cluster", made).stdout


def _pods_of(path: str) -> list[str]:
    """Return the names of two pods."""
    objects = json.loads(Path(path).read_text())["items"]
    return ["{namespace}/{name}".format(**obj["metadata"]) for obj in objects if obj["kind"] == "Pod"][-2:]


@pytest.mark.parametrize("seed", range(10))
def test_amounts_have_their_units(seed: int, made: str) -> None:
    del seed
    for subject in SUBJECTS:
        found = lines(made, subject, "-o", "wide")
        if len(found) < 2:
            continue
        head = found[0]
        starts = [match.start() for match in re.finditer(r"\S+", head)]
        for line in found[1:]:
            cells = dict(zip(head.split(), (line[a:b].strip() for a, b in pairwise([*starts, None])), strict=True))
            for name, cell in cells.items():
                if name.startswith("MEM") and not name.endswith("%"):
                    assert re.fullmatch(r"\d+(/\d+)?Mi", cell), (name, cell)
                elif name.startswith("CORES") or name.endswith("%") or name == "FRAG":
                    assert re.fullmatch(r"\d+(/\d+)?%", cell), (name, cell)


# Nodes in one look, and models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_nodes_that_are_named_are_shown_with_their_cards_and_pods(seed: int, made: str) -> None:
    del seed
    cards, pods = top(made, "cards"), top(made, "pods")
    for row in top(made, "nodes"):
        (found,) = top(made, "nodes", row["node"])
        theirs = [card for card in cards if card["node"] == row["node"]]
        assert found["cards"] == theirs
        assert found["pods"] == [held for held in pods if held["node"] == row["node"]]
        text = run("top", "node", row["node"], "-o", "wide", "--cluster", made).stdout
        assert all(card["card"] in text for card in theirs)
        assert all(held["pod"] in text for held in found["pods"])


@pytest.mark.parametrize("seed", range(20))
def test_models_are_the_sums_of_their_cards(seed: int, made: str) -> None:
    del seed
    cards = top(made, "cards")
    models = top(made, "models")
    assert {row["model"] for row in models} == {card["model"] for card in cards}
    for row in models:
        theirs = [card for card in cards if card["model"] == row["model"]]
        ready = [card for card in theirs if card["state"] == "ready"]
        assert row["cards"] == len(theirs)
        for state in ("unhealthy", "cordoned"):
            assert row[state] == sum(card["state"] == state for card in theirs)
        for resource in ("memory", "cores"):
            for amount in ("used", "total"):
                assert row[resource][amount] == sum(card[resource][amount] for card in theirs)
            assert row[f"free_{resource}"] == sum(card[resource]["free"] for card in ready)
        assert row["pods"] == len({name for card in theirs for name in card["pods"]})


# -n and -A -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["top", "simulate"])
@pytest.mark.parametrize("own", ["", "default", "team-1", "nobody"])
@pytest.mark.parametrize(
    "flags", [(), ("-n", "team-1"), ("-n", "team-2"), ("-A",), ("-A", "-n", "team-1"), ("-n", "x")]
)
def test_namespaces_are_meant_as_kubectl_means_them(
    api: Api, tmp_path: Path, command: str, own: str, flags: tuple[str, ...]
) -> None:
    spaces = ("default", "team-1", "team-2")
    for space in spaces[1:]:
        bound, waits = running(f"r-{space}", "a", "GPU-a-0", 100), pod(f"w-{space}", {GPU: 1, MEMORY: 100})
        for made in (bound, waits):
            made["metadata"]["namespace"] = space
        api.objects += [bound, waits]
    words = {"top": ("top", "pods"), "simulate": ("simulate", "--pending")}[command]
    result = run(*words, *flags, "-o", "json", "--kubeconfig", kubeconfig(tmp_path, own))
    found = {row.get("namespace") or row["pod"].partition("/")[0] for row in json.loads(result.stdout)}
    named = flags[1:] if flags[:1] == ("-n",) else (own or "default",)
    assert found == (set(spaces) if "-A" in flags else set(spaces) & set(named))


@pytest.mark.parametrize("command", COMMANDS)
def test_whoever_has_all_namespaces_has_one(command: str) -> None:
    found = options(command)
    if "-A" in found:
        assert "-n" in found
        assert found["-n"].opts == ["-n", "--namespace"]


def test_those_in_other_namespaces_are_pointed_at(api: Api, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "nobody")
    said = run("top", "pods", "--kubeconfig", config).stdout
    assert said == "no pods in namespace nobody hold cards; 1 in other namespaces do: -A shows them\n"
    said = run("simulate", "--pending", "--kubeconfig", config).stdout
    assert said == "no pod waits in namespace nobody; 2 in other namespaces do: -A places them, too\n"


@pytest.mark.parametrize("seed", range(60))
def test_namespaces_are_listed_with_how_their_quotas_stand(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(rng)
    spaces = sorted({each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"} | {"idle"})
    limits = {space: {name: int(rng.integers(0, 9000)) for name in ("gpumem", "gpucores")} for space in spaces}
    for space, hard in limits.items():
        written = {f"limits.nvidia.com/{name}": str(limit) for name, limit in hard.items()}
        metadata = {"name": "q", "namespace": space}
        objects.append({"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": written}})
    path = write(objects, tmp_path)
    table = run("top", "namespaces", "--cluster", path, "-o", "wide").stdout
    for row in json.loads(run("top", "namespaces", "--cluster", path, "-o", "json").stdout):
        line = next(each for each in table.splitlines() if each.startswith(f"{row['namespace']} "))
        hard = limits[row["namespace"]]
        assert f"gpumem {row['memory']}/{hard['gpumem']}Mi, gpucores {row['cores']}/{hard['gpucores']}%" in line
        assert [(each["resource"], each["limit"]) for each in row["quotas"]] == [
            (f"nvidia.com/{name}", limit) for name, limit in hard.items()
        ]
        spaces.remove(row["namespace"])
    assert spaces == []


@pytest.mark.parametrize("seed", range(60))
def test_pods_that_wait_are_placed_by_their_labels(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    objects, chosen = cluster(rng), selector(rng)
    path = write(objects, tmp_path)
    waiting = [each["metadata"] for each in objects if each["kind"] == "Pod" and "nodeName" not in each["spec"]]
    wanted = {f"{each['namespace']}/{each['name']}" for each in waiting if matches(chosen, each["labels"])}
    result = run("simulate", "--pending", "-A", "-l", chosen, "--cluster", path, "-o", "json")
    assert {answer["pod"] for answer in json.loads(result.stdout)} == wanted


def test_labels_choose_among_pods_that_wait_only(api: Api) -> None:
    assert "-l is for --pending" in run("simulate", "-f", "-", "-l", "a=b").stderr
    assert run("simulate", "--pending", "-l", "a=b").stdout == "no pod with the labels of -l waits\n"
    assert "-l: " in run("simulate", "--pending", "-l", "a=(").stderr
