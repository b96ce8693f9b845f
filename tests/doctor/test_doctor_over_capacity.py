"""Cards of which more is used than there is: how much of what by whom, and only by pods that are known to be there."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.dialects.test_dialects_mig import placement
from tests.doctor.clusters import Objects, found, healthy, look, messages, tenant
from tests.doctor.planted import named
from tests.engine.builders import allocation, cards, node_object, pod_object
from tests.simulation.cluster import MIG


@pytest.mark.parametrize("seed", range(60))
def test_over_capacity_says_how_much_of_what_by_whom(seed: int) -> None:
    rng, objects = np.random.default_rng(seed), healthy()
    shares = [(int(rng.integers(1000, 9000)), int(rng.integers(1, 80))) for _ in range(int(rng.integers(2, 6)))]
    objects["Pod"] += [tenant(f"big-{n}", "a", ("a-gpu-1", *share)) for n, share in enumerate(shares)]
    (total,) = {each["devmem"] for each in json.loads(registered(objects)) if each["id"] == "a-gpu-1"}
    told = messages(look(objects))
    for column, most, unit in ((0, total, "MiB memory"), (1, 100, "percent cores")):
        used = sum(share[column] for share in shares)
        by = ", ".join(f"default/big-{n} ({share[column]})" for n, share in enumerate(shares))
        assert (f"{used} of {most} {unit} by {by}" in told) is (used > most)


@pytest.mark.parametrize("seed", range(30))
def test_whose_cards_are_not_known_makes_no_card_one_that_is_used_too_much(seed: int) -> None:
    rng, objects = np.random.default_rng(seed), healthy()
    shares = [(int(rng.integers(1000, 9000)), 1) for _ in range(int(rng.integers(1, 4)))]
    objects["Pod"] += [tenant(f"big-{n}", "a", ("a-gpu-1", *share)) for n, share in enumerate(shares)]
    before = messages(look(objects))
    unknown = tenant("garbled", "a", ("a-gpu-1", 7000, 10))
    notes, key = unknown["metadata"]["annotations"], "hami.io/vgpu-devices-allocated"
    match int(rng.integers(3)):
        case 0:
            notes[key] = "a-gpu-1,NVIDIA,much,10:;"
        case 1:
            del notes[key]
        case 2:
            notes["hami.io/vgpu-node"] = "b"
    objects["Pod"].append(unknown)
    report = look(objects)
    told = [line for line in before.splitlines() if "beyond" in line]
    assert [line for line in messages(report).splitlines() if "beyond" in line] == told
    assert any(ref == "Pod default/garbled" for _, ref in found(report))


def registered(objects: Objects) -> str:
    return str(named(objects, "Node", "a")["metadata"]["annotations"]["hami.io/node-nvidia-register"])


def _with_pieces(name: str, *pieces: tuple[str, int]) -> dict[str, Any]:
    """Return a pod that has pieces of MIG cards of node c, each at a place."""
    notes = allocation("c", *((uuid, 1984, 25) for uuid, _ in pieces))
    places = [placement(uuid, start, number=number) for number, (uuid, start) in enumerate(pieces)]
    notes["hami.io/vgpu-mig-allocations"] = json.dumps(places)
    return pod_object(name, annotations=notes, nodeName="c", started=True)


@pytest.mark.parametrize("garbled", [False, True])
def test_pieces_that_overlap_are_told_without_bookkeeping(*, garbled: bool) -> None:
    objects = healthy()
    objects["Node"].append(node_object("c", cards("c", 1, **MIG)))
    objects["Pod"] += [_with_pieces(name, ("c-gpu-0", 0)) for name in "xy"]
    if garbled:
        unknown = _with_pieces("z", ("c-gpu-0", 1))
        unknown["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = "?"
        objects["Pod"].append(unknown)
    told = [line for line in messages(look(objects)).splitlines() if "beyond" in line]
    assert told
    assert all(
        "card c-gpu-0 is used beyond its capacity: slices that overlap, by default/x, default/y" in line
        for line in told
    )


def test_a_pod_that_may_have_more_of_a_card_than_is_known_overlaps_nobody() -> None:
    objects = healthy()
    objects["Node"].append(node_object("c", cards("c", 1, **MIG)))
    objects["Pod"].append(_with_pieces("two", ("c-gpu-0", 0), ("c-gpu-9", 0)))
    report = look(objects)
    assert ("allocation-phantom", "Pod default/two") in found(report)
    assert "beyond" not in messages(report)
