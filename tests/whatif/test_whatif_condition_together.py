"""Several containers of a pod, told without the nodes: whoever does what is told for all of them sees the pod fit."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running, world_of

from vgpu_scheduler.model import CardReason, ConditionReason
from vgpu_scheduler.whatif import ConditionRemedies, ask, explain_pod, remedies_from_condition

Object = dict[str, Any]

SHARE = f"{MEMORY}-percentage"
SIZE = 16384
ASK = re.compile(
    r"ask (?P<amount>\d+) of (?P<resource>\S+) (?:instead of \S+ |\([^)]*\) )?in container (?P<where>[\w-]+)"
    r"(?: instead of \S+ of (?P<gone>[\w./-]+))?"
)


def containers(rng: np.random.Generator, *, whole: bool = True) -> list[Object]:
    """Return two or three containers that ask for memory in one of the ways there are, and some of them for compute."""
    made = []
    for number in range(int(rng.integers(2, 4))):
        limits: dict[str, int] = {GPU: 1}
        how = rng.random()
        if how < 0.6:
            limits[MEMORY] = int(rng.integers(2000, SIZE))
        elif how < 0.9 or not whole:
            limits[SHARE] = int(rng.integers(20, 100))
        if rng.random() < 0.5:
            limits[CORES] = int(rng.integers(20, 90))
        texts = {name: str(amount) for name, amount in limits.items()}
        made.append({"name": f"c{number}", "resources": {"limits": texts}})
    return made


def asking(rng: np.random.Generator, *, whole: bool = True) -> Object:
    """Return a pod with some of them before the others, that end or stay."""
    asked = pod("asked", {GPU: 1})
    asked["spec"]["containers"] = made = containers(rng, whole=whole)
    if rng.random() < 0.4:
        first = made.pop(0)
        asked["spec"]["initContainers"] = [{**first, **({"restartPolicy": "Always"} if rng.random() < 0.5 else {})}]
    return asked


def done(written: Object, text: str) -> Object:
    """Return a pod that does what a remedy says."""
    changed = deepcopy(written)
    spec = changed["spec"]
    limits = {
        each["name"]: each["resources"]["limits"] for each in (*spec.get("initContainers", ()), *spec["containers"])
    }
    for told in ASK.finditer(text):
        limits[told["where"]].pop(told["gone"], None)
        limits[told["where"]][told["resource"]] = told["amount"]
    return changed


def advice(told: ConditionRemedies) -> list[str]:
    return [text for text in told.remedies if ASK.match(text) and "ask for" not in text]


@pytest.mark.parametrize("seed", seeds(6, 250))
def test_containers_that_run_together_have_room_on_the_nearest_card(seed: int) -> None:
    """Whatever a policy that is not seen gives them of compute; by each of the ways that are told."""
    rng = np.random.default_rng(seed)
    objects: list[Object] = [node("a", 1)]
    if rng.random() < 0.7:
        objects.append(running("held", "a", "GPU-a-0", int(rng.integers(1, 9000)), int(rng.integers(1, 60))))
    if rng.random() < 0.4:
        spec = {"defaults": {"cores": int(rng.integers(10, 90))}}
        objects.append({"kind": "ClusterVGPUPolicy", "metadata": {"name": "d", "uid": "d"}, "spec": spec})
    asked = asking(rng)
    place, told = answer(world_of(*objects, deepcopy(asked))[0])
    if place:
        return
    assert told.near_miss is not None, told
    assert advice(told), told
    for text in advice(told):
        place, then = answer(world_of(*objects, done(asked, text))[0])
        assert place == "a", (text, then)


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_what_containers_lack_together_is_told_to_administrators(seed: int) -> None:
    """Where each of them would fit by itself, and all together do not."""
    rng = np.random.default_rng(seed)
    first, second = (int(each) for each in rng.integers(SIZE // 2 + 1, SIZE, size=2))
    asked = pod("asked", {GPU: 1, MEMORY: first})
    asked["spec"]["containers"].append({"name": "c1", "resources": {"limits": {GPU: "1", MEMORY: str(second)}}})
    world, waiting = world_of(node("a", 1), asked)
    text = explain_pod(world, waiting).text()
    lacking = f"nearest: {SIZE} of {first + second} MiB memory for containers that run together free on a/GPU-a-0"
    assert lacking in text
    assert "  fits by itself" in text


@pytest.mark.parametrize("seed", seeds(4, 80))
def test_amounts_that_a_quota_leaves_are_enough_beside_percentages_and_whole_cards(seed: int) -> None:
    """How much these take depends on the card: no amount of another container makes up for them."""
    rng = np.random.default_rng(seed)
    hard = {"hard": {f"limits.{MEMORY}": str(int(rng.integers(20, 20000)))}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": hard, "status": hard}
    objects: list[Object] = [node("a", 4), quota]
    asked = asking(rng)
    world, waiting = world_of(*objects, deepcopy(asked))
    if ask(world, waiting).node:
        return
    _, told = answer(world)
    assert advice(told), told
    for text in advice(told):
        world, waiting = world_of(*objects, done(asked, text))
        assert ask(world, waiting).decision.reasons.keys().isdisjoint({CardReason.ResourceQuotaNotFit}), text


@pytest.mark.parametrize("seed", range(12))
def test_the_nearest_card_is_of_the_maker_that_asks_as_much(seed: int) -> None:
    """What containers ask of other makers' cards has nothing to do with it."""
    rng = np.random.default_rng(seed)
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "mthreads.com/vgpu": "10", "vastaitech.com/va": "4"}
    amounts |= {"mthreads.com/sgpu-core": "64", "mthreads.com/sgpu-memory": "384"}
    card = {"count": 1, "devmem": 1000, "devcore": 100, "type": "va", "numa": 0, "health": True}
    notes = {"hami.io/node-va-register": json.dumps([{"id": f"va-{n}", "index": n, **card} for n in range(4)])}
    status = {"allocatable": amounts, "capacity": amounts}
    there = {"kind": "Node", "metadata": {"name": "a", "annotations": notes}, "status": status}
    asks = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-core": str(int(rng.integers(17, 60)))}
    mine = {"name": "mine", "resources": {"limits": asks}}
    other = {"name": "other", "resources": {"limits": {"vastaitech.com/va": str(int(rng.integers(1, 5)))}}}
    asked = pod("asked", {GPU: 1})
    if rng.random() < 0.5:
        asked["spec"] |= {"initContainers": [mine], "containers": [other]}
    else:
        asked["spec"]["containers"] = [mine, other] if rng.random() < 0.5 else [other, mine]
    _, told = answer(world_of(there, asked)[0])
    assert told.near_miss is not None
    less = int(asks["mthreads.com/sgpu-core"]) - 16
    said = f"ask 16 of mthreads.com/sgpu-core instead of {less + 16} in container mine, {less} less"
    assert told.remedies[0] == said, told


