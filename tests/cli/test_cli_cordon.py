"""``vgpu-scheduler cordon`` and ``uncordon``: which cards are found, and what is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.live_cluster import KINDS, Api, run
from tests.whatif.test_whatif_remedies import node


def test_cards_are_cordoned_by_the_annotation_of_their_dialect(api: Api) -> None:
    assert run("cordon", "card", "GPU-a-0").stdout == "card a/GPU-a-0 cordoned\n"
    (path, body) = api.patches.pop()
    assert path == "/api/v1/nodes/a"
    annotations = {"hami.io/device-cordon": "GPU-a-1,GPU-a-0"}
    assert body == {"metadata": {"resourceVersion": "7", "annotations": annotations}}
    api.conflicts = 2
    assert run("uncordon", "GPU-a-1").stdout == "card a/GPU-a-1 uncordoned\n"
    assert api.patches.pop()[1]["metadata"]["annotations"] == {"hami.io/device-cordon": "GPU-a-0"}
    assert run("uncordon", "GPU-a-0").stdout == "card a/GPU-a-0 uncordoned\n"
    assert api.patches.pop()[1]["metadata"]["annotations"] == {"hami.io/device-cordon": None}
    assert run("uncordon", "GPU-a-1").stdout == "card a/GPU-a-1 is uncordoned already\n"
    assert not api.patches


NODES = "GET /api/v1/nodes"


def test_nodes_are_listed_once_for_all_cards_and_written_once_each(api: Api) -> None:
    api.objects.append(node("b", cards=2))
    result = run("cordon", "cards", "GPU-b-0", "a/GPU-a-0", "GPU-b-1", "GPU-a-1", "GPU-b-0")
    assert result.stdout.splitlines() == [
        "card b/GPU-b-0 cordoned",
        "card b/GPU-b-1 cordoned",
        "card a/GPU-a-0 cordoned",
        "card a/GPU-a-1 is cordoned already",
    ]
    assert [request for request in api.requests if "/nodes" in request] == [
        NODES,
        "PATCH /api/v1/nodes/b",
        "PATCH /api/v1/nodes/a",
    ]
    assert api.patches[0][1]["metadata"]["annotations"] == {"hami.io/device-cordon": "GPU-b-0,GPU-b-1"}


def test_a_conflict_reads_the_node_alone_again(api: Api) -> None:
    api.conflicts = 1
    assert run("cordon", "GPU-a-0").exit_code == 0
    patch, again = "PATCH /api/v1/nodes/a", "GET /api/v1/nodes/a"
    assert [request for request in api.requests if "/nodes" in request] == [NODES, patch, again, patch]
    api.conflicts = 9
    result = run("uncordon", "GPU-a-0")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "node a: it changes too often; try again" in result.stderr


def test_a_name_that_is_no_card_keeps_everything_from_being_written(api: Api) -> None:
    result = run("cordon", "GPU-a-0", "GPU-a-7")
    assert (result.exit_code, result.stdout, api.patches) == (2, "", [])
    assert "there is no card GPU-a-7" in result.stderr


def test_cards_of_koordinator_are_found_by_the_name_that_is_shown(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"type": "gpu", "minor": 0, "id": "GPU-k", "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
    path = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
    monkeypatch.setitem(KINDS, path, "Device")
    api.objects += [node("k", cards=0), {"kind": "Device", "metadata": {"name": "k"}, "spec": {"devices": [gpu]}}]
    api.settings = "dialects: [hami, koordinator]\n"
    shown = next(line.split()[1] for line in run("top", "cards").stdout.splitlines() if line.startswith("k "))
    for name in (shown, f"k/{shown}"):
        result = run("cordon", name)
        assert (result.exit_code, api.patches) == (2, [])
        assert f"card {shown} has no annotation that cordons it; cordon node k" in result.stderr


def test_cards_that_cannot_be_cordoned_are_refused(api: Api) -> None:
    assert "there is no card GPU-x" in run("cordon", "GPU-x").stderr
    card = "x,10,8192,NVIDIA-T4,true,hami-core:y,10,8192,NVIDIA-T4,true,hami-core:"
    advertised = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "8192", "volcano.sh/vgpu-cores": "100"}
    api.objects.append(
        {
            "kind": "Node",
            "metadata": {"name": "v", "annotations": {"volcano.sh/node-vgpu-register": card}},
            "status": {"allocatable": advertised},
        }
    )
    api.settings = "dialects: [hami, volcano]\n"
    result = run("cordon", "x")
    assert (result.exit_code, api.patches) == (2, [])
    assert "card x has no annotation that cordons it; cordon node v\n" in result.stderr
    both = run("cordon", "x", "GPU-a-0", "y")
    assert (both.exit_code, api.patches) == (2, [])
    assert "cards x, y have no annotation that cordons them; cordon node v\n" in both.stderr


@pytest.mark.parametrize("command", ["cordon", "uncordon"])
@pytest.mark.parametrize(
    ("dry_run", "told"),
    [
        ([], "to which nothing is written: add --dry-run"),
        (["--dry-run=none"], "to which nothing is written: add --dry-run"),
        (["--dry-run=server"], "which no API server can check: write --dry-run=client"),
        (["--dry-run=client"], ""),
        (["--dry-run"], ""),
    ],
)
def test_what_a_copy_can_be_asked(command: str, dry_run: list[str], told: str, api: Api, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert run("snapshot", "-f", str(path)).exit_code == 0
    result = run(command, "GPU-a-0", "--cluster", str(path), *dry_run)
    assert (result.exit_code, told in result.stderr) == (2 if told else 0, True)
    assert not api.patches


@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize("nodes", [1, 2])
def test_who_names_the_node_already_is_told_to_write_more_of_the_card(api: Api, nodes: int, cards: int) -> None:
    api.objects[:] = [node(name, cards) for name in ("a", "b")[:nodes]]
    named = run("cordon", "card", "a/GPU", "--dry-run")
    assert ("may be a/GPU-a-0, a/GPU-a-1: write a longer part of its name\n" in named.stderr) is (cards == 2)
    alone = run("cordon", "card", "GPU", "--dry-run")
    assert (": write a longer part of its name, or NODE/CARD\n" in alone.stderr) is (nodes == 2)
    of_node = run("top", "cards", "a")
    assert ("may be a/GPU-a-0, a/GPU-a-1: write a longer part of its name; a is a node" in of_node.stderr) is (
        cards == 2
    )


@pytest.mark.parametrize("name", ["node-x", "GPU"])
@pytest.mark.parametrize("hostname", ["", "x.example"])
def test_who_names_a_node_is_told_how_to_list_its_cards(api: Api, name: str, hostname: str) -> None:
    there = node("a", 2)
    there["metadata"] |= {"name": name, "labels": {"kubernetes.io/hostname": hostname} if hostname else {}}
    api.objects[:] = [there]
    said = run("top", "cards", name).stderr
    how = "`vgpu-scheduler top cards -l kubernetes.io/hostname=x.example` lists its cards"
    assert f"; {name} is a node{f': {how}' if hostname else ''}\n" in said
    if hostname:
        assert "GPU-a-1" in run("top", "cards", "-l", f"kubernetes.io/hostname={hostname}").stdout


@pytest.mark.parametrize("without", [0, 1, 2])
def test_nodes_without_cards_that_have_the_labels_are_counted_where_there_are_some(api: Api, without: int) -> None:
    labelled = [node(f"n{number}", 0, labels={"pool": "x"}) for number in range(without)]
    api.objects[:] = [node("a"), *labelled]
    told = run("cordon", "-l", "pool=x", "--dry-run").stderr
    assert "no node with cards has the labels of -l" in told
    counted = f" ({without} node{'' if without == 1 else 's'} without)"
    assert (counted in told) is (without > 0)
    assert "(0 nodes" not in told


def test_names_and_labels_together_are_refused(api: Api) -> None:
    result = run("cordon", "card", "GPU-a-0", "-l", "pool=x")
    assert result.exit_code == 2
    assert "-l selects nodes by their labels: leave GPU-a-0 out, or -l" in result.stderr
    assert not api.patches
