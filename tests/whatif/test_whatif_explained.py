"""What is shown of a pod that waits: the cards that matter, its gates first, and a last word whatever refuses it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_scheduler.model import Outcome
from vgpu_scheduler.whatif import Explanation, explain_bound, explain_pod


def explained(*objects: dict[str, Any]) -> Explanation:
    world = world_of(*objects)
    (asked,) = world.pending.values()
    return explain_pod(world, asked)


@pytest.mark.parametrize("seed", range(60))
def test_the_cards_that_a_pod_pins_are_shown(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, chosen = [], int(rng.integers(0, 20))
    how = ("uuid", "model", "cordoned node")[seed % 3]
    for number in range(20):
        made = node(f"n{number:02}", cards=2, unschedulable=how == "cordoned node" and number == chosen)
        if how == "model" and number == chosen:
            notes = made["metadata"]["annotations"]
            notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace("A100", "H200")
        nodes.append(made)
    name = f"n{chosen:02}"
    full = [running(f"r{card}", name, f"GPU-{name}-{card}", 16000) for card in range(2)]
    pins = {"nvidia.com/use-gputype": "H200"} if how == "model" else {"nvidia.com/use-gpuuuid": f"GPU-{name}-1"}
    asked = pod("asked", {GPU: 1, MEMORY: 9000}, metadata={"annotations": pins})
    found = explained(*nodes, *full, asked)
    assert next(iter(found.cards)) == name
    assert f"GPU-{name}-1" in found.text()


@pytest.mark.parametrize("gates", [["example.com/a"], ["example.com/a", "kueue.x-k8s.io/admission"]])
@pytest.mark.parametrize("memory", [1000, 10**6, -1])
def test_the_first_line_of_a_gated_pod_names_its_gates(gates: list[str], memory: int) -> None:
    asked = pod("asked", {GPU: 1, MEMORY: memory}, schedulingGates=[{"name": gate} for gate in gates])
    first, *_ = explained(node("a"), asked).text().splitlines()
    removed = "its scheduling gate is removed" if len(gates) == 1 else "its scheduling gates are removed"
    assert first == f"default/asked is not tried until {removed}: {', '.join(gates)} (spec.schedulingGates)"


@pytest.mark.parametrize("seed", range(80))
def test_there_is_a_last_word_whatever_refuses_a_pod(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fields = {"memoryPerPod": f"{rng.integers(0, 9)}Gi", "coresPerPod": int(rng.integers(0, 60))}
    fields |= {"devicesPerPod": int(rng.integers(0, 3))}
    policies = [
        {
            "apiVersion": "vgpu-scheduler.io/v1alpha1",
            "kind": "ClusterVGPUPolicy",
            "metadata": {"name": name},
            "spec": {"limits": {name: limit}},
        }
        for name, limit in fields.items()
        if rng.random() < 0.7
    ]
    for policy in policies:
        policy["metadata"]["name"] = policy["metadata"]["name"].lower()
    limits = {GPU: int(rng.integers(1, 3)), MEMORY: int(rng.integers(500, 20000)), CORES: int(rng.integers(1, 100))}
    found = explained(node("a", cards=int(rng.integers(0, 3))), *policies, pod("asked", limits))
    if found.answer.decision.outcome is not Outcome.PLACED:
        text = found.text()
        assert "would help:" in text or "is not enough alone:" in text or "No change or pair of changes" in text


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_pod_whose_cards_nobody_knows_is_said_to_be_charged_on_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound = running("x", "a", "GPU-a-0", int(rng.integers(1000, 9000)))
    notes = bound["metadata"]["annotations"]
    match int(rng.integers(3)):
        case 0:
            notes["hami.io/vgpu-devices-allocated"] = str(rng.choice(["", ";", "GPU-a-0,NVIDIA,much,0:;", "?"]))
        case 1:
            del notes["hami.io/vgpu-devices-allocated"]
        case 2:
            notes["hami.io/vgpu-node"] = "b"
    bound["status"] = {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [{"name": "main", "state": {"running": {}}}],
    }
    world = world_of(node("a"), bound)
    (pod_there,) = world.bound.values()
    (line,) = explain_bound(world, pod_there).held
    assert line.startswith("cards that are not known (annotation hami.io/vgpu-")
    assert line.endswith("): it is charged on all that it may be on")


def test_bookkeeping_of_pieces_is_told_nobody() -> None:
    registered = "GPU-m,7,40536,100,NVIDIA-A100-SXM4-40GB,0,true,0,mig:"
    made = node("m")
    made["metadata"]["annotations"]["hami.io/node-nvidia-register"] = registered
    world = world_of(made, pod("asked", {GPU: 1, MEMORY: 4000}))
    (asked,) = world.pending.values()
    found = explain_pod(world, asked)
    assert found.answer.node == "m"
    ((card,),) = found.answer.as_json()["containers"]
    assert set(card["amounts"]) == set(card["units"]) == {"slots", "memory", "cores"}
