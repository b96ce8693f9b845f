"""Ports of the node: another one is advised where the port alone keeps a pod away, to whoever sees the nodes or not."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running, world_of

from vgpu_scheduler.predicates.reasons import PORTS
from vgpu_scheduler.whatif import RemedyType, ask, remedies

Object = dict[str, Any]

PORTS_ASKED = (8080, 9090)


def drawn(rng: np.random.Generator) -> list[Object]:
    """Return nodes of which ports and cards are taken, and a pod that asks for both."""
    names = [f"n{number}" for number in range(int(rng.integers(1, 4)))]
    taken = []
    for name in names:
        ports = [int(port) for port in PORTS_ASKED if rng.random() < 0.8] or [8080]
        listed = [{"containerPort": 1, "hostPort": port} for port in ports]
        made = running(f"on-{name}", name, f"GPU-{name}-0", 16000 if rng.random() < 0.3 else 1000)
        made["spec"]["containers"][0]["ports"] = listed
        taken.append(made)
    asked = pod("asked", {GPU: 1, MEMORY: 2000})
    asked["spec"]["containers"][0]["ports"] = [
        {"containerPort": 1, "hostPort": port} for port in PORTS_ASKED[: int(rng.integers(1, 3))]
    ]
    return [*(node(name, 1) for name in names), *taken, asked]


def without(written: Object, port: int) -> Object:
    changed = deepcopy(written)
    ports = changed["spec"]["containers"][0]["ports"]
    changed["spec"]["containers"][0]["ports"] = [each for each in ports if each["hostPort"] != port]
    return changed


@pytest.mark.parametrize("seed", range(80))
def test_another_port_is_advised_where_the_port_alone_keeps_the_pod_away(seed: int) -> None:
    objects = drawn(np.random.default_rng(seed))
    made, waiting = world_of(*objects)
    if ask(made, waiting).node:
        return
    told = [each for each in remedies(made, waiting) if each.type is RemedyType.DROP_CONSTRAINT]
    expected = {}
    for port in PORTS_ASKED:
        again, otherwise = world_of(*objects[:-1], without(objects[-1], port))
        if there := ask(again, otherwise).node:
            expected[f"use another host port than {port} in container main, or none and a Service"] = there
    assert {each.text: each.node for each in told} == expected


@pytest.mark.parametrize("seed", range(50))
def test_a_tenant_is_told_of_the_port_where_nodes_say_that_it_is_taken(seed: int) -> None:
    objects = drawn(np.random.default_rng(seed))
    objects[-1]["spec"]["hostNetwork"] = bool(seed % 2)
    made, waiting = world_of(*objects)
    decision = ask(made, waiting).decision
    _, told = answer(made)
    said = PORTS in decision.reasons
    assert any(text.startswith("use another host port than 8080 in container main") for text in told.remedies) is said
    assert any("Service" in text for text in told.remedies) is (said and not seed % 2)
