"""Cards in MIG mode: their shares are the instances that they can be cut into, and a pod's instances are named."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import cards, node_object
from tests.whatif.test_whatif_mig_names import PROFILES, in_mig_mode
from tests.whatif.test_whatif_remedies import GPU, MEMORY, world_of
from tests.whatif.test_whatif_remedies import pod as written

from vgpu_scheduler.dialects.hami.vendors.nvidia_names import KNOWN_GEOMETRIES, MODE
from vgpu_scheduler.whatif import held_cards
from vgpu_scheduler.whatif.explanation.cards import instances_of
from vgpu_scheduler.whatif.world import usage

Object = dict[str, Any]


@pytest.mark.parametrize("geometry", KNOWN_GEOMETRIES, ids=lambda geometry: geometry.models[0])
def test_the_shares_of_a_card_are_its_most_instances(geometry: Any) -> None:
    world, _ = world_of(in_mig_mode(geometry.models[0]), written("asked", {GPU: 1}))
    most = max(sum(count for *_, count in row) for row in geometry.templates)
    (total,) = {each.slots.total for each in usage.cards(world)}
    assert total == min(most, 4), "the card is registered with 4 shares"


@pytest.mark.parametrize(("model", "profile", "memory", "most"), PROFILES)
@pytest.mark.parametrize("count", [1, 2])
def test_the_instances_of_a_pod_are_named(model: str, profile: str, memory: int, most: int, count: int) -> None:
    asked = written("asked", {GPU: count, MEMORY: memory}, metadata={"annotations": {MODE: "mig"}})
    world, waiting = world_of(in_mig_mode(model), asked)
    placement = world.engine.attempts.dry_run(waiting, explain=False).placement
    assert placement is not None
    notes = world.engine.dialects.annotations(placement, 0)
    bound = written(
        "asked", {GPU: count, MEMORY: memory}, nodeName="a", metadata={"annotations": {MODE: "mig", **notes}}
    )
    world, _ = world_of(in_mig_mode(model), bound, written("waits", {GPU: 1}))
    (there,) = world.bound.values()
    named = [word for line in held_cards(world, there) for word in line.split(", ") if word.startswith("instance")]
    assert named == [f"instance {profile}"] * count
    assert sum(each.slots.used for each in usage.cards(world)) == count


def test_other_cards_have_no_instances() -> None:
    world, _ = world_of({"kind": "Node", **node_object("b", cards("b", 2))}, written("asked", {GPU: 1}))
    for _, _, device in world.listed_devices():
        assert instances_of(device, device.total) == ()
        assert device.most_pieces == 0
