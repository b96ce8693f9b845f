"""Who counts, and for how much: the rules one by one, and against the twin for pods of any kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import hami as naive
from tests.naive.hami_quirks import Switches
from tests.naive.hami_wire import Entry, Names, encode_pod

from vgpu_scheduler.dialects.hami import RegisteredDevice, encode_register_json, hami_dialect
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import NO_USAGE
from vgpu_scheduler.state import State

NODE = "hami.io/vgpu-node"
ALLOCATED = "hami.io/vgpu-devices-allocated"
NAMES = Names("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", 1, 0, 0)

Obj = dict[str, Any]


def container(name: str, **limits: str) -> Obj:
    resources = {"gpu": NAMES.count, "mem": NAMES.memory, "pct": NAMES.percent, "cores": NAMES.cores}
    return {"name": name, "resources": {"limits": {resources[key]: value for key, value in limits.items()}}}


def pod(annotations: Obj, *, bound: str = "node", phase: str = "Running", started: bool = True, **spec: Any) -> Obj:
    containers = [container("main", gpu="1", mem="1000", cores="10")]
    status: Obj = {"phase": phase}
    if started:
        status["containerStatuses"] = [{"name": "main"}]
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "uid", "annotations": annotations},
        "spec": {"nodeName": bound, "containers": containers, **spec},
        "status": status,
    }


READABLE = {NODE: "node", ALLOCATED: "card-0,NVIDIA,1000,10:;"}


def charged(wire: Obj) -> dict[str, tuple[int, ...]]:
    return dict(hami_dialect().allocation.usage(decode_pod(wire)).charges)


def test_a_bound_pod_counts_by_its_annotation() -> None:
    assert charged(pod(READABLE)) == {"card-0": (1, 1000, 10)}
    assert charged(pod(READABLE, started=False, phase="Pending")) == {"card-0": (1, 1000, 10)}


def test_a_pod_that_is_being_deleted_counts_until_it_is_gone() -> None:
    wire = pod(READABLE)
    wire["metadata"]["deletionTimestamp"] = "2026-08-21T06:20:39Z"
    assert charged(wire) == {"card-0": (1, 1000, 10)}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_holds_nothing(phase: str) -> None:
    assert hami_dialect().allocation.usage(decode_pod(pod(READABLE, phase=phase))) == NO_USAGE


def test_annotations_of_an_unbound_pod_count_for_nothing() -> None:
    assert (
        hami_dialect().allocation.usage(decode_pod(pod(READABLE, bound="", phase="Pending", started=False))) == NO_USAGE
    )


def test_a_pod_that_asks_for_no_device_holds_none() -> None:
    wire = pod(READABLE, containers=[{"name": "main"}])
    assert hami_dialect().allocation.usage(decode_pod(wire)) == NO_USAGE


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({}, f"{ALLOCATED} is missing"),
        ({NODE: "node"}, f"{ALLOCATED} is missing"),
        ({**READABLE, NODE: "other"}, f"{NODE} does not name node node"),
        ({ALLOCATED: READABLE[ALLOCATED]}, f"{NODE} does not name node node"),
        ({**READABLE, ALLOCATED: "card-0,NVIDIA,1000:;"}, "fewer than 4 fields"),
        ({**READABLE, ALLOCATED: "card-0,NVIDIA,-1000,0:;"}, "negative amount"),
        ({**READABLE, ALLOCATED: "card-0,NVIDIA,x,0:;"}, "not an integer"),
        ({**READABLE, ALLOCATED: "card-0,NVIDIA,1" + "0" * 5000 + ",0:;"}, "out of range"),
        ({**READABLE, ALLOCATED: ";"}, "does not match the containers"),
        ({**READABLE, ALLOCATED: "a,NVIDIA,1,1:;b,NVIDIA,1,1:;"}, "does not match the containers"),
    ],
)
def test_a_started_pod_that_cannot_be_read_may_sit_on_any_card(annotations: Obj, problem: str) -> None:
    usage = hami_dialect().allocation.usage(decode_pod(pod(annotations)))
    assert problem in usage.problem
    assert not usage.charges
    ((claim,),) = (entry.claims for entry in usage.unreadable)
    assert (claim.count, claim.amounts) == (1, (1, 1000, 10))
    assert hami_dialect().allocation.usage(decode_pod(pod(annotations, started=False, phase="Pending"))) == NO_USAGE


def test_where_even_the_claim_cannot_be_read_it_is_a_whole_card() -> None:
    wire = pod({}, containers=[container("main", gpu="1", mem="1500m"), {"name": "other"}])
    usage = hami_dialect().allocation.usage(decode_pod(wire))
    first, second = (entry.claims for entry in usage.unreadable)
    assert first[0].on((10, 16384, 200)) == (1, 16384, 200)
    assert second == ()


def test_init_containers_count_by_their_peak_and_sidecars_with_what_follows() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    wire = pod(
        {NODE: "node", ALLOCATED: "a,NVIDIA,800,5:;a,NVIDIA,100,5:;a,NVIDIA,300,50:;a,NVIDIA,200,5:;a,NVIDIA,300,5:;"},
        initContainers=[
            {"name": "i0", **gpu},
            {"name": "s", "restartPolicy": "Always", **gpu},
            {"name": "i1", **gpu},
        ],
        containers=[{"name": "c0", **gpu}, {"name": "c1", **gpu}],
    )
    # i0 alone: 800 MiB; s and i1 together: 55 percent; s, c0 and c1 together: 3 slots.
    assert charged(wire) == {"a": (3, 800, 55)}


# Any pod -----------------------------------------------------------------------------------------------------------

CARDS = [
    RegisteredDevice(f"card-{i}", i, 10, 16384 >> i, cores, "NVIDIA T4", 0, "", health=True)
    for i, cores in enumerate((100, 200))
]
REGISTER = {
    "metadata": {"name": "node", "annotations": {"hami.io/node-nvidia-register": encode_register_json(CARDS)}},
    "spec": {},
    "status": {},
}
CASE: Obj = {"nodes": [REGISTER]}

amounts = st.sampled_from(["0", "1", "2", "100", "1000", "150", "-1", "500m", "16Gi"])
limits = st.dictionaries(st.sampled_from(["gpu", "mem", "pct", "cores"]), amounts) | st.just({"gpu": "1", "mem": "500"})
entries = st.builds(Entry, st.sampled_from(["card-0", "card-1", "gone"]), st.just("NVIDIA"), *[st.integers(0, 200)] * 2)
allocations = st.lists(st.lists(entries, max_size=2), max_size=5).map(encode_pod)
values = (
    allocations | allocations.map(lambda v: v + ";;") | st.sampled_from(["x,y:;", "a,b,c,d:;", "card-0,N,-1,0:;", ""])
)


@st.composite
def pods(draw: st.DrawFn, number: int) -> Obj:
    annotations = {}
    if draw(st.integers(0, 9)):
        annotations[NODE] = draw(st.sampled_from(["node", "node", "node", "other", ""]))
    if draw(st.integers(0, 9)):
        annotations[ALLOCATED] = draw(values)
    init = [container(f"i{i}", **draw(limits)) for i in range(draw(st.integers(0, 2)))]
    for item in init:
        if draw(st.booleans()):
            item["restartPolicy"] = "Always"
    wire = pod(
        annotations,
        bound=draw(st.sampled_from(["node", "node", "node", "other", ""])),
        phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"])),
        started=draw(st.booleans()),
        initContainers=init,
        containers=[container(f"c{i}", **draw(limits)) for i in range(draw(st.integers(1, 2)))],
    )
    wire["metadata"]["uid"] = f"uid-{number}"
    if draw(st.booleans()):
        wire["metadata"]["deletionTimestamp"] = "2026-08-21T06:20:39Z"
    return wire


@settings(max_examples=400, deadline=None)
@given(st.integers(1, 3).flatmap(lambda n: st.tuples(*(pods(i) for i in range(n)))))
def test_the_ledger_is_the_twins(wires: tuple[Obj, ...]) -> None:
    dialect, state = hami_dialect(), State({"hami": 3})
    node = decode_node(REGISTER)
    state.observe_node(node, {dialect.name: dialect.inventory.devices(node)})
    for wire in wires:
        known = decode_pod(wire)
        state.observe_pod(known, {dialect.name: dialect.allocation.usage(known)})
    expected = naive.ledger({**CASE, "pods": list(wires)}, NAMES, Switches())["node"]
    row = state.nodes.row("node")
    assert row is not None
    found = dict(state.devices.usage(row))
    assert found == {card.uuid: (card.used, card.used_memory, card.used_cores) for card in expected}
    assert not state.drift()
