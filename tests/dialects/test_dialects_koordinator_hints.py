"""Koordinator's hints: which devices a pod gets by their labels, how many, and which virtual functions of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.dialects.koordinator_objects import (
    ALLOCATED,
    DIALECT,
    Obj,
    functions,
    gpu,
    inventory,
    minors,
    node,
    other,
    place,
    pod,
    state_of,
    written,
)

from vgpu_scheduler.allocators import CardChoice, FitColumns, verdict
from vgpu_scheduler.dialects import CodecError
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import State

HINT = "scheduling.koordinator.sh/device-allocate-hint"


def hinted(kind: str, **fields: Any) -> Obj:
    return {HINT: json.dumps({kind: fields})}


def why_not(state: State, wanted: Pod) -> str:
    into = FitColumns.empty(state.nodes.capacity)
    allocator = DIALECT.claims.allocator(wanted.annotations, DIALECT.claims.read(wanted), CardChoice())
    allocator.fit(state.devices, np.zeros(1, dtype=np.int64), into)
    return verdict(into.counts[0], int(into.cards[0])).detail


def bind(state: State, uid: str, **wanted: Any) -> str:
    """Place a pod and have the state see it bound; what was written."""
    text = written(place(state, pod(uid=uid, **wanted)))
    annotations = {**(wanted.pop("annotations", {})), ALLOCATED: text}
    observe(state, pod(uid=uid, annotations=annotations, bound="node", **wanted))
    return text


def observe(state: State, seen: Pod) -> None:
    state.observe_pod(seen, {DIALECT.name: DIALECT.allocation.usage(seen)})


def used(state: State) -> dict[str, int]:
    """What is used of each device's share, by its name."""
    return {name: amounts[0] for name, amounts in state.devices.usage(0) if amounts[0]}


# Selectors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"kind": "a"}}, ["gpu/1"]),
        ({"matchExpressions": [{"key": "kind", "operator": "NotIn", "values": ["a"]}]}, ["gpu/0"]),
        ({}, ["gpu/0"]),
        (None, ["gpu/0"]),
    ],
)
def test_gpus_are_selected_by_their_labels(selector: Obj | None, expected: Sequence[str]) -> None:
    state = state_of(gpu(0), gpu(1, labels={"kind": "a"}), gpu(2, labels={"kind": "b"}))
    assert minors(place(state, pod(nvidia="1", annotations=hinted("gpu", selector=selector)))) == expected


def test_a_hint_may_say_nothing() -> None:
    assert minors(place(state_of(gpu(0)), pod(nvidia="1", annotations={HINT: "null"}))) == ["gpu/0"]


def test_why_no_gpu_is_selected() -> None:
    state = state_of(gpu(0), gpu(1, labels={"kind": "a"}))
    wanted = pod(nvidia="2", annotations=hinted("gpu", selector={"matchLabels": {"kind": "a"}}))
    assert why_not(state, wanted) == "1/2 AllocatedCardsInsufficientRequest, 1/2 CardLabelMismatch"


def test_labels_are_texts() -> None:
    with pytest.raises(CodecError, match=r"devices\[0\]\.labels\.kind: 3 is not a text"):
        DIALECT.inventory.devices(node(), inventory(gpu(0, labels={"kind": 3})))


# Numbers -----------------------------------------------------------------------------------------------------------


def nics() -> State:
    return state_of(gpu(0), other("rdma", 0), other("rdma", 1, labels={"kind": "a"}), other("rdma", 2))


def test_an_amount_may_be_the_number_of_devices() -> None:
    wanted = pod(rdma="2", annotations=hinted("rdma", allocateStrategy="RequestsAsCount"))
    assert [(claim.count, claim.amounts[0]) for c in DIALECT.claims.read(wanted) for claim in c.claims] == [(2, 1)]
    assert minors(place(nics(), wanted)) == ["rdma/0", "rdma/1"]
    alone = hinted("rdma", allocateStrategy="RequestsAsCount", exclusivePolicy="DeviceLevel")
    assert DIALECT.claims.read(pod(rdma="2", annotations=alone))[0].claims[0].amounts[0] == 100
    assert DIALECT.claims.read(pod(rdma="200", annotations=alone))[0].claims[0].count == 2


