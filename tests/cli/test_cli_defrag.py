"""``defrag``: which cards are to be freed, and what is said first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.listed_clusters import cluster, matches, selector, write
from tests.cli.live_cluster import run
from tests.whatif.test_whatif_defrag import owned
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running


def movable(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return a cluster whose pods all have controllers."""
    return [owned(each) if each["kind"] == "Pod" else each for each in cluster(rng)]


@pytest.mark.parametrize("seed", range(50))
def test_only_chosen_cards_are_freed(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    objects = movable(rng)
    path = write(objects, tmp_path)
    cards = json.loads(run("top", "cards", "-A", "-o", "json", "--cluster", path).stdout)
    models = sorted({card["model"] for card in cards})
    model, labels = str(rng.choice(models))[: int(rng.choice([6, 12]))].lower(), selector(rng)
    nodes = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in objects if each["kind"] == "Node"}
    words = ("defrag", "--cluster", path, "--model", model, "-l", labels)
    plan = json.loads(run(*words, "-o", "json").stdout)
    by_name = {(card["node"], card["card"]): card["model"] for card in cards}
    for each in plan["freed"]:
        assert model in by_name[each["node"], each["card"]].lower()
        assert matches(labels, nodes[each["node"]])
    named_alone = run(*words, "-o", "name")
    meant = [each for each in models if model in each.lower()]
    several = f"--model {model} is a part of {len(meant)} models, and all of them count: {', '.join(meant)}"
    assert (several in named_alone.stderr) is (len(meant) > 1)
    named = named_alone.stdout.split()
    assert named == [f"card/{each['node']}/{each['card']}" for each in plan["freed"]]


@pytest.mark.parametrize("seed", range(50))
def test_cards_are_idle_as_top_tells_whatever_pods_wait(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 3))
    nodes = [node("a", cards=count), node("b", cards=int(rng.integers(1, 3)))]
    placed = [
        owned(running(f"r{card}", "a", f"GPU-a-{card}", int(rng.integers(1, 12)) * 1000))
        for card in range(count)
        if rng.random() < 0.4
    ]
    wait = [
        owned(pod(f"w{number}", {GPU: 1, MEMORY: int(rng.integers(1, 17)) * 1000}, schedulerName="vgpu-scheduler"))
        for number in range(int(rng.integers(0, 3)))
    ]
    path = write([*nodes, *placed, *wait], tmp_path)
    there = json.loads(run("top", "cards", "-A", "-o", "json", "--cluster", path).stdout)
    idle = sum(not card["pods"] for card in there)
    simulated = json.loads(run("simulate", "--pending", "-A", "-o", "json", "--cluster", path).stdout)
    taken = {(each["node"], card["device"]) for each in simulated for (card,) in each["containers"]}
    taken_idle = sum((card["node"], card["card"]) in taken for card in there if not card["pods"])
    plan = json.loads(run("defrag", "--cluster", path, "-o", "json").stdout)
    assert (plan["idle"], plan["idle_taken"]) == (idle, taken_idle)
    assert sum(plan["stay"].values()) <= len(there) - idle
    if not plan["freed"] and idle:
        told = run("defrag", "--cluster", path).stdout
        assert ("the only card" if idle == 1 and not plan["stay"] else str(idle)) in told
        assert ("now" in told) == bool(taken_idle)


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = run("defrag", "--cluster", write([node("a")], tmp_path), "--model", "H200")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--model: no card is a H200; there are NVIDIA-A100" in result.stderr


@pytest.mark.parametrize("flag", ["--model", "-l"])
def test_what_chooses_cards_is_not_for_one_pod(flag: str, tmp_path: Path) -> None:
    result = run("defrag", "--cluster", write([node("a")], tmp_path), "--for", "p", flag, "x")
    assert result.exit_code == 2
    assert "--for frees what its pod needs" in result.stderr


