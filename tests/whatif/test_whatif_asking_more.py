"""Cards that are cut in few sizes: the largest smaller one that fits is advised, else the smallest larger one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import pod, world_of

from vgpu_scheduler.whatif import RemedyKind, ask, remedies

Object = dict[str, Any]

SLICES = "enflame.com/drs-gcu"
PROFILES = ("1g.6gb", "2g.12gb", "3g.20gb", "4g.24gb", "6g.40gb")


def node(name: str, rng: np.random.Generator) -> Object:
    """Return a node of which each card has six slices, and which knows some profiles."""
    cards = [{"index": str(i), "minor": str(i), "capacity": 6} for i in range(int(rng.integers(1, 4)))]
    chosen = rng.choice(PROFILES, size=int(rng.integers(1, 3)), replace=False).tolist()
    profiles = {profile: str(number) for number, profile in enumerate(chosen)}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", SLICES: str(int(rng.integers(3, 7)) * len(cards))}
    annotations = {"enflame.com/gcu-drs-capacity": json.dumps({"devices": cards, "profiles": profiles})}
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


@pytest.mark.parametrize("seed", range(120))
def test_another_size_is_advised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [node(name, rng) for name in "ab"[: int(rng.integers(1, 3))]]
    asked = int(rng.integers(1, 9))
    fit = {size for size in range(1, 7) if ask(*world_of(*nodes, pod("p", {SLICES: size}))).node}
    world, waiting = world_of(*nodes, pod("p", {SLICES: asked}))
    if ask(world, waiting).node:
        assert asked in fit
        return
    smaller, larger = [size for size in fit if size < asked], [size for size in fit if size > asked]
    found = [each for each in remedies(world, waiting) if each.kind is not RemedyKind.ADD_NODE]
    if not fit:
        assert not found
        return
    if smaller:
        words, kind = f"ask {max(smaller)} of", RemedyKind.ASK_LESS
    else:
        words, kind = f"ask {min(larger)} of", RemedyKind.ASK_OTHERWISE
    (remedy,) = found
    assert (remedy.kind, remedy.text.startswith(words)) == (kind, True)
    assert remedy.text.endswith("less" if smaller else "more")
    assert remedy.pod is not None
    assert ask(*world_of(*nodes, dict(remedy.pod))).node == remedy.node