def test_all_devices_that_a_pod_selects() -> None:
    every = hinted("rdma", allocateStrategy="ApplyForAll")
    assert minors(place(nics(), pod(rdma="10", annotations=every))) == ["rdma/0", "rdma/1", "rdma/2"]
    some = hinted("rdma", allocateStrategy="ApplyForAll", selector={"matchLabels": {"kind": "a"}})
    assert minors(place(nics(), pod(rdma="10", annotations=some))) == ["rdma/1"]
    none = hinted("rdma", allocateStrategy="ApplyForAll", selector={"matchLabels": {"kind": "b"}})
    assert why_not(nics(), pod(rdma="10", annotations=none)) == "3/3 CardLabelMismatch"
    state = nics()
    bind(state, "other", rdma="100")
    assert place(state, pod(rdma="10", annotations=every)) is None


@pytest.mark.parametrize(
    ("fields", "odd"),
    [
        ({"exclusivePolicy": "PCIeLevel"}, True),
        ({"exclusivePolicy": "DeviceLevel"}, True),
        ({"exclusivePolicy": "DeviceLevel", "allocateStrategy": "RequestsAsCount"}, False),
        ({}, False),
    ],
)
def test_a_policy_that_keeps_nobody_away_is_told(fields: Obj, odd: bool) -> None:  # noqa: FBT001
    wanted = pod(rdma="1", annotations=hinted("rdma", **fields))
    told = list(DIALECT.claims.suspicious_annotations(wanted.annotations, DIALECT.claims.read(wanted)))
    assert bool(told) == odd
    assert all("has no effect" in warning.text for warning in told)


# Virtual functions -------------------------------------------------------------------------------------------------


def virtual() -> State:
    """Two RDMA devices with two functions, of which one is of another kind, and one without any."""
    return state_of(
        gpu(0),
        other("rdma", 0, vfGroups=[functions("b2", "b1", kind="a"), functions("b0", kind="b")]),
        other("rdma", 1, vfGroups=[functions("c1", kind="a")]),
        other("rdma", 2),
    )


A_FUNCTION: Obj = {"rdma": "10", "annotations": hinted("rdma", vfSelector={"matchLabels": {"kind": "a"}})}


def test_functions_are_given_out_one_by_one_and_never_twice() -> None:
    state = virtual()
    given = [json.loads(bind(state, str(number), **A_FUNCTION))["rdma"] for number in range(3)]
    found = [(entry["minor"], entry["extension"]["vfs"]) for (entry,) in given]
    assert found == [
        (0, [{"minor": -1, "busID": "b1"}]),
        (1, [{"minor": -1, "busID": "c1"}]),
        (0, [{"minor": -1, "busID": "b2"}]),
    ]
    assert why_not(state, pod(**A_FUNCTION)) == "3/3 CardVirtualFunctionsExhausted"
    assert len(bind(state, "any", rdma="10", annotations=hinted("rdma", vfSelector={})))
    assert used(state) == {
        "rdma/0/rdma0": 30, "rdma/1/rdma1": 10,
        **dict.fromkeys(("rdma-vf/0/b0", "rdma-vf/0/b1", "rdma-vf/0/b2", "rdma-vf/1/c1"), 100),
    }  # fmt: skip


def test_a_pod_that_goes_gives_its_function_back() -> None:
    state = virtual()
    texts = [bind(state, str(number), **A_FUNCTION) for number in range(3)]
    state.remove_pod("1")
    assert bind(state, "3", **A_FUNCTION) == texts[1]


def test_pods_that_want_no_function_have_none() -> None:
    assert "extension" not in written(place(virtual(), pod(rdma="10")))
    assert minors(place(virtual(), pod(rdma="10"))) == ["rdma/0"]


def test_a_pod_of_which_nobody_knows_the_function_closes_all() -> None:
    state = virtual()
    observe(state, pod(uid="unread", bound="node", **A_FUNCTION))
    assert place(state, pod(**A_FUNCTION)) is None
    assert minors(place(state, pod(rdma="10"))) == ["rdma/0"]


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"vfs": [{"minor": 0}]}, r"vfGroups\[0\]\.vfs\[0\]\.busID is missing"),
        ({"vfs": 3}, r"vfGroups\[0\]\.vfs is not a list"),
        (functions("b", "b"), "b is listed twice"),
        (functions(*map(str, range(1100))), "virtual functions are more than a node has"),
    ],
)
def test_functions_that_cannot_be_read(group: Obj, said: str) -> None:
    with pytest.raises(CodecError, match=said):
        DIALECT.inventory.devices(node(), inventory(other("rdma", 0, vfGroups=[group])))