def test_of_a_plan_that_does_not_help_the_verdict_is_all(tmp_path: Path) -> None:
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 4000)),
        owned(running("large", "a", "GPU-a-1", 9000)),
        pod("new", {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler"),
        pod("urgent", {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler", priority=9),
    ]
    result = run("defrag", "--for", "new", "--cluster", write(objects, tmp_path))
    assert result.exit_code == 1
    assert result.stdout == (
        "default/new would not get a place: 1 move makes room on a/GPU-a-0, and default/urgent takes it, which waits,"
        " too, and is served first.\n"
    )
    named = run("defrag", "--for", "new", "-o", "name", "--cluster", write(objects, tmp_path))
    assert (named.exit_code, named.stdout) == (1, "")
    objects[-2]["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
    result = run("defrag", "--for", "new", "--cluster", write(objects, tmp_path))
    assert result.stdout == "No moves help default/new: it is waiting for scheduling gates: [example.com/g]\n"


@pytest.mark.parametrize("seed", range(12))
def test_of_two_pods_one_at_most_is_told_that_the_other_is_served_first(seed: int, tmp_path: Path) -> None:
    """Of pods of one priority and one second nobody can say which it is: objects tell seconds only."""
    rng = np.random.default_rng(seed)
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 4000)),
        owned(running("large", "a", "GPU-a-1", 9000)),
    ]
    ranks = []
    for name in ("x", "y"):
        priority, second = int(rng.integers(0, 2)), int(rng.integers(10, 12))
        made = pod(name, {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler", priority=priority)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second}Z"
        objects.append(made)
        ranks.append((-priority, second))
    path = write(objects, tmp_path)
    for name, other, mine, theirs in (("x", "y", *ranks), ("y", "x", *ranks[::-1])):
        told = run("defrag", "--for", name, "--cluster", path).stdout
        plain = json.loads(run("defrag", "--for", name, "--cluster", path, "-o", "json").stdout)
        assert (f"default/{other} takes it, which waits, too, and is served first" in told) == (theirs < mine)
        assert (f"default/{other} may take it" in told) == (theirs == mine)
        assert ("which of them is served first is not known" in told) == (theirs == mine)
        assert plain.get("asOld", []) == [f"default/{other}"] * (theirs == mine)


def test_pods_that_fit_now_and_have_the_room_are_named(tmp_path: Path) -> None:
    objects = [
        node("a", cards=2),
        owned(running("small", "a", "GPU-a-0", 4000)),
        owned(running("other", "a", "GPU-a-0", 4000)),
        pod("new", {GPU: 2, MEMORY: 8000}, schedulerName="vgpu-scheduler"),
        pod("fits", {GPU: 1, MEMORY: 16384}, schedulerName="vgpu-scheduler"),
    ]
    result = run("defrag", "--for", "new", "--cluster", write(objects, tmp_path))
    first, second = result.stdout.splitlines()
    assert (result.exit_code, "even without all pods that can be moved" in first) == (1, True)
    assert second == "All moves leave its place to default/fits, which waits, too, and fits now."
    again = run("defrag", "--for", "new", "--cluster", write(objects[:-1], tmp_path))
    assert "All moves leave" not in again.stdout


@pytest.mark.parametrize(("number", "said"), [(1, "1 pod cannot be moved: it"), (3, "3 pods cannot be moved: each")])
def test_why_pods_stay_is_said_where_no_move_helps(number: int, said: str, tmp_path: Path) -> None:
    objects = [node("a", cards=3), *(running(f"p{n}", "a", f"GPU-a-{n}", 4000) for n in range(number))]
    objects.append(pod("new", {GPU: 3, MEMORY: 16000}, schedulerName="vgpu-scheduler"))
    asked = ("defrag", "--for", "new", "--cluster", write(objects, tmp_path))
    why = "has no controller that would recreate it"
    assert run(*asked).stdout.splitlines()[1:] == [f"{said} {why}."]
    assert json.loads(run(*asked, "-o", "json").stdout)["stay"] == {why: number}


def test_why_cards_keep_their_pods_is_said_of_those_that_no_move_is_planned_for(tmp_path: Path) -> None:
    """The cards of other vendors cannot be cordoned one by one; those of nodes that are closed get no pod back."""
    ascend = {"count": 4, "devmem": 32768, "devcore": 20, "type": "Ascend910B4", "numa": 0, "health": True}
    listed = json.dumps([{"id": "asc-0", "index": 0, **ascend}, {"id": "asc-1", "index": 1, **ascend}])
    other = node("n", cards=0)
    other["metadata"]["annotations"] = {"hami.io/node-register-Ascend910B4": listed}
    other["status"]["allocatable"]["huawei.com/Ascend910B4"] = "8"
    made = owned(pod("p", {"huawei.com/Ascend910B4": 1, "huawei.com/Ascend910B4-memory": 8192}))
    made["spec"]["nodeName"] = "n"
    made["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "n",
        "hami.io/Ascend910B4-devices-allocated": "asc-0,Ascend910B4,8192,5:;",
    }
    closed = node("a")
    closed["spec"] = {"unschedulable": True}
    objects = [other, made, closed, owned(running("small", "a", "GPU-a-0", 4000)), node("b")]
    result = run("defrag", "--cluster", write(objects, tmp_path))
    assert (result.exit_code, result.stdout) == (1, "No card can be freed: 4 are idle already.\n")
    assert "1 card keeps its pods (its node takes no pods)." in result.stderr
    assert "1 card keeps its pods (single cards of its vendor cannot be cordoned" in result.stderr


def test_a_card_out_of_service_keeps_its_pods(tmp_path: Path) -> None:
    ill = node("a", cards=1)
    ill["metadata"]["annotations"]["hami.io/device-cordon"] = "GPU-a-0"
    result = run("defrag", "--cluster", write([ill, owned(running("small", "a", "GPU-a-0", 4000))], tmp_path))
    assert (result.exit_code, result.stdout) == (1, "No card can be freed.\n")
    assert "1 card keeps its pods (the card is out of service)." in result.stderr
    result = run("defrag", "--cluster", write([{**ill, "metadata": {"name": "a"}}], tmp_path))
    assert result.stdout == "No card can be freed: no card has pods.\n"
