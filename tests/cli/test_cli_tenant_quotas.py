"""What somebody with rights in one namespace is told of its quotas: of whose pods, and how many they let in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api, run
from tests.cli.test_cli_tenants import explained, waiting
from tests.whatif.test_whatif_remedies import MEMORY, running

KEPT = "uota keeps it waiting"


def quota(**hard: int) -> dict[str, Any]:
    """Return a quota of the namespace team."""
    spec = {"hard": {f"limits.nvidia.com/{name}": str(amount) for name, amount in hard.items()}}
    metadata = {"name": "q", "namespace": "team", "uid": "q"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": spec}


def held(memory: int) -> dict[str, Any]:
    """Return a pod of the namespace that holds memory of a card."""
    made = running("held", "a", "GPU-a-0", memory)
    made["metadata"]["namespace"] = "team"
    return made


@pytest.mark.parametrize("named", ["default-scheduler", "hami-scheduler", "vgpu-scheduler", "vgpu-schedulr"])
@pytest.mark.parametrize("seed", range(15))
def test_only_a_pod_that_this_scheduler_places_is_kept_by_the_quota(api: Api, seed: int, named: str) -> None:
    rng = np.random.default_rng(seed)
    used, memory = (int(each) for each in rng.integers(1000, 5000, size=2))
    limit = used + memory - int(rng.integers(1, 1000))
    message = str(rng.choice(["", "0/1 nodes are available: 1 Insufficient cpu."]))
    asked = waiting("p", message)
    asked["spec"]["schedulerName"] = named
    asked["spec"]["containers"][0]["resources"]["limits"] |= {MEMORY: str(memory), "cpu": "8"}
    api.objects[:] = [quota(gpumem=limit), held(used), asked]
    api.settings = "coexist_with: [hami-scheduler]\n"
    answer = explained(api, "p")
    text = run("explain", "p", "-n", "team").stdout
    pending = run("simulate", "--pending", "-n", "team").stdout
    others = named in {"default-scheduler", "hami-scheduler"}
    assert (not answer["quotas"]) is others
    assert any(f"limits.{MEMORY}" in remedy for remedy in answer["remedies"]) is not others
    assert (KEPT in text) is (named == "vgpu-scheduler")
    assert ("uota would keep it waiting" in text) is (named == "vgpu-schedulr")
    assert (KEPT in pending) is (named == "vgpu-scheduler")
    assert (f"t is left to the scheduler {named}, which it names" in text) is others
    assert (f"t is left to the scheduler {named}, which it names" in pending) is others
