"""Volumes that are found for several claims of a pod on all nodes at once are those that one node at a time gives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kube.objects import node, pod
from tests.kube.storage_objects import claim, claim_volume, storage_class, volume

from vgpu_scheduler.kube import decode_node, decode_pod, decode_storage_class, decode_volume, decode_volume_claim
from vgpu_scheduler.predicates.volumes import VOLUME_BINDING_PLUGIN, volume_plan
from vgpu_scheduler.state import State

NODES = 40
MODES = (["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])
CLASSES = ("local", "other")


def filled(rng: np.random.Generator) -> State:
    """Return nodes with some volumes each, of few sizes, kinds and classes, of which none can be made."""
    state = State({"hami": 3})
    for name in CLASSES:
        made = storage_class(name, provisioner="kubernetes.io/no-provisioner")
        state.volumes.observe(decode_storage_class(made))
    for index in range(NODES):
        state.observe_node(decode_node(node(f"n{index}", labels={"host": f"h{index}", "zone": f"z{index % 3}"})), {})
        for number, (size, kind) in enumerate(rng.integers(0, 6, (int(rng.integers(0, 6)), 2)).tolist()):
            where = [{"host": [f"h{index}"]}, {"zone": [f"z{index % 3}"]}][index % 20 == 0]
            found = volume(
                f"v{index}-{number}",
                size=f"{1 + size}Gi",
                storage_class=CLASSES[kind == 5],
                nodes=where,
                accessModes=MODES[kind % 2],
            )
            state.volumes.observe(decode_volume(found))
    return state


@pytest.mark.parametrize("kinds", [1, 2])
def test_all_nodes_at_once_give_what_one_node_at_a_time_gives(kinds: int) -> None:
    rng = np.random.default_rng(3)
    passed = 0
    for _ in range(60):
        state = filled(rng)
        names = [f"c{index}" for index in range(int(rng.integers(2, 6)))]
        for name in names:
            size, kind, of_class = rng.integers(0, 5, 3).tolist()
            asked = claim(
                name,
                "ns",
                size=f"{1 + size}Gi",
                storage_class=CLASSES[of_class == 4],
                accessModes=MODES[kind % kinds],
            )
            state.volumes.observe(decode_volume_claim(asked))
        found = decode_pod(pod(volumes=[claim_volume(name) for name in names]))
        rows = state.nodes.rows()
        codes = VOLUME_BINDING_PLUGIN.make(found, state).evaluate(found, rows)
        passes = np.ones(len(rows), dtype=bool) if codes is None else codes == 0
        one_by_one = [not volume_plan(found, row, state).provisioned for row in rows.tolist()]
        assert passes.tolist() == one_by_one
        passed += int(passes.sum())
    assert passed > 100
