"""Cards that are cut in few sizes: the largest smaller one that fits is advised, else the smallest larger one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_remedies import answer, done
from tests.whatif.test_whatif_remedies import pod, world_of

from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif import RemedyType, ask, remedies
from vgpu_scheduler.whatif.reasons.mismatch import describe_mismatch

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
    found = [each for each in remedies(world, waiting) if each.type is not RemedyType.ADD_NODE]
    if not fit:
        assert not found
        return
    advised = [*((max(smaller), "less") for _ in smaller[:1]), *((min(larger), "more") for _ in larger[:1])]
    assert len(found) in ({1} if len(advised) == 1 else {1, 2}), [each.text for each in found]
    for remedy, (size, end) in zip(found, advised, strict=False):  # a smaller size comes first
        kind = RemedyType.ASK_LESS if end == "less" else RemedyType.ASK_OTHERWISE
        assert (remedy.type, remedy.text.startswith(f"ask {size} of")) == (kind, True)
        assert remedy.text.endswith(end)
        assert remedy.pod is not None
        assert ask(*world_of(*nodes, dict(remedy.pod))).node == remedy.node


def slices(name: str, profiles: list[str], held: list[list[str]]) -> list[Object]:
    """Return a node of which each card has six slices, and the pods that hold pieces of its cards."""
    cards = [{"index": str(i), "minor": str(i), "capacity": 6} for i in range(len(held))]
    known = {profile: str(number) for number, profile in enumerate(profiles)}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", SLICES: "100"}
    annotations = {"enflame.com/gcu-drs-capacity": json.dumps({"devices": cards, "profiles": known})}
    largest = max(int(profile[0]) for profile in profiles)
    made: list[Object] = [
        {
            "kind": "Node",
            "metadata": {"name": name, "annotations": annotations},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
    ]
    for card, pieces in enumerate(held):
        for number, piece in enumerate(pieces):
            size, memory = int(piece[0]), int(piece[3:-2]) * 1024
            entry = f"{name}-enflame-drs-{card},Enflame,{memory},{-(-WHOLE * size // largest)}:;"
            notes = {
                "hami.io/vgpu-node": name,
                "hami.io/enflame-vgpu-devices-allocated": entry,
                "assigned-containers": json.dumps({"main": {"request": size, "allocated": True}}),
            }
            made.append(pod(f"r-{card}-{number}", {SLICES: size}, nodeName=name, metadata={"annotations": notes}))
    return made


@pytest.mark.parametrize("seed", seeds(40, 200))
def test_who_sees_no_nodes_is_told_a_size_that_there_is(seed: int) -> None:
    """What is free of a card that is cut is no amount that a pod can have."""
    rng = np.random.default_rng(seed)
    profiles = sorted(rng.choice(PROFILES, size=int(rng.integers(2, 5)), replace=False).tolist())
    held: list[list[str]] = []
    for _ in range(int(rng.integers(1, 3))):
        pieces: list[str] = []
        for piece in rng.permutation(profiles).tolist():
            if sum(int(each[0]) for each in (*pieces, piece)) <= 6 and rng.random() < 0.8:
                pieces.append(piece)
        held.append(pieces)
    objects = slices("n", profiles, held)
    written = pod("asked", {SLICES: int(rng.choice([int(profile[0]) for profile in profiles]))})
    where, told = answer(world_of(*objects, written)[0])
    if where:
        return
    for text in (each for each in told.remedies if each.startswith("ask ") and f" of {SLICES} " in each):
        assert answer(world_of(*objects, done(written, text))[0])[0] == "n", (told, held, profiles)
    fit = [size for size in range(1, 7) if ask(*world_of(*objects, pod("p", {SLICES: size}))).node]
    asked = int(written["spec"]["containers"][0]["resources"]["limits"][SLICES])
    smaller = [size for size in fit if size < asked]
    assert told.remedies[0].startswith(f"ask {max(smaller)} of {SLICES} " if smaller else ("the nearest", "wait")), told


def test_containers_that_each_take_a_piece_are_told_no_size() -> None:
    objects = slices("n", ["1g.6gb", "3g.20gb", "6g.40gb"], [["3g.20gb", "1g.6gb"]])
    asked = pod("asked", {SLICES: 3})
    (first,) = asked["spec"]["containers"]
    asked["spec"]["containers"] = [first, {"name": "b", "resources": {"limits": {SLICES: "1"}}}]
    _, told = answer(world_of(*objects, asked)[0])
    assert "1 of 3 shares in one piece and 2 of 4 shares for containers" in str(told.near_miss)
    said = "the nearest card has 2 of the 4 shares that they take"
    assert [text.rpartition(": ")[2] for text in told.remedies] == [said]


@pytest.mark.parametrize(
    ("profiles", "asked", "says"),
    [
        (["2g.12gb"], 1, "No card is allocated in slices of 1, as it asks; there are Enflame in slices of 2 (2)."),
        (
            ["2g.12gb", "4g.24gb"],
            3,
            "No card is allocated in slices of 3, as it asks; there are Enflame in slices of 2 or 4 (2).",
        ),
        (["1g.6gb", "3g.20gb"], 2, "in slices of 2, as it asks; there are Enflame in slices of 1 or 3 (2)."),
    ],
)
def test_the_size_of_slices_is_what_does_not_fit(profiles: list[str], asked: int, says: str) -> None:
    world, waiting = world_of(*slices("n", profiles, [[], []]), pod("asked", {SLICES: asked}))
    told = describe_mismatch(world, ask(world, waiting))
    assert told.endswith(says)
    assert "mode" not in told


def test_cards_of_several_nodes_are_told_by_their_sizes() -> None:
    objects = [*slices("n", ["2g.12gb"], [[], []]), *slices("m", ["2g.12gb", "4g.24gb"], [[]])]
    world, waiting = world_of(*objects, pod("asked", {SLICES: 1}))
    told = describe_mismatch(world, ask(world, waiting))
    assert told.endswith("there are Enflame in slices of 2 (2), Enflame in slices of 2 or 4 (1).")
