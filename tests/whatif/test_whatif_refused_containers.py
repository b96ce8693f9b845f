"""What a pod is refused for in one of its containers: that one is told, and the others keep their cards."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import pod, world_of
from tests.whatif.test_whatif_remedies_dialects import CORES, MEMORY, NUMBER, cluster

from vgpu_scheduler.whatif import remedies

LEAVE_OUT = re.compile(r"leave out (?P<names>.*) in containers? (?P<where>.*)")


def drawn(seed: int) -> dict[str, Any]:
    """Return a pod of Volcano with a card in a regular container, and some of it in containers that run before."""
    rng = np.random.default_rng(seed)
    amounts = {NUMBER: 1, MEMORY: int(rng.integers(1, 9000)), CORES: int(rng.integers(1, 50))}
    kept = [name for name in (MEMORY, CORES) if rng.random() < 0.5]
    asked = pod("asked", {NUMBER: 1, **{name: amounts[name] for name in kept}})
    before = []
    for number in range(int(rng.integers(1, 4))):
        names = [name for name in amounts if rng.random() < 0.4]
        limits = {name: str(amounts[name]) for name in names or ([NUMBER] if number == 0 else [])}
        before.append({"name": f"i{number}", "resources": {"limits": limits}})
        if rng.random() < 0.5:
            before[-1]["restartPolicy"] = "Always"
    asked["spec"]["initContainers"] = before
    return asked


def done(written: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a pod that does what a remedy says."""
    told = LEAVE_OUT.fullmatch(text)
    assert told is not None, text
    changed = deepcopy(written)
    for each in (*changed["spec"]["initContainers"], *changed["spec"]["containers"]):
        for name in told["names"].split(" and ") if each["name"] in told["where"].split(", ") else ():
            each["resources"]["limits"].pop(name, None)
    return changed


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_cards_are_left_out_where_they_are_refused_and_nowhere_else(seed: int) -> None:
    objects, asked = cluster("volcano", [[], []]), drawn(seed)
    world, waiting = world_of(*objects, deepcopy(asked), dialect="volcano")
    node, told = answer(world)
    assert not node
    with_nodes = [each.text for each in remedies(world, waiting) if each.node and each.text.startswith("leave out")]
    assert with_nodes
    assert told.remedies
    for text in (*with_nodes, *told.remedies):
        changed = done(asked, text)
        node, _ = answer(world_of(*objects, deepcopy(changed), dialect="volcano")[0])
        assert node, text
        assert changed["spec"]["containers"] == asked["spec"]["containers"], text