@pytest.mark.parametrize("seed", range(40))
def test_each_container_is_told_what_a_limit_of_a_policy_leaves_it(seed: int) -> None:
    """Less of one of them alone would not do."""
    rng = np.random.default_rng(seed)
    asked = asking(rng, whole=False)
    for each in (*asked["spec"].get("initContainers", ()), *asked["spec"]["containers"]):
        limits = each["resources"]["limits"]
        if limits.pop(SHARE, None):  # how much that is depends on the card
            limits[MEMORY] = "3000"
    field, most = [("coresPerPod", int(rng.integers(4, 20))), ("memoryPerPod", f"{int(rng.integers(400, 2000))}Mi")][
        int(rng.integers(0, 2))
    ]
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "l"}, "spec": {"limits": {field: most}}}
    objects = [node("a", cards=4), policy]
    where, told = answer(world_of(*objects, asked)[0])
    assert not where
    with_amounts = [remedy for remedy in told.remedies if ASK.match(remedy)]
    assert with_amounts, told
    for remedy in with_amounts:
        assert answer(world_of(*objects, done(asked, remedy))[0])[0] == "a", remedy


@pytest.mark.parametrize("seed", range(40))
def test_a_container_that_asks_for_no_compute_is_left_some_by_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards = int(rng.integers(1, 3))
    asked = pod("asked", {GPU: 1})
    made = asked["spec"]["containers"] = []
    for _ in range(cards):  # those before it take a card each
        first = int(rng.choice([100, int(rng.integers(1, 100))]))
        made += [each for each in (first, 100 - first) if each]
    made += [0] * int(rng.integers(1, 3))
    asked["spec"]["containers"] = [
        {"name": f"c{number}", "resources": {"limits": {GPU: "1", MEMORY: "100", **({CORES: str(n)} if n else {})}}}
        for number, n in enumerate(made)
    ]
    objects: list[Object] = [node("a", cards)]
    where, told = answer(world_of(*objects, deepcopy(asked))[0])
    if where:  # the shares were not dealt card by card
        assert cards > 1
        return
    assert advice(told), told
    for text in advice(told):
        assert answer(world_of(*objects, done(asked, text))[0])[0] == "a", text


@pytest.mark.parametrize("seed", range(6))
def test_where_others_have_all_compute_nothing_of_the_pod_helps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards = int(rng.integers(1, 4))
    objects = [node("a", cards), *(running(f"r{n}", "a", f"GPU-a-{n}", 100, 100) for n in range(cards))]
    asked = pod("asked", {GPU: 1, MEMORY: int(rng.integers(100, 9000))})
    _, told = answer(world_of(*objects, asked)[0])
    assert told.remedies == ("wait until other pods end, or ask for a node more: all compute of cards is allocated",)


def test_what_a_pod_is_given_by_default_is_said_wherever_it_is_to_ask_for_some() -> None:
    world, waiting = world_of(pod("asked", {GPU: 1, MEMORY: 2000}))
    reasons = (CardReason.CardInsufficientCore, CardReason.ResourceQuotaNotFit)
    message = f"0/3 nodes are available: {', '.join(f'1 {reason.text}' for reason in reasons)}."
    event = "nearest: 10 of 60 percent cores free on a/GPU-a-0"
    advice = remedies_from_condition(world, waiting, message, event, reason=ConditionReason.UNSCHEDULABLE).remedies
    of_compute = [each for each in map(str, advice) if CORES in each]
    assert len(of_compute) == 2
    assert all("(it asks for none, and is given 60 percent)" in each for each in of_compute)
