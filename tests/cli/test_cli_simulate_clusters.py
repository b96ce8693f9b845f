"""``vgpu-scheduler simulate`` on whole clusters: pods that wait, their volumes, and many nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cli.simulated import pod, run, write
from tests.whatif.test_whatif_remedies import node, running

from vgpu_scheduler.allocators.hami import HamiAllocator
from vgpu_scheduler.state import DeviceMatrix

pytestmark = pytest.mark.usefixtures("folder")


# Pods that wait, and their volumes ------------------------------------------------------------------------------------


def test_the_pods_of_the_cluster_that_wait_are_placed_first() -> None:
    waiting = {
        **pod("waits", memory=15360),
        "spec": {**pod("waits", memory=15360)["spec"], "schedulerName": "hami-scheduler"},
    }
    huge = pod("huge", memory=99999)
    write("waiting.yaml", waiting, huge)
    result = run("--pending", "--cluster", "cluster.yaml", "--cluster", "waiting.yaml", "-o", "json")
    found = {answer["pod"]: answer["outcome"] for answer in json.loads(result.stdout)}
    assert found == {"default/waiting": "placed", "default/waits": "placed", "default/huge": "unschedulable"}
    assert result.exit_code == 1


def test_pods_must_be_named() -> None:
    result = run("--cluster", "cluster.yaml")
    assert result.exit_code == 2
    assert "-f FILE, or --pending" in result.stderr


def test_claims_may_come_with_the_pods() -> None:
    storage_class = {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    resources = {"requests": {"storage": "1Gi"}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": resources},
    }
    mounted = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    write("with-claim.yaml", storage_class, claim, mounted)
    result = run("-f", "with-claim.yaml", "--cluster", "cluster.yaml", "--explain")
    assert result.exit_code == 0
    assert "claim default/data has a volume made for node-" in result.stdout


def test_an_empty_file_and_an_empty_folder_are_no_cluster() -> None:
    write("one.yaml", pod())
    write("empty.yaml")
    Path("nothing").mkdir()
    assert "there is no Node among the objects" in run("-f", "one.yaml", "--cluster", "empty.yaml").stderr
    assert "nothing: it contains no YAML or JSON file" in run("-f", "one.yaml", "--cluster", "nothing").stderr


# Size ----------------------------------------------------------------------------------------------------------------

NODES, RUNNING, WAITING, SHAPES = 1000, 8000, 2000, 14


@pytest.mark.long
def test_a_dump_of_a_large_cluster_takes_work_in_proportion_and_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are looked at once for pods that are alike, and then only those that have changed."""
    objects = [node(f"n{number}", cards=8) for number in range(NODES)]
    for number in range(RUNNING):
        home, card = number % NODES, number // NODES
        objects.append(running(f"r{number}", f"n{home}", f"GPU-n{home}-{card}", 4000, 10))
    objects += [pod(f"w{number}", 3000 + number % SHAPES) for number in range(WAITING)]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    fitted: list[int] = []
    fit = HamiAllocator.fit

    def counted(self: HamiAllocator, devices: DeviceMatrix, rows: NDArray[np.int64], *more: Any) -> None:
        fitted.append(len(rows))
        fit(self, devices, rows, *more)

    shown: list[str] = []
    monkeypatch.setattr(HamiAllocator, "fit", counted)
    monkeypatch.setattr("vgpu_scheduler.cli.simulate.progress", shown.append)
    result = run("--pending", "--cluster", "dump.json")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1 + WAITING
    assert sum("decided" in text for text in shown) >= WAITING / 100
    assert sum(fitted) <= SHAPES * (NODES + WAITING), "each shape sees each node once, and each placement once"


# What is left out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_pods_go_with_their_node_and_what_is_assumed_of_them_is_said(seed: int) -> None:
    chance = np.random.default_rng(seed)
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "limited"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "8000"}},
    }
    stay: list[dict[str, Any]] = [quota, node("b")]
    waits = pod("waits", memory=1000 * int(chance.integers(1, 9)))
    waits["metadata"] |= {"namespace": "limited", "uid": "waits"}
    stay.append(waits)
    go: list[dict[str, Any]] = [node("a")]
    held = again = count = 0
    for number in range(int(chance.integers(0, 6))):
        where = str(chance.choice(["a", "b"]))
        made = running(f"r{number}", where, f"GPU-{where}-{number % 2}", 1000)
        made["metadata"]["namespace"] = str(chance.choice(["limited", "free"]))
        kind = str(chance.choice(["", "ReplicaSet", "DaemonSet"]))
        made["metadata"]["ownerReferences"] = [{"kind": kind, "name": "o", "controller": True}] if kind else []
        held += where == "a" and made["metadata"]["namespace"] == "limited"
        again += where == "a" and kind == "ReplicaSet"
        count += where == "a" and kind == "ReplicaSet" and made["metadata"]["namespace"] == "limited"
        (go if where == "a" else stay).append(made)
    write("all.yaml", *stay, *go)
    write("rest.yaml", *stay)
    asked = ("--pending", "-n", "limited", "-o", "json")
    without = run(*asked, "--cluster", "all.yaml", "--without", "node/a")
    assert json.loads(without.stdout) == json.loads(run(*asked, "--cluster", "rest.yaml").stdout)
    assert (f"the quota that {held} pod" in without.stderr) == bool(held)
    assert ("left out used counts as free" in without.stderr) == bool(held)
    assert (f"controllers recreate {again} pod" in without.stderr) == bool(again)
    assert ("and count in quotas once they are bound" in without.stderr) == bool(count)
    assert ("the new ones are not placed here" in without.stderr) == bool(again)
