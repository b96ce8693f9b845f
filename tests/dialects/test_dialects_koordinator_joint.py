"""Koordinator's joint allocation: GPUs and RDMA devices below the same switches; and books of all that it gives out."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.dialects.koordinator_objects import (
    ALLOCATED,
    DIALECT,
    Obj,
    functions,
    gpu,
    minors,
    other,
    place,
    pod,
    state_of,
    written,
)
from tests.seeds import seeds

from vgpu_scheduler.allocators import CardChoice, FitColumns, verdict
from vgpu_scheduler.dialects import ClaimError
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import State

JOINT = "scheduling.koordinator.sh/device-joint-allocate"
HINT = "scheduling.koordinator.sh/device-allocate-hint"


def below(device: Obj, switch: int) -> Obj:
    return {**device, "topology": {"nodeID": switch // 2, "pcieID": str(switch)}}


def machine() -> State:
    """Two GPUs and an RDMA device below each of four switches, but for one that has two of these."""
    gpus = [below(gpu(minor), minor // 2) for minor in range(8)]
    return state_of(*gpus, *(below(other("rdma", minor), min(minor, 3)) for minor in range(5)))


def joint(*types: str, same: bool = False) -> Obj:
    scope = {"requiredScope": "SamePCIe"} if same else {}
    return {JOINT: json.dumps({"deviceTypes": list(types), **scope})}


def observe(state: State, seen: Pod) -> None:
    state.observe_pod(seen, {DIALECT.name: DIALECT.allocation.usage(seen)})


def take(state: State, uid: str, **wanted: Any) -> None:
    text = written(place(state, pod(uid=uid, **wanted)))
    annotations = {**wanted.pop("annotations", {}), ALLOCATED: text}
    observe(state, pod(uid=uid, annotations=annotations, bound="node", **wanted))


@pytest.mark.parametrize(
    ("asked", "annotations", "expected"),
    [
        pytest.param({"nvidia": "4", "rdma": "1"}, joint("gpu", "rdma"), "gpu 0 1 2 3 rdma 0 1", id="K64"),
        pytest.param({"nvidia": "4", "rdma": "1"}, {}, "gpu 0 1 2 3 rdma 0", id="not together"),
        pytest.param({"nvidia": "4", "rdma": "1"}, joint("gpu"), "gpu 0 1 2 3 rdma 0", id="nothing follows"),
        pytest.param({"nvidia": "2", "rdma": "1"}, joint("gpu", "rdma", same=True), "gpu 0 1 rdma 0", id="one switch"),
        pytest.param({"nvidia": "2", "rdma": "300"}, joint("gpu", "rdma"), "gpu 0 1 rdma 0 1 2", id="and elsewhere"),
        pytest.param({"nvidia": "2", "rdma": "300"}, joint("gpu", "rdma", same=True), "", id="not elsewhere"),
        pytest.param({"rdma": "200", "nvidia": "1"}, joint("rdma", "gpu"), "gpu 0 rdma 0 1", id="never more GPUs"),
        pytest.param({"rdma": "200", "nvidia": "1"}, joint("rdma", "gpu", same=True), "", id="too few GPUs"),
        pytest.param({"nvidia": "2", "rdma": "1"}, joint("gpu", "fpga", "rdma"), "gpu 0 1 rdma 0", id="what is asked"),
    ],
)
def test_devices_near_each_other(asked: Obj, annotations: Obj, expected: str) -> None:
    found = place(machine(), pod(annotations=annotations, **asked))
    by_type: dict[str, list[str]] = {}
    for name in [] if found is None else minors(found):
        kind, _, minor = name.partition("/")
        by_type.setdefault(kind, []).append(minor)
    assert " ".join(f"{kind} {' '.join(of_kind)}" for kind, of_kind in by_type.items()) == expected


def test_switches_take_turns() -> None:
    state = machine()
    take(state, "first", nvidia="6", rdma="1", annotations=joint("gpu", "rdma"))
    wanted = pod(nvidia="2", rdma="200", annotations=joint("gpu", "rdma", same=True))
    assert minors(place(state, wanted)) == ["gpu/6", "gpu/7", "rdma/3", "rdma/4"]


def test_a_full_device_leaves_its_switch_out() -> None:
    state = machine()
    take(state, "first", rdma="100")
    wanted = pod(nvidia="4", rdma="1", annotations=joint("gpu", "rdma"))
    assert minors(place(state, wanted))[4:] == ["rdma/1", "rdma/2"]
    strict = pod(nvidia="4", rdma="1", annotations=joint("gpu", "rdma", same=True))
    into = FitColumns.empty(state.nodes.capacity)
    allocator = DIALECT.claims.allocator(strict.annotations, DIALECT.claims.read(strict), CardChoice())
    allocator.fit(state.devices, np.zeros(1, dtype=np.int64), into)
    assert verdict(into.counts[0], int(into.cards[0])).detail == "2/5 NumaNotFit"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "it is not an object"),
        ('{"deviceTypes":"gpu"}', "'deviceTypes' is not a list"),
        ('{"deviceTypes":["npu"]}', "'deviceTypes': 'npu' is not one of fpga, gpu, rdma"),
        ('{"requiredScope":"Node"}', "'requiredScope': 'Node' is not one of SamePCIe"),
        ('{"scope":"SamePCIe"}', "'scope' is not supported by this version: remove it"),
    ],
)
def test_what_is_not_followed_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ClaimError) as caught:
        DIALECT.claims.read(pod(nvidia="1", annotations={JOINT: text}))
    assert str(caught.value).startswith(f"annotation {JOINT}")
    assert said in str(caught.value)


# Books -------------------------------------------------------------------------------------------------------------


def random_pod(rng: np.random.Generator, uid: str) -> Pod:
    hints: Obj = {}
    if rng.random() < 0.5:
        hints["rdma"] = {"vfSelector": {} if rng.random() < 0.5 else {"matchLabels": {"kind": "a"}}}
    if rng.random() < 0.3:
        hints.setdefault("rdma", {})["allocateStrategy"] = str(rng.choice(["ApplyForAll", "RequestsAsCount"]))
    annotations = {HINT: json.dumps(hints)}
    if rng.random() < 0.7:
        annotations |= joint("gpu", "rdma", same=bool(rng.random() < 0.4))
    asked = {"rdma": str(rng.choice([1, 2, 20, 100, 200]))}
    if rng.random() < 0.7:
        asked |= {"nvidia": str(rng.choice([1, 2]))} if rng.random() < 0.5 else {"ratio": "30"}
    return pod(uid=uid, annotations=annotations, **asked)


def random_machine(rng: np.random.Generator) -> list[Obj]:
    devices = [below(gpu(minor), int(rng.integers(3))) for minor in range(4)]
    for minor in range(int(rng.integers(1, 5))):
        groups = [
            functions(*(f"{minor}.{kind}.{i}" for i in range(int(rng.integers(3)))), kind=kind) for kind in ("a", "b")
        ]
        devices.append(below(other("rdma", minor, vfGroups=groups), int(rng.integers(3))))
    return devices


def rebuilt(devices: list[Obj], running: dict[str, Pod]) -> dict[str, tuple[int, ...]]:
    state = state_of(*devices)
    for seen in running.values():
        observe(state, seen)
    return dict(state.devices.usage(0))


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_nothing_is_given_twice_and_annotations_tell_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    placed = 0
    for _ in range(6):
        devices = random_machine(rng)
        state, running = state_of(*devices), dict[str, Pod]()
        for number in range(25):
            if running and rng.random() < 0.3:
                gone = str(rng.choice(sorted(running)))
                state.remove_pod(gone)
                del running[gone]
            wanted = random_pod(rng, str(number))
            found = place(state, wanted)
            if found is None:
                continue
            placed += 1
            text = written(found)
            annotations = {**wanted.annotations, ALLOCATED: text}
            seen = pod(wanted_container(wanted), uid=wanted.uid, annotations=annotations, bound="node")
            observe(state, seen)
            running[wanted.uid] = seen
            charged = Counter(a.uuid for held in found.containers for a in held)
            assert set(charged.values()) <= {1}
            assert charged.keys() == DIALECT.allocation.usage(seen).charges.keys()
            assert not state.devices.over_capacity(0)
            assert dict(state.devices.usage(0)) == rebuilt(devices, running)
        for uid in running:
            state.remove_pod(uid)
        assert not any(any(amounts) for _, amounts in state.devices.usage(0))
    assert placed > 20


def wanted_container(wanted: Pod) -> Obj:
    amounts = {name: str(amount) for name, amount in wanted.spec.requests.items()}
    return {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
