"""Where two things keep a pod from every node, both are named, and two changes that help together are found."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, check_remedies, node, pod, running, world_of

from vgpu_scheduler.model import CardReason
from vgpu_scheduler.whatif import RemedyType, ask, explain_pod

Object = dict[str, Any]

SAID = {
    "taint": "has the taint team=b:NoSchedule",
    "cordon": "is cordoned",
    "selector": "does not match its node selector or affinity",
    "model": "CardTypeMismatch",
    "quota": "ResourceQuotaNotFit",
    "memory": "CardInsufficientMemory",
    "cpu": "Insufficient cpu",
}
"""What may keep a pod from a node, and how it is named."""
CHANGE = {
    "taint": "tolerate team=b:NoSchedule",
    "cordon": "uncordon node n0",
    "selector": "leave out its nodeSelector",
    "model": "leave out its annotation nvidia.com/use-gputype",
    "quota": "ask 7000 of nvidia.com/gpumem instead of 8000",
    "memory": "of nvidia.com/gpumem instead of",
    "cpu": "of cpu instead of",
}
"""What is to be done about it."""


def kept(kinds: tuple[str, ...], seed: int) -> list[Object]:
    """Return nodes that a pod is kept from by all of some things, and the pod."""
    rng = np.random.default_rng(seed)
    asked = pod("asked", {GPU: 1, MEMORY: 8000, "cpu": 30 if "cpu" in kinds else 1})
    objects: list[Object] = []
    for number in range(int(rng.integers(1, 4))):
        name = f"n{number}"
        made = node(name, 1, labels={"pool": "a"}, unschedulable="cordon" in kinds)
        if "taint" in kinds:
            made["spec"]["taints"] = [{"key": "team", "value": "b", "effect": "NoSchedule"}]
        objects.append(made)
        if "memory" in kinds:
            objects.append(running(f"held-{number}", name, f"GPU-{name}-0", int(rng.integers(9000, 16000))))
    if "selector" in kinds:
        asked["spec"]["nodeSelector"] = {"pool": "b"}
    if "model" in kinds:
        asked["metadata"]["annotations"] = {"nvidia.com/use-gputype": "H100"}
    if "quota" in kinds:
        hard = {"hard": {f"limits.{MEMORY}": "7000"}}
        objects.append({"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": hard})
    return [*objects, asked]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kinds", [each for each in combinations(SAID, 2) if each != ("quota", "memory")])
def test_both_causes_are_named_and_what_helps_against_both(kinds: tuple[str, str], seed: int) -> None:
    objects = kept(kinds, seed)
    made, waiting = world_of(*objects)
    before = made.engine.state.ledger()
    found = explain_pod(made, waiting)
    assert made.engine.state.ledger() == before
    assert not ask(made, waiting).node, "a question changes nothing"
    (cause,) = [each for each in found.causes if each.startswith("Several things keep it from ")]
    assert all(SAID[kind] in cause for kind in kinds)
    assert not any(said in cause for kind, said in SAID.items() if kind not in kinds)
    together = [remedy for remedy in found.remedies if remedy.type is RemedyType.TOGETHER]
    assert any(all(CHANGE[kind] in remedy.text for kind in kinds) for remedy in together)
    assert all(" and " in remedy.text for remedy in together)
    assert RemedyType.TOGETHER in check_remedies(objects)


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize("seed", range(3))
def test_where_one_change_helps_no_two_are_searched(kind: str, seed: int) -> None:
    objects = kept((kind,), seed)
    made, waiting = world_of(*objects)
    found = explain_pod(made, waiting)
    assert not any(each.startswith("Several things") for each in found.causes)
    assert RemedyType.TOGETHER not in {remedy.type for remedy in found.remedies}


def test_of_three_at_once_nothing_is_known_but_what_they_are() -> None:
    made, waiting = world_of(*kept(("taint", "selector", "cpu"), 0))
    text = explain_pod(made, waiting).text()
    told = "has the taint team=b:NoSchedule, does not match its node selector or affinity and says Insufficient cpu."
    assert told in text
    assert (
        "No change or pair of changes that would help was found; not all pairs were searched, and no larger "
        "sets." in text
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kinds", list(combinations([kind for kind in SAID if kind not in {"quota", "memory"}], 2)))
def test_what_is_behind_a_limit_is_named_too(kinds: tuple[str, str], seed: int) -> None:
    limit = {"kind": "VGPUPolicy", "metadata": {"name": "lim", "namespace": "default"}}
    limit["spec"] = {"limits": {"memoryPerPod": "4Gi"}}
    objects = kept(kinds, seed)
    made, waiting = world_of(limit, *objects)
    found = explain_pod(made, waiting)
    alone = ask(*world_of(*objects)).decision.message
    assert f"It would also wait without the limits of policies: {alone}" in found.causes
    (cause,) = [each for each in found.causes if each.startswith("Several things keep it from ")]
    assert all(SAID[kind] in cause for kind in kinds)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", SAID)
def test_what_is_behind_too_few_cards_is_named_too(kind: str, seed: int) -> None:
    objects = kept((kind,), seed)
    amounts = objects[-1]["spec"]["containers"][0]["resources"]["limits"]
    amounts[GPU] = str(3)
    (cause,) = [each for each in explain_pod(*world_of(*objects)).causes if each.startswith("Several things keep it ")]
    assert CardReason.NodeInsufficientDevice.text in cause
    assert SAID[kind] in cause
