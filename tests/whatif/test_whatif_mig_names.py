"""MIG instances asked by the names of NVIDIA's own device plugin: as what this scheduler cuts them from."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import cards, node_object
from tests.simulation.cluster import MIG
from tests.whatif.test_whatif_admitted import node as node_offering
from tests.whatif.test_whatif_remedies import pod, world_of

from vgpu_scheduler.dialects.hami.vendors.nvidia_names import KNOWN_GEOMETRIES, MODE
from vgpu_scheduler.whatif import Remedy, RemedyType, remedies, remedies_from_condition

Object = dict[str, Any]
PROFILES = sorted(
    {(geometry.models[0], *piece) for geometry in KNOWN_GEOMETRIES for row in geometry.templates for piece in row}
)


def in_mig_mode(model: str) -> Object:
    """Return a node with two cards in MIG mode, registered without profiles."""
    return {"kind": "Node", **node_object("a", cards("a", 2, mode="mig", type=f"NVIDIA-{model}", memory=81920))}


def corrections(found: list[Remedy]) -> list[Remedy]:
    return [each for each in found if each.type is RemedyType.CORRECT]


@pytest.mark.parametrize(("model", "profile", "memory", "most"), PROFILES)
@pytest.mark.parametrize("count", [1, 2])
def test_it_fits_as_a_part_of_a_card(model: str, profile: str, memory: int, most: int, count: int) -> None:
    name = f"nvidia.com/mig-{profile}"
    (found,) = corrections(remedies(*world_of(in_mig_mode(model), pod("asked", {name: count}))))
    amounts = f"{count} of nvidia.com/gpu and {memory} of nvidia.com/gpumem"
    said = f"ask {amounts} in container main, with annotation {MODE}: mig, instead of {name}"
    assert (found.text, found.node) == (said, "a" if count <= 2 * most else "")
    world, waiting = world_of(in_mig_mode(model), dict(found.pod or {}))
    placement = world.engine.attempts.dry_run(waiting, explain=False).placement
    assert placement is not None
    (container,) = placement.containers
    assert {each.piece.profile for each in container if each.piece} == {profile}


@pytest.mark.parametrize("profile", ["1g.7gb", "9g.5gb", "1g.5gb.me"])
def test_an_instance_that_no_card_has_is_not_proposed(profile: str) -> None:
    asked = pod("asked", {f"nvidia.com/mig-{profile}": 1})
    assert not corrections(remedies(*world_of(in_mig_mode("A100-SXM4-40GB"), asked)))


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"nvidia.com/mig-1g.5gb": 1, "nvidia.com/gpu": 1}, {}),
        ({"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-2g.10gb": 1}, {}),
        ({"nvidia.com/mig-1g.5gb": 1}, {MODE: "hami-core"}),
        ({"nvidia.com/mig-1g.5gb": 0}, {}),
    ],
)
def test_what_has_no_other_form_is_let_be(limits: Object, annotations: Object) -> None:
    asked = pod("asked", limits, metadata={"annotations": annotations})
    found = remedies(*world_of(in_mig_mode("A100-SXM4-40GB"), asked))
    assert not [each for each in found if "with annotation" in each.text]


def test_what_nodes_offer_is_let_be() -> None:
    there = node_offering({}, {"nvidia.com/mig-1g.5gb": 1})
    found = remedies(*world_of(in_mig_mode("A100-SXM4-40GB"), there, pod("asked", {"nvidia.com/mig-1g.5gb": 2})))
    assert not [each for each in found if "with annotation" in each.text]


def test_registered_profiles_count() -> None:
    there = {"kind": "Node", **node_object("a", cards("a", 1, **MIG))}
    (found,) = corrections(remedies(*world_of(there, pod("asked", {"nvidia.com/mig-2g.4gb": 1}))))
    assert found.node == "a"


@pytest.mark.parametrize("count", [1, 2])
def test_who_sees_no_nodes_is_not_told_to_leave_out_an_instance(count: int) -> None:
    name = "nvidia.com/mig-1g.5gb"
    world, waiting = world_of(node_offering({}, {}), pod("asked", {name: count}))
    said = f"0/12 nodes are available: 1 node(s) had untolerated taint(s), 11 Insufficient {name}."
    told = remedies_from_condition(world, waiting, said, "").remedies
    amounts = f"{count} of nvidia.com/gpu and 4800 of nvidia.com/gpumem"
    assert told[0].startswith(f"ask {amounts} in container main, with annotation {MODE}: mig, instead of {name}: ")
    assert not any(each.startswith(("leave out", "ask for less")) for each in told)


def test_nor_cards_by_another_name_of_other_plugins() -> None:
    world, waiting = world_of(node_offering({}, {}), pod("asked", {"gpu.intel.com/i915": 1}))
    said = "0/12 nodes are available: 12 Insufficient gpu.intel.com/i915."
    told, wait = remedies_from_condition(world, waiting, said, "").remedies
    which = "ask an administrator of the nodes which cards there are"
    assert told == f"{which}: nodes have none or too few of gpu.intel.com/i915 left"
    assert wait.startswith("wait until other pods end, or end pods of your own: ")
