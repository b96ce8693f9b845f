"""Whatever is advised, a pod that asked for cards asks for some afterwards, be their dialect in the settings or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import World, ask, make_dialect, remedies, remedies_from_condition

Object = dict[str, Any]

NAMES = {name: sorted(make().claims.resources) for name, make in DIALECTS.items()}
ALL = frozenset(name for names in NAMES.values() for name in names)


def drawn(seed: int) -> tuple[World, Pod, set[str]]:
    """Return a world that serves one dialect, and a pod that asks in the names of any, and beside them of a licence."""
    rng = np.random.default_rng(seed)
    served, other = (str(name) for name in rng.choice(list(DIALECTS), size=2))
    chosen = [str(name) for name in rng.choice(NAMES[other], size=int(rng.integers(1, min(4, len(NAMES[other]) + 1))))]
    limits = {name: int(rng.integers(1, 60)) for name in chosen}
    if rng.random() < 0.5:
        limits["example.com/licence"] = 1
    asked = pod("asked", limits)
    if rng.random() < 0.3:
        asked["spec"]["containers"].append({"name": "beside", "resources": {"limits": {chosen[0]: "1"}}})
    world = World(EngineOptions([make_dialect(served)]))
    full = [running("full", "a", "GPU-a-0", 16384)] if rng.random() < 0.5 else []
    world.add([node("a", cards=1), node("b", cards=0), *full, asked])
    (waiting,) = world.pending.values()
    return world, waiting, set(limits)


def asked_by(written: Any) -> set[str]:
    each = (container.get("resources") or {} for container in written["spec"]["containers"])
    return {name for resources in each for place in ("limits", "requests") for name in resources.get(place) or {}}


@pytest.mark.parametrize("seed", range(60))
def test_no_remedy_leaves_a_pod_that_asked_for_cards_without_any(seed: int) -> None:
    world, waiting, _ = drawn(seed)
    if ask(world, waiting).node:
        return
    for remedy in remedies(world, waiting):
        assert remedy.pod is None or asked_by(remedy.pod) & ALL, remedy.text


@pytest.mark.parametrize(
    "name", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "gpu.intel.com/i915", "amd.com/gpu"]
)
def test_cards_by_names_that_no_dialect_has_are_not_left_out_either(name: str) -> None:
    world = World(EngineOptions([make_dialect("hami")]))
    world.add([node("a", cards=1), node("b", cards=0), pod("asked", {name: 1})])
    (waiting,) = world.pending.values()
    assert not [remedy.text for remedy in remedies(world, waiting) if "leave out" in remedy.text]
    world.add([pod("hostdev", {name: 1, "nvidia.com/hostdev": 1}), pod("bare", {"nvidia.com/hostdev": 1})])
    (beside, bare) = [next(each for each in world.pending.values() if each.name == key) for key in ("hostdev", "bare")]
    assert not [remedy.text for remedy in remedies(world, beside) if f"leave out {name}" in remedy.text]
    assert [remedy.text for remedy in remedies(world, bare)] == ["leave out nvidia.com/hostdev in container main"]
    world.add([pod("both", {name: 1, GPU: 1, MEMORY: 100})])
    (both,) = [each for each in world.pending.values() if each.name == "both"]
    (remedy,) = remedies(world, both)
    assert remedy.text.startswith(f"leave out {name} in container main")


@pytest.mark.parametrize("seed", range(60))
def test_a_tenant_is_not_told_to_ask_less_of_cards_that_nobody_serves(seed: int) -> None:
    world, waiting, names = drawn(seed)
    dialects = list(world.engine.dialects)
    decision = ask(world, waiting).decision
    alone = World(EngineOptions(dialects))
    told = remedies_from_condition(alone, alone.pod(world.written(waiting)), decision.message, "").remedies
    served = {name for each in dialects for name in (*each.claims.resources, *each.inventory.device_resources)}
    for text in told:
        if text.startswith("leave out"):  # of names that do not go together some stay
            assert "example.com/licence" in text or (names & served).difference(text.split()), text
        for name in (names & ALL) - served:
            assert f"of {name} in container" not in text, text


def test_the_names_of_a_dialect_that_is_not_served_are_left_out_beside_cards_that_are() -> None:
    world = World(EngineOptions([make_dialect("hami")]))
    limits = {GPU: 1, MEMORY: 100, "volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 100}
    world.add([node("a", cards=1), pod("asked", limits)])
    (waiting,) = world.pending.values()
    texts = [each.text for each in remedies(world, waiting)]
    assert "leave out volcano.sh/vgpu-memory and volcano.sh/vgpu-number in container main" in texts
