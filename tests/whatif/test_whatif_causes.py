"""A pod that a selector or a rule of a policy keeps away is told which one, and what it says."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running, world_of
from tests.whatif.test_whatif_remedies_dialects import cluster

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif import World, ask, explain_pod, make_dialect
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import as_json

Object = dict[str, Any]

MODELS = ("A100", "H100", "L40S", "T4")
POOLS = ("x", "y")


def with_card(name: str, model: str, pool: str) -> Object:
    made = node(name, cards=1, labels={"pool": pool})
    notes = made["metadata"]["annotations"]
    notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace("NVIDIA-A100", model)
    return made


def drawn(seed: int) -> tuple[list[tuple[str, str]], list[Object], Object]:
    """Return models and pools of nodes with a card each, policies, and a pod with selectors."""
    rng = np.random.default_rng(seed)
    cards = [(str(rng.choice(MODELS)), str(rng.choice(POOLS))) for _ in range(int(rng.integers(1, 5)))]
    policies = []
    for number in range(int(rng.integers(1, 3))):
        spec: Object = {"priority": number}
        kind = str(rng.choice(["allow", "deny", "modes", "selector", "memory"]))
        some = [str(each) for each in rng.choice(MODELS, size=int(rng.integers(1, 3)), replace=False)]
        if kind in {"allow", "deny"}:
            spec["devices"] = {"types": {kind: some}}
        elif kind == "modes":
            spec["devices"] = {"modes": ["mps"]}
        elif kind == "selector":
            spec["nodeSelector"] = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["z", "x"]}]}
        else:
            spec["limits"] = {"memoryPerPod": "4Gi"}
        policies.append({"kind": "ClusterVGPUPolicy", "metadata": {"name": f"p{number}"}, "spec": spec})
    asked = pod("asked", {GPU: 1} if rng.random() < 0.5 else {GPU: 1, MEMORY: 100})
    if rng.random() < 0.3:
        asked["spec"]["nodeSelector"] = {"pool": "y"}
    elif rng.random() < 0.3:
        terms = [{"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["x"]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        asked["spec"]["affinity"] = {"nodeAffinity": required}
    return cards, policies, asked


@pytest.mark.parametrize("seed", range(200))
def test_each_reason_has_its_selector_or_rule(seed: int) -> None:
    cards, policies, asked = drawn(seed)
    made, waiting = world_of(*(with_card(f"n{n}", *card) for n, card in enumerate(cards)), *policies, asked)
    found = explain_pod(made, waiting)
    told, causes = found.answer.decision.message, " ".join(found.causes)
    spec = asked["spec"]
    if "didn't match Pod's node affinity/selector" in told:
        assert ("nodes with pool=y (spec.nodeSelector)" in causes) is ("nodeSelector" in spec)
        assert ("nodes with pool notin (x) (spec.affinity.nodeAffinity)" in causes) is ("affinity" in spec)
    if "didn't match the policy's node selector" in told:
        assert "asks for nodes with pool in (z, x) (spec.nodeSelector)" in causes
    if "CardDeniedByPolicy" in told:
        assert any(f"of ClusterVGPUPolicy {each['metadata']['name']}" in causes for each in policies)
    for each in policies:
        title = f"ClusterVGPUPolicy {each['metadata']['name']}"
        for kind, some in each["spec"].get("devices", {}).get("types", {}).items():
            if f"spec.devices.types.{kind} of {title}" in causes:
                denied = {model for model, _ in cards if (model in some) is (kind == "deny")}
                sentence = next(cause for cause in found.causes if f"types.{kind} of {title}" in cause)
                assert sentence.startswith(f"spec.devices.types.{kind} of {title} ({', '.join(some)}) denies ")
                listed = sentence.rpartition(" denies ")[2]
                assert {part.partition(" (")[0] for part in listed.removesuffix(".").split(", ")} <= denied
    if not told:
        assert not causes


SEVEN = [
    {
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": f"p{number}"},
        "spec": {"devices": {"types": {"deny": [model]}}, "nodeSelector": {"matchLabels": {f"pool-{number}": "x"}}},
    }
    for number, model in enumerate(["A1", "A10", "H1", "H10", "L4", "T4", "A100"])
]
"""More policies than messages name in each of two sections."""


def test_of_seven_policies_the_last_is_known_to_deny_cards_and_nodes() -> None:
    made, waiting = world_of(
        node("one", labels={f"pool-{number}": "x" for number in range(7)}), *SEVEN, pod("asked", {GPU: 1})
    )
    causes = explain_pod(made, waiting).causes
    assert [cause.partition(" (")[0] for cause in causes] == [
        f"spec.devices.types.deny of ClusterVGPUPolicy p{number}" for number in (0, 1, 6)
    ]
    made, waiting = world_of(node("one"), *SEVEN, pod("asked", {GPU: 1}))
    causes = explain_pod(made, waiting).causes
    assert [cause.partition(" asks")[0] for cause in causes] == [f"ClusterVGPUPolicy p{number}" for number in range(7)]


# Limits of memory ----------------------------------------------------------------------------------------------------

PERCENT = "nvidia.com/gpumem-percentage"
DENIES = re.compile(
    r"spec\.limits\.memoryPerPod of ClusterVGPUPolicy limited \((?P<limit>\w+)\) denies (?P<models>.*): how much"
    r" memory the pod gets depends on the card, which may have (?P<most>\d+)(?P<unit>Mi|Gi) at most\."
)


def without_amounts(seed: int) -> tuple[dict[str, int], int, Object]:
    """Return nodes with the memory of their cards, a limit in MiB, and a pod that leaves memory to the cards."""
    rng = np.random.default_rng(seed)
    nodes = {f"n{n}": int(rng.integers(2, 33)) * 1024 for n in range(int(rng.integers(1, 5)))}
    percent = {PERCENT: int(rng.integers(1, 101))} if rng.random() < 0.6 else {}
    asked = pod("asked", {GPU: int(rng.integers(1, 3)), **percent})
    if rng.random() < 0.4:
        named = {"limits": {GPU: "1", MEMORY: str(int(rng.integers(1, 5)) * 256)}}
        asked["spec"]["containers"].append({"name": "beside", "resources": named})
    return nodes, int(rng.integers(2, 40)) * 512, asked


def memory_on(name: str, memory: int, asked: Object) -> int:
    """Return the memory that the pod gets on a node of its own, where no policy limits it."""
    made, waiting = world_of(node(name, 3, memory), deepcopy(asked))
    placement = made.engine.algorithm.decide(waiting).placement
    assert placement is not None
    return sum(assignment.amounts[1] for container in placement.containers for assignment in container)


@pytest.mark.parametrize("seed", range(400))
def test_a_limit_of_memory_is_said_to_deny_the_cards_of_which_the_pod_would_get_more(seed: int) -> None:
    nodes, limit, asked = without_amounts(seed)
    spec = {"limits": {"memoryPerPod": f"{limit}Mi"}}
    limited = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "limited"}, "spec": spec}
    made, waiting = world_of(*(node(name, 3, memory) for name, memory in nodes.items()), limited, deepcopy(asked))
    found = explain_pod(made, waiting)
    gets = {name: memory_on(name, memory, asked) for name, memory in nodes.items()}
    assert bool(found.answer.node) is any(memory <= limit for memory in gets.values())
    if found.answer.node or "CardDeniedByPolicy" not in found.answer.decision.message:
        assert not found.causes
        return
    (cause,) = found.causes
    told = DENIES.fullmatch(cause)
    assert told is not None, cause
    assert told["limit"] == f"{limit}Mi"
    assert told["models"] == f"NVIDIA-A100 ({3 * len(nodes)})"
    most = int(told["most"]) * {"Mi": 1, "Gi": 1024}[told["unit"]]
    assert most < min(nodes.values())
    if most >= 2048:
        assert memory_on("n", most, asked) <= limit < memory_on("n", most + 1 + most // 100, asked)


@pytest.mark.long
def test_all_rules_are_among_these() -> None:
    texts = []
    for seed in range(200):
        cards, policies, asked = drawn(seed)
        made, waiting = world_of(*(with_card(f"n{n}", *card) for n, card in enumerate(cards)), *policies, asked)
        texts += explain_pod(made, waiting).causes
    words = ("types.allow", "types.deny", "modes", "limits.memoryPerPod", "spec.nodeSelector", "spec.affinity")
    assert all(any(word in text for text in texts) for word in words)


@pytest.mark.parametrize("seed", range(50))
def test_the_cards_of_the_nearest_nodes_are_shown(seed: int) -> None:
    rng = np.random.default_rng(seed)
    held = {f"n{n:02}": int(rng.integers(9000, 16000)) for n in range(int(rng.integers(9, 30)))}
    objects = [
        each for name, used in held.items() for each in (node(name, 1), running("t", name, f"GPU-{name}-0", used))
    ]
    for number, each in enumerate(objects):
        each["metadata"]["name"] = each["metadata"]["name"] if each["kind"] == "Node" else f"t{number}"
    made, waiting = world_of(*objects, pod("asked", {GPU: 1, MEMORY: 8000}))
    shown = list(explain_pod(made, waiting).cards)
    nearest = sorted(held, key=lambda name: (held[name], name))[: len(shown)]
    assert len(shown) == min(len(held), 8)
    assert [held[name] for name in shown] == [held[name] for name in nearest]


def test_cards_that_two_plugins_register_are_one_each_and_said_to_be_given_to_nobody() -> None:
    there = node("a", cards=2)
    listed = [f"GPU-a-{n},10,16384,NVIDIA-A100,true,hami-core" for n in range(2)]
    there["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = f"{':'.join(listed)}:"
    volcano = {"vgpu-number": "20", "vgpu-memory": "32768", "vgpu-cores": "200"}
    offered = {**there["status"]["allocatable"], **{f"volcano.sh/{name}": amount for name, amount in volcano.items()}}
    there["status"] = {"allocatable": offered, "capacity": offered}
    made = World(EngineOptions([make_dialect("hami"), make_dialect("volcano")]))
    made.add([there, node("b", cards=1), pod("asked", {GPU: 1, MEMORY: 20000})])
    (waiting,) = made.pending.values()
    assert [(each.node, each.cards, each.memory.total) for each in usage.nodes(usage.cards(made))] == [
        ("a", 2, 2 * 16384),
        ("b", 1, 16384),
    ]
    assert usage.summed("all", usage.cards(made)).cards == 3
    (said,) = [cause for cause in explain_pod(made, waiting).causes if "registered" in cause]
    assert said.startswith("Cards of a are registered by hami and by volcano, and not allocated until only one")


def test_what_is_free_counts_no_card_that_is_out_of_service() -> None:
    made = World(EngineOptions([make_dialect("hami")]))
    made.add(
        [node("a", cards=3, cordoned=(1,)), running("p", "a", "GPU-a-0", 6000), running("q", "a", "GPU-a-1", 1000)]
    )
    (there,) = usage.nodes(usage.cards(made))
    assert as_json(there)["memory"] == {"used": 7000, "total": 3 * 16384, "free": 16384 + 10384}
    (model,) = usage.models(made, usage.cards(made))
    assert model.memory.free == model.free_memory
    assert [as_json(card)["slots"]["free"] for card in usage.cards(made)] == [9, 0, 10]


@pytest.mark.parametrize("seed", range(20))
def test_of_what_is_exclusive_the_policies_are_named_that_say_so_alone(seed: int) -> None:
    """Others restrict the cards, too, and the settings may say in which order they are taken."""
    rng = np.random.default_rng(seed)
    specs = [
        {"exclusive": True},
        {"types": {"allow": ["A100"]}},
        {"policy": "spread"},
        {"exclusive": True, "types": {"deny": ["T4"]}},
        {"exclusive": False, "policy": "binpack"},
    ]
    chosen = [int(each) for each in rng.permutation(len(specs))[: int(rng.integers(1, 5))]]
    policies = [
        {
            "kind": "ClusterVGPUPolicy",
            "metadata": {"name": f"p{number}"},
            "spec": {"priority": int(rng.integers(0, 100)), "devices": specs[number]},
        }
        for number in chosen
    ]
    pieces = node("a")
    notes = pieces["metadata"]["annotations"]
    notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace("hami-core", "mig")
    made, waiting = world_of(pieces, *policies, pod("asked", {GPU: 1, MEMORY: 100}))
    told = [each for each in explain_pod(made, waiting).causes if "spec.devices.exclusive" in each]
    deciding = sorted(
        (-each["spec"]["priority"], f"ClusterVGPUPolicy {each['metadata']['name']}")
        for each in policies
        if each["spec"]["devices"].get("exclusive")
    )
    assert len(told) == bool(deciding)
    for text in told:
        named = re.fullmatch(r"spec\.devices\.exclusive of (.*) allows whole cards only\.", text)
        assert named is not None
        assert set(named[1].split(", ")) == {title for _, title in deciding}


@pytest.mark.parametrize("dialect", ["volcano", "koordinator"])
@pytest.mark.parametrize("devices", [{"exclusive": True}, {"types": {"allow": ["A100"]}}, {"policy": "numa"}])
def test_an_order_of_the_settings_is_not_laid_to_a_policy_that_restricts_cards(dialect: str, devices: Object) -> None:
    asks = {"volcano": {"volcano.sh/vgpu-number": 1}, "koordinator": {"koordinator.sh/gpu": 100}}[dialect]
    options = EngineOptions([make_dialect(dialect)], defaults=PolicyDefaults(device_policy="numa"))
    made = World(options)
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "p"}, "spec": {"devices": devices}}
    made.add([*cluster(dialect, [[]]), policy, pod("asked", asks)])
    (waiting,) = made.pending.values()
    warned = [text for text in ask(made, waiting).decision.warnings if "does not apply to" in text]
    named = [
        f"devices: the card order 'numa' of ClusterVGPUPolicy p does not apply to devices of dialect {dialect}: ignored"
    ]
    assert warned == (named if "policy" in devices else [])
