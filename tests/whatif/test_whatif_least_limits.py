"""A limit of a quota is raised to the least with which the pod fits, whoever is served before it and takes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import asked_of, waits

from vgpu_scheduler.whatif import RemedyType, explain_pod

Object = dict[str, Any]

STEP = 500
MOST = 60
"""Steps up to which limits are tried one by one."""


def quota(limit: int | str, resource: str = MEMORY) -> Object:
    hard = {f"limits.{resource}": str(limit)}
    metadata = {"name": f"q-{resource.rpartition('/')[2]}", "namespace": "default"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def drawn(seed: int) -> tuple[list[Object], int]:
    """Return a namespace with room on its nodes, pods that wait before one, and how much of its quota is used."""
    rng = np.random.default_rng(seed)

    def amount(most: int) -> int:
        return STEP * int(rng.integers(1, most))

    objects = [node(name, cards=4) for name in "ab"]
    used = amount(12)
    objects.append(running("r", "a", "GPU-a-0", used))
    objects += [
        waits(f"w{n}", {GPU: 1, MEMORY: amount(12), CORES: 10}, int(rng.integers(0, 20)), priority=n % 2)
        for n in range(int(rng.integers(1, 5)))
    ]
    objects.append(waits("asked", {GPU: 1, MEMORY: amount(12), CORES: 10}, 10))
    return objects, used


def fits(objects: list[Object], *quotas: Object) -> bool:
    made = world_of(*objects, *quotas)
    return bool(explain_pod(made, asked_of(made)).answer.node)


@pytest.mark.parametrize("seed", range(120))
def test_a_limit_is_raised_to_the_least_with_which_the_pod_fits(seed: int) -> None:
    objects, used = drawn(seed)
    made = world_of(*objects, quota(used))
    found = explain_pod(made, asked_of(made))
    (raised,) = [remedy for remedy in found.remedies if remedy.type is RemedyType.RAISE_QUOTA]
    least = next(limit for limit in range(used, MOST * STEP, STEP) if fits(objects, quota(limit)))
    assert raised.text == f"raise limits.{MEMORY} of ResourceQuota default/q-gpumem to {least} (it is {used})"
    assert raised.objects[0]["spec"]["hard"] == {f"limits.{MEMORY}": str(least)}


@pytest.mark.parametrize("seed", seeds(8, 40))
def test_limits_that_are_raised_together_are_no_higher_than_they_have_to_be(seed: int) -> None:
    objects, used = drawn(seed)
    made = world_of(*objects, quota(used), quota(5, CORES))
    found = explain_pod(made, asked_of(made))
    (raised,) = [remedy for remedy in found.remedies if remedy.type is RemedyType.RAISE_QUOTA]
    limits = {each["metadata"]["name"]: each for each in raised.objects}
    memory, cores = (int(*limits[name]["spec"]["hard"].values()) for name in ("q-gpumem", "q-gpucores"))
    assert fits(objects, quota(memory), quota(cores, CORES))
    assert not any(fits(objects, quota(limit), quota(cores, CORES)) for limit in range(used, memory, STEP))
    assert not any(fits(objects, quota(memory), quota(limit, CORES)) for limit in range(0, cores, 10))


@pytest.mark.parametrize("written", ["10k", "10000"])
def test_limits_are_shown_as_the_figures_beside_them(written: str) -> None:
    """The API server writes 10000 as 10k."""
    asked = waits("asked", {GPU: 1, MEMORY: 6000}, 1)
    made = world_of(node("a"), running("r", "a", "GPU-a-0", 9500), quota(written), asked)
    texts = [remedy.text for remedy in explain_pod(made, asked_of(made)).remedies]
    assert any("to 15500 (it is 10000)" in text for text in texts), texts
