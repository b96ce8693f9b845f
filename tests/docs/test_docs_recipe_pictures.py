"""The pictures of the recipes show the pods on the cards that the engine chose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from docs.recipe_pictures import FOLDER, RECIPES, cases_of, fleet, picture, pods_of

from vgpu_scheduler.whatif import Case, place, world_of

SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 15_000
ALLOCATED = "hami.io/vgpu-devices-allocated"
Tenants = dict[str, list[str]]


def shown(root: ET.Element) -> list[Tenants]:
    """Return the tenants of each card, as its tooltip names them: of the panel on the left, and on the right."""
    panels = []
    for panel in root.findall(f"{SVG}g")[:2]:
        cards = {}
        for card in panel.findall(f"{SVG}g"):
            found = re.fullmatch(r"(\S+): .* \((.*)\)", card.findtext(f"{SVG}title", ""))
            assert found
            cards[found[1]] = [] if found[2] == "idle" else found[2].split(", ")
        panels.append(cards)
    return panels


def chosen(case: Case, coming: Sequence[Mapping[str, Any]], cards: Tenants) -> Tenants:
    """Place the pods anew, and return the tenants of each card by what is written for the device plugin."""
    world = world_of(case)
    held = {pod.uid: ("one that ran already", pod.annotations.get(ALLOCATED, "")) for pod in world.bound.values()}
    for number, asked in enumerate(coming, 1):
        answer = place(world, asked)
        held[answer.decision.uid] = (f"pod {number}", answer.annotations.get(ALLOCATED, ""))
        for victim in answer.preemption.victims if answer.preemption else ():
            del held[victim.uid]
    found = {card: list[str]() for card in cards}
    for who, allocated in held.values():
        for card in re.findall(r"([^;:,]+),NVIDIA,", allocated):
            found[card].append(who)
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_a_picture_shows_the_cards_that_the_engine_chose(name: str) -> None:
    case, coming = pods_of(name)
    without, with_recipe = shown(ET.fromstring(picture(name)))
    assert without == chosen(case.model_copy(update={"policies": ()}), coming, without)
    assert with_recipe == chosen(case, coming, with_recipe)
    assert without != with_recipe, "the recipe changes something"


@pytest.mark.parametrize("name", RECIPES)
def test_a_picture_is_small_draws_every_share_and_is_the_same_each_time(name: str) -> None:
    text = picture(name)
    assert (FOLDER / f"{name}.svg").read_text() == text == picture(name)
    assert len(text.encode()) < MOST_BYTES
    case, coming = pods_of(name)
    for panel, recipe in zip(ET.fromstring(text).findall(f"{SVG}g")[:2], (False, True), strict=True):
        drawn = fleet(case, coming, recipe=recipe)
        shares = [share for cards in drawn.nodes.values() for card in cards for share in card.shares]
        numbers = [int(label.text or "") for label in panel.iter(f"{SVG}text") if label.get("class") == "n"]
        assert sorted(numbers) == sorted(share.pod for share in shares if share.pod)
        assert {*numbers, *drawn.waiting} == set(range(1, len(coming) + 1)), "each pod is on a card, or waits"
        for why in drawn.waiting.values():
            assert why.partition(": ")[2] in "".join(panel.itertext())


def test_every_recipe_has_a_picture_of_its_own_test() -> None:
    policies = FOLDER.parents[1] / "manifests" / "policies"
    assert (
        set(RECIPES) == {file.stem for file in policies.glob("*.yaml")} == {file.stem for file in FOLDER.glob("*.svg")}
    )
    for name, recipe in RECIPES.items():
        assert recipe["caption"].endswith(".")
        assert set(recipe["cases"]) <= set(cases_of(name)), name
        case, _ = pods_of(name)
        names = {policy["metadata"]["name"] for policy in case.policies}
        assert names == {
            each["metadata"]["name"] for each in yaml.safe_load_all((policies / f"{name}.yaml").read_text())
        }
