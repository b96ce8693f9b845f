"""Names: cards by beginnings of theirs, what cordon would do to them, and what a shell offers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from tests.cli.listed_clusters import cluster, write
from tests.cli.live_cluster import Api, run
from tests.seeds import seeds
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.cli.kubectl_completion import completions
from vgpu_scheduler.cli.main import COMMANDS, main

CLUSTERS = 4


def cards_of(objects: list[dict[str, Any]]) -> dict[str, str]:
    """Return the node of each card."""
    notes = {obj["metadata"]["name"]: obj["metadata"]["annotations"] for obj in objects if obj["kind"] == "Node"}
    return {
        card["id"]: name
        for name, annotations in notes.items()
        for card in json.loads(annotations["hami.io/node-nvidia-register"])
    }


def beginnings(cards: dict[str, str], rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """Yield words, and the cards that each may mean."""
    for uuid, name in cards.items():
        for whole in (uuid, f"{name}/{uuid}"):
            for length in {len(whole), *rng.integers(1, len(whole), size=3).tolist()}:
                word = whole[:length]
                known = {f"{where}/{other}": (other, f"{where}/{other}") for other, where in cards.items()}
                exact = [full for full, names in known.items() if word in names]
                yield word, exact or [full for full, names in known.items() if any(n.startswith(word) for n in names)]


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, CLUSTERS))
@pytest.mark.parametrize("words", [("cordon", "--dry-run"), ("uncordon", "card", "--dry-run"), ("top", "cards")])
def test_a_beginning_that_one_card_has_names_it(seed: int, words: tuple[str, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(rng)
    path, cards = write(objects, tmp_path), cards_of(objects)
    counts = {1: 0, 2: 0}
    for word, meant in beginnings(cards, rng):
        for written in (word, f"card/{word}", f"{word}…"):
            output = ("-o", "name") if words[0] == "top" else ()
            result = run(words[0], *words[1:], written, *output, "--cluster", path)
            counts[min(len(meant), 2)] += 1
            if len(meant) > 1:
                assert (result.exit_code, result.stdout) == (2, "")
                listed = result.stderr.partition(" may be ")[2].partition(":")[0]
                more = f" and {len(meant) - 10} more" if len(meant) > 10 else ""
                assert listed == ", ".join(meant[:10]) + more
            else:
                assert result.exit_code == 0, result.stderr
                assert meant[0] in result.stdout
    assert counts[1] > 10 or len(cards) == 1


@pytest.mark.parametrize("word", ["gpu-a-0", "a/", "A/GPU", "GPU-b", "card/", "…", "/GPU-a-0"])
def test_what_begins_no_card_or_several_is_refused(api: Api, word: str) -> None:
    result = run("cordon", word)
    assert (result.exit_code, result.stdout, api.patches) == (2, "", [])
    assert "GPU-a-0, a/GPU-a-1" in result.stderr if word == "a/" else "there is no card" in result.stderr


# --dry-run -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["cordon", "uncordon"])
@pytest.mark.parametrize(("flags", "said"), [(("--dry-run",), "dry run"), (("--dry-run=client",), "dry run"),
                                             (("--dry-run=server",), "server dry run")])  # fmt: skip
def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    api: Api, command: str, flags: tuple[str, ...], said: str
) -> None:
    before = json.dumps(api.objects)
    result = run(command, "GPU-a-0", "GPU-a-1", *flags)
    cordoned = {"cordon": ("cordoned", "is cordoned already"), "uncordon": ("is uncordoned already", "uncordoned")}
    assert result.stdout.splitlines() == [
        f"card a/GPU-a-{number} {done} ({said})" for number, done in enumerate(cordoned[command])
    ]
    assert (json.dumps(api.objects), api.patches) == (before, [])
    assert ("PATCH /api/v1/nodes/a" in api.requests) == (said == "server dry run")
    assert run(command, "GPU-a-0", "GPU-a-1").stdout.replace("\n", f" ({said})\n") == result.stdout


@pytest.mark.parametrize("flags", [(), ("--dry-run=server",), ("--dry-run=none",)])
def test_nothing_is_written_to_a_copy(tmp_path: Path, flags: tuple[str, ...]) -> None:
    path = write([node("a")], tmp_path)
    result = run("cordon", "GPU-a-0", "--cluster", path, *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    server = flags == ("--dry-run=server",)
    said = (
        "which no API server can check: write --dry-run=client"
        if server
        else "to which nothing is written: add --dry-run"
    )
    assert f"--cluster reads files, {said}" in result.stderr


# What a shell offers ---------------------------------------------------------------------------------------------


def offered(*words: str) -> list[str]:
    """Return what kubectl is told of names."""
    *found, directive = completions(words)
    assert directive == ":4"
    return found


def expected(objects: list[dict[str, Any]], what: str, namespace: str | None) -> list[str]:
    """Return the names of a kind in a cluster."""
    if what == "cards":
        return [name for uuid, node in cards_of(objects).items() for name in (uuid, f"{node}/{uuid}")]
    kind = {"nodes": "Node", "pods": "Pod", "namespaces": "Namespace"}[what]
    every = [obj["metadata"] for obj in objects if obj["kind"] == kind]
    if kind != "Pod":
        return [meta["name"] for meta in every]
    if namespace is None:
        return [f"{meta['namespace']}/{meta['name']}" for meta in every]
    return [meta["name"] for meta in every if meta["namespace"] == namespace]


PLACES: list[tuple[tuple[str, ...], str]] = [
    (("top", "nodes"), "nodes"),
    (("top", "cards"), "cards"),
    (("top", "pods"), "pods"),
    (("top", "namespaces"), "namespaces"),
    (("explain",), "pods"),
    (("explain", "pod"), "pods"),
    (("explain", "p", "--node"), "nodes"),
    (("defrag", "--for"), "pods"),
    (("cordon",), "cards"),
    (("uncordon", "card"), "cards"),
    (("top", "pods", "-n"), "namespaces"),
    (("explain", "-n"), "namespaces"),
    (("simulate", "--pending", "-n"), "namespaces"),
]
"""Where a name is completed, and of what."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("words", "what"), PLACES, ids=[" ".join(words) for words, _ in PLACES])
@pytest.mark.parametrize("live", [False, True], ids=["files", "live"])
def test_names_are_offered_wherever_one_is_asked_for(
    seed: int, words: tuple[str, ...], what: str, *, live: bool, tmp_path: Path, api: Api
) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(rng)
    api.objects[:] = objects
    first, *rest = words
    source = () if live else ("--cluster", write(objects, tmp_path))
    spaces = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"]
    namespace = str(rng.choice(spaces)) if what == "pods" else None
    chosen = () if namespace is None else ("-n", namespace)
    names = expected(objects, what, namespace)
    for begun in ("", *(name[: int(rng.integers(1, len(name) + 1))] for name in names[:3])):
        found = offered(first, *source, *chosen, *rest, begun)
        assert found == sorted({name for name in names if name.startswith(begun)})
    if what == "pods":
        begun = f"{namespace}/"
        assert offered(first, *source, *rest, begun) == sorted(f"{begun}{name}" for name in names)


@pytest.mark.parametrize("command", COMMANDS)
def test_whoever_takes_a_namespace_offers_them(command: str) -> None:
    found = main.get_command(click.Context(main), command)
    assert found is not None
    for parameter in found.params:
        if "--namespace" in parameter.opts:
            assert parameter._custom_shell_complete is not None


@pytest.mark.parametrize("words", [("top", "nodes"), ("top", "pods"), ("cordon",), ("explain", "-n")])
def test_a_cluster_that_cannot_be_read_offers_nothing_and_says_nothing(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken").write_text("{")
    first, *rest = words
    assert offered(first, "--cluster", str(tmp_path / "broken"), *rest, "") == []
    assert offered(first, "--kubeconfig", str(tmp_path / "none"), *rest, "") == []
    assert capsys.readouterr() == ("", "")
