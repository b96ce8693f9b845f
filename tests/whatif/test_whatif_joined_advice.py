"""What is needed together is joined with "and", and nothing else is; and no advice says two things of one amount."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_others import REASONS
from tests.whatif.test_whatif_condition_remedies import asked_in, random_cards
from tests.whatif.test_whatif_remedies import node, pod, running, world_of
from tests.whatif.test_whatif_remedies_dialects import BYTES, MEMORY, cluster

from vgpu_scheduler.engine import EngineOptions, QuotaReport, event_note
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif import World, ask, make_dialect, remedies, remedies_from_condition
from vgpu_scheduler.whatif.advice.remedy import Advice, say
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotaStatus

Object = dict[str, Any]

CHANGED = (
    re.compile(r"ask \S+ of (?P<resource>[^\s,]+)[^;]*? in container (?P<where>\w+)"),
    re.compile(r"ask for (?:less than \S+|some) of (?P<resource>\S+) .*?in container (?P<where>\w+)"),
)
CARDS = re.compile(r"ask for \d+ cards? instead of \d+ in container (?P<where>\w+): (?P<amounts>[^;(]*)")
ASIDE = re.compile(r"\([^()]*\)")
INSUFFICIENT = [filters.insufficient(name).text for name in ("cpu", "memory", "nvidia.com/gpu", "example.com/fpga")]


def amounts_changed(text: str) -> list[tuple[str, str]]:
    """Return the amounts that an action changes: resource and container."""
    if cards := CARDS.search(text):
        return [
            (each.split(" of ")[1].strip(), cards["where"]) for each in cards["amounts"].split(",") if " of " in each
        ]
    return [(found["resource"], found["where"]) for each in CHANGED if (found := each.search(text))][:1]


def check(advice: Advice) -> None:
    """Check that each part of what is needed together can be told, and that no two parts are about one amount."""
    text = say(advice)
    changed = [each for action in advice for each in amounts_changed(action.what)]
    assert len(changed) == len(set(changed)), text
    while (shorter := ASIDE.sub("", text)) != text:
        text = shorter
    for part in text.split("; and ") if len(advice) > 1 else ():
        joined = part.count(" and ") > part.count(" and leave out ") and re.search(
            r" and (?:ask|have|end|tolerate|uncordon|add|raise|wait|write|create|claim) ", part
        )
        assert not (joined and re.search(r", or |[:;] ", part.split(": an administrator")[0])), say(advice)


# From conditions -----------------------------------------------------------------------------------------------------


def told_about(seed: int) -> tuple[Advice, ...]:
    """Return what is told of a pod whose condition has some reasons, perhaps beside a quota."""
    rng = np.random.default_rng(seed)
    dialect = str(rng.choice(["hami", "hami", "volcano", "koordinator"]))
    asks = asked_in(dialect, rng)
    asks |= {"cpu": "4", "memory": "8Gi"} if rng.random() < 0.3 else {}
    if dialect == "hami" and rng.random() < 0.3:
        asks["nvidia.com/gpumem"] = str(rng.choice(["8Gi", "16Gi"]))
    annotations = {"nvidia.com/use-gputype": "H100"} if rng.random() < 0.2 else {}
    annotations |= {"nvidia.com/vgpu-mode": str(rng.choice(["mig", "mgi"]))} if rng.random() < 0.1 else {}
    more: Object = {"schedulingGates": [{"name": "g"}]} if rng.random() < 0.1 else {}
    written = pod("asked", asks, metadata={"annotations": annotations}, **more)
    world, waiting = world_of(*cluster(dialect, *(random_cards(rng) for _ in range(2))), written, dialect=dialect)
    reasons = [str(each) for each in rng.choice([*REASONS, *INSUFFICIENT], size=int(rng.integers(1, 4)), replace=False)]
    nodes = int(rng.integers(1, 50))
    counts = sorted(f"{rng.choice([nodes, int(rng.integers(1, nodes + 1))])} {each}" for each in reasons)
    message = f"0/{nodes} nodes are available: {', '.join(counts)}."
    decision = ask(world, waiting).decision
    event = "" if rng.random() < 0.4 else f"{message} {event_note(world.engine, waiting, decision)}"
    resource = {"hami": "nvidia.com/gpumem", "volcano": MEMORY, "koordinator": BYTES}[dialect]
    limit = int(rng.integers(0, 20000))
    reports = (QuotaReport("default", resource, limit, int(rng.integers(0, limit + 1)), "MiB"),)
    quotas = QuotaStatus(reports, limits=reports) if rng.random() < 0.5 else QuotaStatus()
    alone = World(EngineOptions([make_dialect(dialect)]))
    reason = str(rng.choice(["Unschedulable", "SchedulerError", ""]))
    return remedies_from_condition(
        alone, alone.pod(world.written(waiting)), message, event, quotas, reason=reason
    ).advice


@pytest.mark.parametrize("part", seeds(6, 20))
def test_conditions_lead_to_no_two_changes_of_an_amount_and_to_no_doubtful_and(part: int) -> None:
    for seed in range(30 * part, 30 * part + 30):
        for advice in told_about(seed):
            check(advice)


OTHER = "pod default/other: 0/3 nodes are available: 1 {}, 2 No preemption victims found for incoming pod."


@pytest.mark.parametrize("seed", range(60))
def test_what_is_said_of_preemption_changes_no_advice(seed: int) -> None:
    """It may be about another pod of the group: its taints, for example, are not those of this pod."""
    rng = np.random.default_rng(seed)
    world, waiting = world_of(node("a"), pod("asked", asked_in("hami", rng), nodeSelector={"a": "b"}))
    said = [
        "0/3 nodes are available: group default/g needs 2 pods to be placed at once, and they have room for 1 of them.",
        f"0/3 nodes are available: 3 {rng.choice(REASONS)}.",
        "no nodes available to schedule pods",
    ]
    message = said[int(rng.integers(len(said)))]
    other = OTHER.format(filters.TAINT.text if rng.random() < 0.5 else rng.choice(REASONS))
    alone = remedies_from_condition(world, waiting, message, "")
    assert remedies_from_condition(world, waiting, f"{message} preemption: {other}", "") == alone
    assert any("taint" in each for each in alone.remedies) <= (filters.TAINT.text in message)


# From the cluster ----------------------------------------------------------------------------------------------------


def random_node(rng: np.random.Generator, name: str) -> list[Object]:
    """Return a node that may be closed in some way, and pods on its cards."""
    spec: Object = {"taints": [{"key": f"k{rng.integers(2)}", "value": "v", "effect": "NoSchedule"}]}
    spec = {name: value for name, value in spec.items() if rng.random() < 0.35}
    spec |= {"unschedulable": True} if rng.random() < 0.15 else {}
    cards = int(rng.integers(0, 4))
    spec |= {"cordoned": range(cards)} if rng.random() < 0.15 else {}
    made = node(
        name, cards, int(rng.choice([4000, 16384, 40960])), labels={"pool": str(rng.choice(["x", "y"]))}, **spec
    )
    notes = made["metadata"]["annotations"]
    for old, new, chance in ((",true,", ",false,", 0.1), ("A100", "H100", 0.2)):
        if cards and rng.random() < chance:
            notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace(old, new)
    if rng.random() < 0.1:
        notes["hami.io/mutex.lock"] = str(rng.choice(["nonsense", "2026-01-01T00:00:00Z,default,holder"]))
    amounts = [(int(rng.integers(1, 4001)), int(rng.integers(0, 100)), bool(rng.random() < 0.6)) for _ in range(cards)]
    return [made] + [
        running(f"on-{name}-{number}", name, f"GPU-{name}-{number}", memory, cores, priority=int(rng.integers(0, 3)))
        for number, (memory, cores, is_there) in enumerate(amounts)
        if is_there
    ]


def random_rules(rng: np.random.Generator) -> list[Object]:
    """Return a quota, a policy, both or none."""
    hard = {
        f"limits.nvidia.com/{name}": int(rng.integers(0, most)) for name, most in (("gpumem", 20000), ("gpucores", 200))
    }
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
    limits: Object = {"memoryPerPod": f"{rng.integers(1, 20)}Gi", "coresPerPod": int(rng.integers(1, 150))}
    limits |= {"devicesPerPod": int(rng.integers(1, 3)), "exclusiveCardsPerPod": int(rng.integers(0, 2))}
    devices = [{"types": {"deny": ["A100"]}}, {"types": {"allow": ["H100"]}}, {"exclusive": True}, {"policy": "mutex"}]
    sections: Object = {
        "limits": {name: limits[name] for name in limits if rng.random() < 0.4},
        "devices": devices[int(rng.integers(4))],
        "defaults": {"cores": int(rng.integers(10, 100))},
        "nodeSelector": {"matchLabels": {"pool": "x"}},
        "nodes": {"nonsense": 1},
    }
    spec = {name: section for name, section in sections.items() if section and rng.random() < 0.25}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    return [each for each in (quota, policy) if rng.random() < 0.4]


def random_pod(rng: np.random.Generator) -> Object:
    """Return a pod that asks for much, perhaps with mistakes."""
    asks: Object = {"nvidia.com/gpu": int(rng.integers(1, 4))}
    asks |= (
        {"nvidia.com/gpumem": str(rng.choice([str(int(rng.integers(1, 50000))), "8Gi"]))} if rng.random() < 0.7 else {}
    )
    asks |= {"nvidia.com/gpucores": int(rng.integers(1, 101))} if rng.random() < 0.5 else {}
    asks |= {"cpu": int(rng.integers(1, 20))} if rng.random() < 0.2 else {}
    asks |= {"nvidia.com/gpucore": 10} if rng.random() < 0.1 else {}
    words = {
        "nvidia.com/use-gputype": ["H100", "A100", "V100"],
        "hami.io/gpu-scheduler-policy": ["mutex"],
        "nvidia.com/vgpu-mode": ["mig", "mgi"],
        "nvidia.com/use-gpuuuid": ["GPU-n0-0"],
    }
    notes = {name: str(rng.choice(values)) for name, values in words.items() if rng.random() < 0.12}
    more: Object = {"nodeSelector": {"pool": str(rng.choice(["x", "z"]))}} if rng.random() < 0.15 else {}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}
    more |= {"volumes": [volume]} if rng.random() < 0.1 else {}
    return pod("asked", asks, metadata={"annotations": notes}, priority=int(rng.integers(0, 3)), **more)


def asked_of(seed: int) -> tuple[World, Pod] | None:
    """Return a random cluster with a pod that fits nowhere in it; None if it fits."""
    rng = np.random.default_rng(seed)
    nodes = [each for number in range(int(rng.integers(0, 5))) for each in random_node(rng, f"n{number}")]
    world, waiting = world_of(*nodes, *random_rules(rng), random_pod(rng))
    return None if ask(world, waiting).decision.placement is not None else (world, waiting)


@pytest.mark.parametrize("part", seeds(4, 20))
def test_remedies_are_no_two_changes_of_an_amount_and_have_no_doubtful_and(part: int) -> None:
    """And of what is enough alone, nothing else is said to be needed."""
    for seed in range(12 * part, 12 * part + 12):
        if (found := asked_of(seed)) is None:
            continue
        remedied = [each for each in remedies(*found) if each.node]
        for each in remedied:
            check(each.actions)
            enough = [other for other in remedied if {*map(str, other.actions)} < {*map(str, each.actions)}]
            assert not enough, each.text
