"""What somebody with rights in one namespace is told of a mistake keeps the quotas and limits that are seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.tenant_view import decided, done, told
from tests.cli.test_cli_tenant_advice import asking
from tests.cli.test_cli_tenant_quotas import held, quota
from tests.cli.test_cli_tenants import asking as in_file
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node

Object = dict[str, Any]


def mistaken(rng: np.random.Generator) -> tuple[Object, int]:
    """Return what a pod asks for by mistake, and what memory it means."""
    if rng.random() < 0.5:
        amount = int(rng.integers(3, 15))
        return {"gpu": 1, "gpumem": f"{amount}Gi"}, amount * 1024
    amount = int(rng.integers(3000, 15000))
    return {"gpumem": amount}, amount


@pytest.mark.parametrize("seed", range(50))
def test_a_corrected_mistake_keeps_the_quota_that_is_seen(api: Api, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    asks, meant = mistaken(rng)
    used = int(rng.integers(1, 9000))
    left = int(rng.integers(-500, 16000))
    cores = int(rng.integers(2, 90))
    quotas = [quota(gpumem=used + left)]
    if rng.random() < 0.3:
        asks, quotas = {**asks, "gpucores": cores}, [quota(gpumem=used + left, gpucores=cores)]
    api.objects[:] = [node("a", 2), held(used), *quotas, asking(**asks)]
    assert not decided(api, "p")
    remedies = told(api, "p")
    exceeded = left < meant
    assert (
        any(f"limits.{MEMORY} raised to {used + meant} (it is {used + left})" in each for each in remedies) is exceeded
    )
    assert any(f"ask {left} of {MEMORY}" in each for each in remedies) is (exceeded and left > 0)
    for each in remedies:
        if f"add {GPU}: 1 to" not in each:
            assert done(api, "p", each) == "a", each
    api.refused = frozenset(KINDS.values())
    for command in (["--pending"], ["-f", in_file(tmp_path, asking(**asks))]):
        pending = run("simulate", *command, "-n", "team").stdout
        then = f"then its quota keeps it waiting (namespace team uses {used} of {used + left} MiB"
        assert (then in pending) is exceeded, pending
    assert CORES not in "".join(remedies)


@pytest.mark.parametrize("beside_quota", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_a_corrected_mistake_keeps_the_limit_of_a_policy_that_is_seen(
    api: Api, seed: int, *, beside_quota: bool
) -> None:
    rng = np.random.default_rng(seed)
    asks, meant = mistaken(rng)
    most, left = int(rng.integers(1, 16000)), int(rng.integers(1, 16000)) if beside_quota else 10**6
    metadata = {"name": "l", "namespace": "team", "uid": "l"}
    policy = {"kind": "VGPUPolicy", "metadata": metadata, "spec": {"limits": {"memoryPerPod": f"{most}Mi"}}}
    api.objects[:] = [node("a", 2), policy, quota(gpumem=left), asking(**asks)]
    assert not decided(api, "p")
    remedies = told(api, "p")
    fits = min(most, left)
    assert any(f"ask {fits} of {MEMORY}" in each for each in remedies) is (fits < meant), remedies
    assert any("limits.memoryPerPod of VGPUPolicy team/l raised" in each for each in remedies) is (most < meant)
    for each in remedies:
        assert "limits." in each or fits >= meant or f"ask {fits} of {MEMORY}" in each, each
    pending = run("simulate", "--pending", "-n", "team").stdout
    assert ("limits.memoryPerPod of VGPUPolicy team/l allows" in pending) is (most < meant)
    assert api.refused == frozenset(KINDS.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hami.io/gpu-scheduler-policy", "binpak"),
        ("hami.io/node-scheduler-policy", "sprea"),
        ("nvidia.com/numa-bind", "yes"),
        ("hami.io/gpu-scheduler-policy", "spread"),
        ("nvidia.com/numa-bind", "true"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_values_of_annotations_that_have_no_effect_are_named_without_nodes(
    api: Api, tmp_path: Path, seed: int, name: str, value: str
) -> None:
    """As an administrator is told them."""
    rng = np.random.default_rng(seed)
    asked = asking(gpu=int(rng.integers(1, 3)), gpumem=int(rng.integers(1, 9000)))
    asked["metadata"]["annotations"] = {name: value}
    path = in_file(tmp_path, asked)
    api.objects[:] = [node("a", 2), asked]
    commands = (["simulate", "-f", path, "-n", "team"], ["simulate", "--pending", "-n", "team"])
    known = [_warned(*each, of=name) for each in commands]
    api.refused = frozenset(KINDS.values())
    assert [_warned(*each, of=name) for each in commands] == known
    assert _warned("explain", "p", "-n", "team", of=name) == known[0]
    assert bool(known[0]) is (value not in {"spread", "true"})


@pytest.mark.parametrize("name", ["nvidia.com/use-gputyp", "hami.io/gpu-schedular-policy", "nvidia.com/use-gputype"])
@pytest.mark.parametrize("is_bound", [True, False])
def test_mistyped_annotations_are_warned_of_whether_a_pod_waits_or_runs(api: Api, name: str, *, is_bound: bool) -> None:
    asked = asking(gpu=1, gpumem=100)
    if is_bound:
        asked = {**held(100), "status": {"phase": "Running"}}
        asked["metadata"] |= {"name": "p", "uid": "p"}
    asked["metadata"]["annotations"] = {**asked["metadata"].get("annotations", {}), name: "A100"}
    api.objects[:] = [node("a", 2), asked]
    known = _warned("explain", "p", "-n", "team", of=name)
    api.refused = frozenset(KINDS.values())
    assert _warned("explain", "p", "-n", "team", of=name) == known
    assert bool(known) is (name != "nvidia.com/use-gputype")


def _warned(*command: str, of: str) -> list[str]:
    return [each for each in run(*command).stderr.splitlines() if each.startswith("warning: ") and of in each]


@pytest.mark.parametrize("seed", range(20))
def test_of_a_corrected_pod_that_leaves_its_memory_to_the_card_this_is_said(api: Api, seed: int) -> None:
    """What is told without it is enough: nothing is known to keep the pod."""
    rng = np.random.default_rng(seed)
    left, cores = int(rng.integers(1, 30000)), int(rng.integers(1, 100))
    memory: Object = [{}, {"gpumem-percentage": int(rng.integers(1, 100))}, {"gpumem": int(rng.integers(1, left + 1))}][
        seed % 3
    ]
    api.objects[:] = [node("a", 2, 40000), quota(gpumem=left), asking(gpucores=cores, **memory)]
    assert not decided(api, "p")
    (added,) = told(api, "p")
    assert added.startswith(f"add {GPU}: 1 to the limits of container main")
    depends = f"(how much it takes of the {left} MiB that limits.{MEMORY} leaves depends on the card)"
    assert (depends in added) is ("gpumem" not in memory)
