"""Several containers of a pod, told without the nodes: whoever does what is told for all of them sees the pod fit."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, world_of

from vgpu_scheduler.whatif import ConditionRemedies, ask

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
        assert ask(world, waiting).decision.reasons.keys().isdisjoint({"ResourceQuotaNotFit"}), text
