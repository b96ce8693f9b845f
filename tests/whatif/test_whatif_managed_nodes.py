"""Nodes that the setting managed_nodes leaves out: who labels one as is said has the pod placed there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.group_worlds import member
from tests.whatif.test_whatif_new_nodes import ASKED, DIALECTS, of_dialect
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import Pod, parse_label_selector
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif import RemedyType, World, ask, explain_pod, make_dialect, remedies

Object = dict[str, Any]


def defaults(selector: str) -> PolicyDefaults:
    return PolicyDefaults(managed=parse_label_selector(selector))


def world_of(selector: str, *objects: Object) -> tuple[World, Pod]:
    made = World(EngineOptions([make_dialect("hami")], defaults=defaults(selector)))
    made.add(objects)
    return made, next(iter(made.pending.values()))


def test_the_selector_and_the_label_are_told() -> None:
    made, asked = world_of("pool=vgpu", node("a", labels={"pool": "hami"}), pod("asked", {GPU: 1}))
    told = explain_pod(made, asked).text()
    assert "This scheduler manages nodes with pool=vgpu (setting managed_nodes)." in told
    command = "kubectl label --overwrite node a pool=vgpu"
    assert (
        f"have node a managed by this scheduler (setting managed_nodes), if no other scheduler does: {command}" in told
    )


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_a_node_that_is_labelled_as_is_said_takes_the_pod(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = ["pool=vgpu", "zone in (x, y)", "tier!=low", "gpu", "!spare"]
    selector = ",".join(parts[n] for n in sorted(rng.choice(len(parts), size=int(rng.integers(1, 4)), replace=False)))
    values = {"pool": "hami", "zone": "x", "tier": "low", "gpu": "on", "spare": "1"}
    nodes = []
    for name in "abc":
        labels = {key: value for key, value in values.items() if rng.random() < 0.5}
        nodes.append(node(name, cards=int(rng.integers(0, 3)), memory=int(rng.integers(1, 4)) * 8192, labels=labels))
    memory = int(rng.integers(1, 20000))
    asked = [pod("asked", {GPU: 1, MEMORY: memory})]
    if seed % 2:
        asked = [member(f"asked{n}", n, 2, memory) for n in range(2)]
    made, waiting = world_of(selector, *nodes, *asked)
    found = explain_pod(made, waiting)
    managed = [each for each in found.remedies if each.type is RemedyType.MANAGE_NODE]
    large = {each["metadata"]["name"] for each in nodes if _fits(each, memory, len(asked))}
    offered = {each.node for each in managed}
    if found.answer.node:
        assert not offered
    else:  # of a group some pods may go to a node that is managed already
        assert large <= offered if len(asked) > 1 else large == offered
    for remedy in managed:
        changed = {each["metadata"]["name"]: each for each in remedy.objects}
        again, waiting = world_of(selector, *(changed.get(each["metadata"]["name"], each) for each in nodes), *asked)
        assert ask(again, waiting).node == remedy.node, remedy.text


def _fits(made: Object, memory: int, count: int) -> bool:
    cards = [int(each.split(",")[2]) for each in _registered(made).split(":") if each]
    return sum(each // memory for each in cards) >= count


def _registered(made: Object) -> str:
    return str(made["metadata"]["annotations"].get("hami.io/node-nvidia-register", ""))


def test_labels_that_say_what_a_node_is_are_not_written() -> None:
    made, asked = world_of("kubernetes.io/hostname in (b, c)", node("a"), pod("asked", {GPU: 1}))
    found = explain_pod(made, asked)
    assert not found.remedies
    assert "nodes with kubernetes.io/hostname in (b, c) (setting" in found.text()


@pytest.mark.parametrize("seed", seeds(3, 50))
def test_nodes_with_cards_of_the_dialect_that_is_asked_are_tried_first(seed: int) -> None:
    """However many nodes there are that have no cards, or those of others."""
    rng = np.random.default_rng(seed)
    named, *others = (DIALECTS[int(n)] for n in rng.permutation(3))
    count = int(rng.integers(66, 80))
    right = f"n{int(rng.integers(65, count)):02}"
    objects: list[Object] = [pod("asked", ASKED[named](1000))]
    for name in (f"n{number:02}" for number in range(count)):
        if name == right:
            objects += of_dialect(named, name, 16384)
        elif rng.random() < 0.5:
            objects += of_dialect(str(rng.choice(others)), name, 16384)
        else:
            objects.append(node(name, cards=0))
    made = World(EngineOptions([make_dialect(name) for name in DIALECTS], defaults=defaults("pool=vgpu")))
    made.add(objects)
    (waiting,) = made.pending.values()
    found = [each for each in remedies(made, waiting) if each.type is RemedyType.MANAGE_NODE]
    assert [each.node for each in found] == [right]
