"""Resources of cards whose domain is mistyped: the one that is meant is told, and no resource that somebody offers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.typos import letters_off
from tests.whatif.test_whatif_admitted import node as node_offering
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import GPU, node, pod, world_of
from tests.whatif.test_whatif_remedies_dialects import NUMBER, cluster

from vgpu_scheduler.whatif import ask, remedies

Object = dict[str, Any]

ONE_OFF = [f"{domain}.com/gpu" for domain in letters_off("nvidia")]


@pytest.mark.parametrize("typed", [*ONE_OFF, "nvida.com/gpu", "nvidia.co/gpu", "Nvidia.com/gpu"])
def test_a_mistyped_domain_is_told_to_who_sees_nodes_and_to_who_does_not(typed: str) -> None:
    world, waiting = world_of(node("a"), pod("asked", {typed: 1}))
    said = f"write {GPU} instead of {typed} in container main"
    (found,) = remedies(world, waiting)
    assert (found.text, found.node) == (said, "a")
    assert ask(*world_of(node("a"), dict(found.pod or {}))).node == "a"
    assert said in answer(world)[1].remedies


def test_it_is_told_in_the_names_of_other_dialects_and_makers() -> None:
    typed = NUMBER.replace("volcano", "vulcano")
    world, waiting = world_of(*cluster("volcano", [[]]), pod("asked", {typed: 1}), dialect="volcano")
    assert f"write {NUMBER} instead of {typed} in container main" in [each.text for each in remedies(world, waiting)]
    world, waiting = world_of(node("a"), pod("asked", {"biren.com/gpu": 1}))
    assert remedies(world, waiting)[0].text == "write birentech.com/gpu instead of biren.com/gpu in container main"


@pytest.mark.parametrize("other", ["example.com/gpu", "intel.com/gpu", "nvida.com/tpu"])
def test_what_is_like_no_name_is_not_taken_for_one(other: str) -> None:
    world, waiting = world_of(node("a"), pod("asked", {other: 1}))
    assert not any("instead of" in each.text for each in remedies(world, waiting))


def test_what_somebody_offers_is_not_mistyped() -> None:
    there, asked = node_offering({}, {"nvidea.com/gpu": 1}), pod("asked", {"nvidea.com/gpu": 2})
    world, waiting = world_of(node("a"), there, asked)
    assert not any(f"write {GPU}" in each.text for each in remedies(world, waiting))
