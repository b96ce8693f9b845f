"""The plugins for volumes: the product, from indexes that events keep, against the naive twin, from all objects."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import volumes as naive
from tests.naive.predicates import UU, Obj, U, Verdict
from tests.seeds import seeds
from tests.state.volumes_world import MOVES, POD_VOLUMES, Move, World, asking

from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.predicates import CLUSTER_PLUGINS, FilterError, volume_plan
from vgpu_scheduler.state import State

PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
ERROR = "error"
NAMES = re.compile(r'"[cv][0-9]"')
CLUSTERS = 2_000
TEXTS = (
    "passes", ERROR, "already in-use by another pod", "had no available disk", "exceed max volume count",
    "didn't find available persistent volumes", "didn't match PersistentVolume's node affinity",
    "did not have enough free storage", "bound to non-existent pv(s)", "had no available volume zone",
    'persistentvolumeclaim "…" not found', "unbound immediate", "is being deleted", "waiting for ephemeral",
    "pod is not owner", "bound to non-existent persistentvolume", 'persistentvolume "…" not found',
)  # fmt: skip

numbers = st.integers(0, 60)
moves = st.lists(st.tuples(st.integers(0, MOVES - 1), numbers, numbers, numbers), max_size=30)
questions = st.lists(st.integers(0, len(POD_VOLUMES) - 1), min_size=1, max_size=6)


def product(incoming: Pod, state: State) -> dict[str, Verdict | None] | str:
    """What the product says of every node, as kube-scheduler's cycle would have it."""
    rows = state.nodes.rows()
    filters = [each.make(incoming, state) for each in CLUSTER_PLUGINS if each.name in PLUGINS]
    relevant = [each.key(incoming, state) is not None for each in CLUSTER_PLUGINS if each.name in PLUGINS]
    found: dict[str, Verdict | None] = {state.nodes.name(row): None for row in rows.tolist()}
    try:
        for each in filters:
            if (reason := each.pre_filter(incoming)) is not None:
                return {name: (reason.plugin, UU, frozenset({reason.text})) for name in found}
        for each, matters in zip(filters, relevant, strict=True):
            codes = each.evaluate(incoming, rows)
            if codes is None:
                continue
            assert matters or not codes.any()
            for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
                if code:
                    rejection = each.rejections[code]
                    status = U if rejection.resolvable else UU
                    found[state.nodes.name(row)] = (rejection.plugin, status, frozenset(rejection.texts))
            rows = rows[codes == 0]
    except FilterError:
        return ERROR
    return found


def twin(obj: Obj, world: World) -> dict[str, Verdict | None] | str:
    try:
        return naive.verdicts(obj, list(world.nodes.values()), world.resident(), world.as_decided())
    except naive.AttemptError:
        return ERROR


def agree(world: World, volumes: int, told: Counter[str]) -> None:
    """Compare what both say of a pod with certain volumes, and make the plan for a node."""
    obj = asking("asks", volumes)
    incoming = decode_pod(obj)
    expected = twin(obj, world)
    assert product(incoming, world.state) == expected
    if isinstance(expected, str):
        told[ERROR] += 1
        return
    for name, verdict in expected.items():
        told.update([NAMES.sub('"…"', text) for text in verdict[2]] if verdict else ["passes"])
        if verdict is None:
            plan_agrees(incoming, name, world)


def plan_agrees(incoming: Pod, name: str, world: World) -> None:
    """Every claim that is not bound is in the plan once, with a volume that the twin would choose or none."""
    row = world.state.nodes.row(name)
    assert row is not None
    plan, storage = volume_plan(incoming, row, world.state), world.as_decided()
    keys = {f"ns/{each.claim(incoming.name)}" for each in incoming.spec.volume_claims}
    unbound = [storage.claims[key] for key in keys if not naive.is_bound(storage.claims[key])]
    assert sorted([*plan.matched, *plan.provisioned]) == sorted(naive.key_of(claim) for claim in unbound)
    assert len(set(plan.matched.values())) == len(plan.matched)
    for claim in unbound:
        if len(unbound) == 1 and naive.SELECTED_NODE not in naive.notes(claim):
            chosen = naive.find(claim, world.nodes[name], storage, set())
            assert plan.matched.get(naive.key_of(claim)) == chosen


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), max_size=30), moves, questions)
def test_agrees_with_the_naive_twin(there: list[tuple[int, int]], happened: list[Move], asked: list[int]) -> None:
    world, told = World(), Counter[str]()
    world.populate(there)
    for number, move in enumerate(happened):
        world.move(move)
        agree(world, asked[number % len(asked)], told)


@pytest.mark.parametrize("part", seeds(1, 5))
def test_agrees_with_the_naive_twin_on_many_clusters(part: int) -> None:
    rng, told = np.random.default_rng(23 + part), Counter[str]()
    for _ in range(CLUSTERS):
        world = World()
        world.populate([(two, three) for two, three in rng.integers(0, 5000, (30, 2)).tolist()])
        for number, move in enumerate(rng.integers(0, 5000, (6, 4)).tolist()):
            world.move(tuple(move))
            if number % 3 == 2:
                agree(world, move[1], told)
    # All answers are common enough to mean something.
    missing = {text for text in TEXTS if sum(count for said, count in told.items() if text in said) < CLUSTERS // 100}
    assert not missing, dict(told)
