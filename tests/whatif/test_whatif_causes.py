"""A pod that a selector or a rule of a policy keeps away is told which one, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running, world_of

from vgpu_scheduler.whatif import explain_pod

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


@pytest.mark.parametrize("seed", seeds(80, 200))
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
