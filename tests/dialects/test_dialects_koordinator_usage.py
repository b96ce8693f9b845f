"""The Koordinator dialect: what is written, who counts, and that both come to the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dialects.koordinator_objects import (
    ALLOCATED,
    DIALECT,
    GIB,
    LONG,
    Obj,
    container,
    gpu,
    inventory,
    long,
    minors,
    node,
    other,
    place,
    pod,
    state_of,
    written,
)

from vgpu_scheduler.allocators import CardChoice
from vgpu_scheduler.dialects.koordinator import decode_allocated, encode_allocated
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import Pod, decode_node
from vgpu_scheduler.model import NO_USAGE, Assignment, Outcome, Usage
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.state import State, canonical

# What is written ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("card", "asked", "memory", "ratio"),
    [
        pytest.param("81251Mi", {"ratio": "50"}, "41600512Ki", "50", id="K53a"),
        pytest.param("46068Mi", {"memory": "23034Mi"}, "23034Mi", "50", id="K53b"),
        pytest.param("16Gi", {"memory": "5Gi"}, "5Gi", "31", id="K53c"),
        pytest.param("16Gi", {"memory": "7Gi"}, "7Gi", "43", id="cut"),
        pytest.param("16Gi", {"memory": "1"}, "1", "0", id="tiny"),
        pytest.param("1000000001", {"ratio": "33"}, "330000000", "33", id="truncated"),
    ],
)
def test_memory_and_its_ratio_are_both_written(card: str, asked: Obj, memory: str, ratio: str) -> None:
    text = written(place(state_of(gpu(0, memory=card)), pod(**asked)))
    assert json.loads(text)["gpu"][0]["resources"] == {LONG["memory"]: memory, LONG["ratio"]: ratio}


def test_the_text_is_koordinators() -> None:
    state = state_of(gpu(1), gpu(0, id="a<b"), other("rdma", 0), other("fpga", 2))
    wanted = pod(container("a", gpu="200", rdma="30"), container("b", fpga="10"))
    assert written(place(state, wanted)) == (
        '{"fpga":[{"minor":2,"resources":{"koordinator.sh/fpga":"10"},"id":"fpga2"}],'
        '"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"16Gi",'
        '"koordinator.sh/gpu-memory-ratio":"100"},"id":"a\\u003cb"},'
        '{"minor":1,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"16Gi",'
        '"koordinator.sh/gpu-memory-ratio":"100"},"id":"GPU-1"}],'
        '"rdma":[{"minor":0,"resources":{"koordinator.sh/rdma":"30"},"id":"rdma0"}]}'
    )


def test_types_are_written_by_name() -> None:
    assignments = [Assignment(kind, f"{kind}/0/", (7, 0, 0, 0)) for kind in ("rdma", "fpga")]
    assert encode_allocated(assignments) == (
        '{"fpga":[{"minor":0,"resources":{"koordinator.sh/fpga":"7"}}],'
        '"rdma":[{"minor":0,"resources":{"koordinator.sh/rdma":"7"}}]}'
    )


# Who counts --------------------------------------------------------------------------------------------------------


def allocated(minor: int = 0, kind: str = "gpu", identity: str = "GPU-0", **resources: Any) -> str:
    return json.dumps({kind: [{"minor": minor, "id": identity, "resources": long(resources)}]})


READABLE = {ALLOCATED: allocated(core="20", memory="4Gi", ratio="25")}


def charged(known: Pod, state: State | None = None) -> dict[str, tuple[int, ...]]:
    """What a pod is charged on a node with two GPUs and an RDMA device."""
    state = state or state_of(gpu(0), gpu(1), other("rdma", 0))
    state.observe_pod(known, {DIALECT.name: DIALECT.allocation.usage(known)})
    return state.ledger().get("node", {})


def test_a_bound_pod_counts_by_its_annotation() -> None:
    held = {"gpu/0/GPU-0": (0, 4 * GIB, 20, 25)}
    assert charged(pod(ratio="25", bound="node", annotations=READABLE)) == held
    assert charged(pod(ratio="25", bound="node", annotations=READABLE, started=False, phase="Pending")) == held


def test_pods_that_do_not_count() -> None:
    for known in (
        pod(ratio="25", annotations=READABLE),
        pod(ratio="25", bound="node", annotations=READABLE, phase="Succeeded"),
        pod(cpu="1", bound="node", annotations=READABLE),
        pod(ratio="25", bound="node", annotations={}, started=False),
        pod(ratio="25", bound="node", annotations={ALLOCATED: "x"}, started=False),
    ):
        assert DIALECT.allocation.usage(known) == NO_USAGE


def test_amounts_are_what_is_written_and_several_parts_add_up() -> None:
    parts = [
        {"minor": 1, "id": "GPU-1", "resources": {LONG["ratio"]: 10, "example.com/x": "1"}},
        {"minor": 1, "id": "GPU-1", "resources": {LONG["memory"]: "1.5Gi"}, "extension": {"vfs": []}},
    ]
    note = {ALLOCATED: json.dumps({"gpu": parts, "rdma": None, "xpu": [{"id": "a"}]})}
    assert charged(pod(ratio="10", bound="node", annotations=note)) == {"gpu/1/GPU-1": (0, 3 * GIB // 2, 0, 10)}


UNREADABLE = [
    "",
    "x",
    "[]",
    "[" * 100_000,
    '{"gpu":{}}',
    '{"gpu":[3]}',
    allocated(minor="0"),  # type: ignore[arg-type]
    allocated(identity=3),  # type: ignore[arg-type]
    allocated(ratio="x"),
    allocated(ratio="-1"),
    allocated(ratio=True),
    allocated(memory="17Ti"),
    json.dumps({"gpu": [{"resources": {LONG["memory"]: "9Ti"}}] * 2}),
]


@pytest.mark.parametrize("value", [None, *UNREADABLE])
def test_a_running_pod_that_cannot_be_read_may_sit_anywhere(value: str | None) -> None:
    known = pod(ratio="25", bound="node", annotations={} if value is None else {ALLOCATED: value})
    usage = DIALECT.allocation.usage(known)
    assert ALLOCATED in usage.problem
    each = (0, 4 * GIB, 0, 25)
    assert charged(known) == {"gpu/0/GPU-0": each, "gpu/1/GPU-1": each}


def test_memory_that_cannot_be_read_takes_all_of_the_ratio() -> None:
    found = charged(pod(memory="1Gi", bound="node"))
    assert found == dict.fromkeys(("gpu/0/GPU-0", "gpu/1/GPU-1"), (0, GIB, 0, 100))


def test_what_nobody_understands_takes_devices_whole() -> None:
    found = charged(pod(core="25", bound="node"))
    assert found == dict.fromkeys(("gpu/0/GPU-0", "gpu/1/GPU-1"), (0, 16 * GIB, 100, 100))


def test_a_type_that_the_annotation_is_silent_about() -> None:
    known = pod(ratio="25", rdma="30", shared="1", bound="node", annotations=READABLE)
    assert charged(known) == {"gpu/0/GPU-0": (0, 4 * GIB, 20, 25), "rdma/0/rdma0": (30, 0, 0, 0)}
    assert DIALECT.allocation.usage(known).problem.endswith("has no rdma")


NAMELESS = {ALLOCATED: allocated(minor=1, identity="", memory="4Gi", ratio="25")}
"""As Koordinator wrote it before 1.6."""


def test_old_allocations_without_ids_are_known_by_the_minor() -> None:
    known = pod(ratio="25", bound="node", annotations=NAMELESS)
    assert not DIALECT.allocation.usage(known).problem
    held = {"gpu/1/GPU-1": (0, 4 * GIB, 0, 25)}
    assert charged(known) == held
    both = pod(ratio="25", shared="1", rdma="30", bound="node", annotations=NAMELESS)
    assert charged(both) == {**held, "rdma/0/rdma0": (30, 0, 0, 0)}
    nowhere = {ALLOCATED: allocated(minor=7, identity="", ratio="25")}
    assert charged(pod(ratio="25", bound="node", annotations=nowhere)) == {}


def test_a_minor_is_looked_up_whenever_the_node_lists_its_devices_anew() -> None:
    known = pod(ratio="25", bound="node", annotations=NAMELESS)
    state = State({DIALECT.name: len(DIALECT.inventory.dimensions)})
    assert charged(known, state) == {}
    for version, identity in enumerate(("GPU-1", "", "GPU-9"), start=1):
        there = msgspec.structs.replace(node(), resource_version=version)
        devices = canonical(DIALECT.inventory.devices(there, inventory(gpu(0), gpu(1, id=identity))))
        state.observe_node(there, {DIALECT.name: devices})
        assert state.ledger()["node"] == {f"gpu/1/{identity}": (0, 4 * GIB, 0, 25)}
        assert state.ledger() == state.rebuild().ledger()
        assert state.reservation(known.uid).uses[DIALECT.name].totals() == {"gpu": (0, 4 * GIB, 0, 25)}


WORDS = st.sampled_from(["gpu", "rdma", "minor", "id", "resources", LONG["ratio"]])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_no_annotation_breaks_anything_or_frees_a_device(content: object) -> None:
    known = pod(ratio="25", bound="node", annotations={ALLOCATED: json.dumps(content)})
    assert all(amount >= 0 for amounts in charged(known).values() for amount in amounts)


# What is written is what is held -----------------------------------------------------------------------------------

REQUESTS = st.sampled_from([
    {"nvidia": "1"}, {"nvidia": "2"}, {"gpu": "30"}, {"ratio": "17"}, {"memory": "3333Mi"}, {"memory": "7000000001"},
    {"core": "10", "memory": "1Gi"}, {"core": "20", "ratio": "33"}, {"shared": "2", "memory": "5Gi"},
    {"shared": "3", "core": "30", "ratio": "60"}, {"rdma": "20"}, {"rdma": "200"}, {"fpga": "7"},
    {"ratio": "10", "rdma": "10"}, {"shared": "2", "memory": "1", "fpga": "1", "rdma": "5"},
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["16Gi", "24Gi", "81251Mi", "15842934785"]), min_size=1, max_size=5),
    st.lists(REQUESTS, min_size=1, max_size=8),
    st.sampled_from(["spread", "binpack"]),
)
def test_what_is_written_decodes_to_what_the_ledger_holds(sizes: list[str], asked: list[Obj], policy: str) -> None:
    devices = [gpu(minor, memory=size) for minor, size in enumerate(sizes)]
    state = state_of(*devices, other("rdma", 0), other("rdma", 1), other("fpga", 0))
    for number, requests in enumerate(asked):
        wanted = pod(uid=f"p{number}", **requests)
        placement = place(state, wanted, CardChoice(policy))
        if placement is None:
            continue
        state.observe_pod(wanted, {})
        claims = DIALECT.claims.read(wanted)
        state.assume(wanted.uid, placement, claims)
        assumed = state.ledger()
        assert not state.over_capacity() or any("memory" in r for r in asked)  # memory and its ratio drift apart
        note = {ALLOCATED: written(placement)}
        bound = pod(uid=f"p{number}", bound="node", annotations=note, **requests)
        assert DIALECT.allocation.usage(bound) == Usage.of_placement(placement, claims)
        assert {(d.type, d.minor) for d in decode_allocated(note[ALLOCATED])} == {
            (a.vendor, int(a.uuid.split("/")[1])) for held in placement.containers for a in held
        }
        state.observe_pod(bound, {DIALECT.name: DIALECT.allocation.usage(bound)})
        assert state.ledger() == assumed
        assert state.drift() == {}


# The whole ---------------------------------------------------------------------------------------------------------


def test_an_engine_decides_with_it() -> None:
    engine = Engine(EngineOptions([DIALECT], PolicyDefaults(), ["vgpu"]))
    allocatable = {"pods": "10", **{LONG[name]: "10Ti" for name in ("core", "memory", "ratio")}}
    for name in ("a", "b"):
        wire = {"metadata": {"name": name, "uid": name}, "spec": {}, "status": {"allocatable": allocatable}}
        engine.observe_inventory(name, inventory(gpu(0), gpu(1)), 0.0)
        assert engine.observe_node(decode_node(wire), 0.0) == ()
    found = []
    for number in range(3):
        engine.observe_pod(pod(uid=f"p{number}", ratio="60"), 0.0)
        decision = engine.attempt(0.0)
        assert decision is not None
        assert decision.outcome is Outcome.PLACED, decision.message
        assert decision.placement is not None
        found.append((decision.placement.node, *minors(decision.placement)))
    assert len(set(found)) == 3
    engine.observe_pod(pod(uid="large", memory="17Gi"), 0.0)
    decision = engine.attempt(0.0, explain=True)
    assert decision is not None
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert "2 CardInsufficientMemory" in decision.message
    assert str(decision.near_miss).startswith("nearest: 16384 of 17408 MiB memory free on ")
    engine.observe_pod(pod(uid="odd", core="60"), 0.0)
    refused = engine.attempt(0.0)
    assert refused is not None
    assert refused.outcome is Outcome.REFUSED
