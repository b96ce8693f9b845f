"""``simulate`` keeps the room of pods that wait for longer than ``groups.holdAfter``, whatever it is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.simulated import pod, policy, run, write
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running

from vgpu_scheduler.cli import main

pytestmark = pytest.mark.usefixtures("folder")
CARD = 16384
GROUP = "pod-group.scheduling.sigs.k8s.io"
SINCE = "2026-01-01T00:00:00Z"
NOW = "2026-01-02T00:00:00Z"
Object = dict[str, Any]


def waits(name: str, limits: Object, namespace: str = "default", priority: int = 0, **labels: str) -> Object:
    """Return a pod that waits since a day, and has room kept under the policy."""
    made = pod(name, priority=priority)
    made["spec"]["containers"][0]["resources"]["limits"] = limits
    given = {"workload": "training", **labels}
    made["metadata"] |= {"namespace": namespace, "uid": name, "creationTimestamp": SINCE, "labels": given}
    return {**made, "status": {"phase": "Pending"}}


def member(name: str) -> Object:
    labels = {f"{GROUP}/name": "team", f"{GROUP}/min-available": "2"}
    return waits(name, {GPU: 1, MEMORY: CARD}, **labels)


def train(**more: Any) -> Object:
    return waits("train", {GPU: 2}, **more)


def cluster(*waiting: Object, after: str = "15m") -> str:
    """Write two nodes of two cards, on one card of each of which a small pod runs."""
    there = [running(f"run-{name}", name, f"GPU-{name}-0", 4096) for name in "ab"]
    for each in there:
        each["metadata"]["creationTimestamp"] = NOW
    patience = policy({"selector": {"matchLabels": {"workload": "training"}}, "groups": {"holdAfter": after}})
    nodes = [node(name, 2, CARD) for name in "ab"]
    return write("cluster.yaml", *nodes, *there, patience, *waiting)


def count(*arguments: str, priority: int = 0, memory: int = 14000) -> dict[str, int]:
    """Return how many copies of a new pod fit on each node."""
    write("new.yaml", pod("new", memory, priority=priority))
    result = run("-f", "new.yaml", "--cluster", "cluster.yaml", "--count", "max", "-o", "json", *arguments)
    (found,) = json.loads(result.stdout)
    return dict(found["nodes"])


def nodes_of(*arguments: str) -> dict[str, str]:
    """Return where pods go."""
    result = run("--cluster", "cluster.yaml", "-o", "json", *arguments)
    return {answer["pod"]: answer["node"] for answer in json.loads(result.stdout)}


@pytest.mark.parametrize(
    ("waiting", "after", "fits"),
    [
        ([], "15m", {"a": 1, "b": 1}),
        ([train()], "15m", {"b": 1}),
        ([train()], "48h", {"a": 1, "b": 1}),
        ([train(namespace="other")], "15m", {"b": 1}),
        ([train(priority=-1)], "15m", {"a": 1, "b": 1}),
        ([waits("whole", {GPU: 1, MEMORY: CARD})], "15m", {"b": 1}),
        ([member("one"), member("two")], "15m", {}),
    ],
)
def test_no_copy_takes_room_that_is_kept(waiting: list[Object], after: str, fits: dict[str, int]) -> None:
    cluster(*waiting, after=after)
    assert count() == fits


@pytest.mark.parametrize(("priority", "fits"), [(0, {"b": 1}), (1, {"a": 1, "b": 1})])
def test_only_a_higher_priority_takes_it(priority: int, fits: dict[str, int]) -> None:
    cluster(train())
    assert count(priority=priority) == fits


def test_each_pod_is_counted_with_the_room_kept_as_at_first() -> None:
    cluster(train())
    write("new.yaml", pod("high", 14000, priority=1), pod("low", 14000))
    result = run("-f", "new.yaml", "--cluster", "cluster.yaml", "--count", "max", "-o", "json")
    found = {each["pod"]: each["nodes"] for each in json.loads(result.stdout)}
    assert found == {"default/high": {"a": 1, "b": 1}, "default/low": {"b": 1}}


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        (["--add-node", "a"], {"a": 1, "b": 1}),
        (["--add-node", "a=2"], {"a": 1, "a-3": 2, "b": 1}),
        (["--without", "pod/default/run-a"], {"b": 1}),
        (["--without", "pod/default/train"], {"a": 1, "b": 1}),
    ],
)
def test_room_is_kept_where_the_pod_goes_after_changes(changes: list[str], fits: dict[str, int]) -> None:
    cluster(train())
    assert count(*changes) == fits


def test_new_pods_leave_it_and_a_line_says_for_whom_it_is() -> None:
    cluster(train())
    write("new.yaml", *[pod(f"new-{number}", 14000) for number in range(2)])
    result = run("-f", "new.yaml", "--cluster", "cluster.yaml", "-o", "json")
    assert [answer["node"] for answer in json.loads(result.stdout)] == ["b", ""]
    assert "room on node a is kept for pod default/train, which waits for longer than groups.holdAfter" in result.stderr


def test_pods_of_one_namespace_leave_the_room_of_another_one() -> None:
    small = [waits(f"small-{number}", {GPU: 1, MEMORY: 14000}) for number in range(2)]
    for each in small:
        each["metadata"] |= {"creationTimestamp": NOW, "labels": {}}
    cluster(train(namespace="other"), *small)
    assert nodes_of("--pending", "-n", "default") == {"default/small-0": "b", "default/small-1": ""}
    whole = nodes_of("--pending", "-A")
    assert whole == {"other/train": "", "default/small-0": "b", "default/small-1": ""}


def test_a_file_with_the_pod_that_waits_may_use_its_room() -> None:
    cluster(train())
    write("new.yaml", train())
    assert nodes_of("-f", "new.yaml", "--without", "pod/default/run-a") == {"default/train": "a"}


def test_defrag_says_that_room_is_kept() -> None:
    small = waits("small", {GPU: 1, MEMORY: 14000})
    small["metadata"] |= {"creationTimestamp": NOW, "labels": {}}
    there = [running("run-a", "a", "GPU-a-0", 4096)]
    patience = policy({"selector": {"matchLabels": {"workload": "training"}}, "groups": {"holdAfter": "15m"}})
    write("cluster.yaml", node("a", 2, CARD), *there, patience, train(), small)
    result = CliRunner().invoke(main, ["defrag", "--for", "default/small", "--cluster", "cluster.yaml"])
    assert result.exit_code == 1
    assert "Room on a is kept for pod default/train, which is served first; no moves take it." in result.stdout
