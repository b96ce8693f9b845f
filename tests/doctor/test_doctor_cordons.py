"""Cordon annotations: names that are no cards of their node are told, with the one that is meant; others are not."""

from __future__ import annotations

from copy import deepcopy

import pytest
from tests.cli.typos import letters_off
from tests.doctor.clusters import healthy, look
from tests.engine.builders import card, node_object

KEY = "hami.io/device-cordon"
UUID, OTHER = "GPU-3f9c2d1e-77aa-4b60-9c1d-0a5be8f21c44", "GPU-81d0b6a2-5e4f-4c11-8f7e-d93a7be06512"


def told(text: str, listed: tuple[str, ...] = (UUID, OTHER)) -> list[str]:
    """Return what the doctor says of a node with this annotation, beside a node that lists another card."""
    objects = deepcopy(healthy())
    made = node_object("c", [card(uuid, index=number) for number, uuid in enumerate(listed)])
    made["metadata"].setdefault("annotations", {})[KEY] = text
    objects["Node"].append(made)
    return [each.message for each in look(objects).findings if each.diagnosis.id == "cordon-without-card"]


@pytest.mark.parametrize("typed", [each for each in letters_off(UUID)[::4] if each.strip()])
def test_a_mistyped_card_is_told_with_the_one_that_is_meant(typed: str) -> None:
    message = f"its annotation {KEY} names card {typed}, which the node does not list, did you mean {UUID}?"
    assert told(typed) == [message]
    assert told(f"{OTHER}, {typed}") == [message]


@pytest.mark.parametrize("text", ["", UUID, f"{UUID},{OTHER}", f" {UUID} , ", f"{OTHER},", ",", f"{UUID},{UUID}"])
def test_cards_of_the_node_are_not_told(text: str) -> None:
    assert told(text) == []


def test_a_card_of_another_node_is_told_with_that_node() -> None:
    (message,) = told("a-gpu-0")
    assert message.endswith("names card a-gpu-0, which the node does not list; a-gpu-0 is a card of node a")


def test_a_node_that_lists_no_cards_is_left_out() -> None:
    assert told("GPU-gone", ()) == []
