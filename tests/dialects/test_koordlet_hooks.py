"""What koordlet's own code gives the containers of pods that were bound here: the cards and limits of the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.dialects.koordinator_objects import ALLOCATED, DIALECT, long
from tests.dialects.koordlets import ISOLATED, MEMORY_LIMIT, Bound, Fleet, mutated, run_koordlet, summed, wrong
from tests.seeds import seeds

from vgpu_devcluster import device_object, injected
from vgpu_scheduler.dialects.koordinator.names import MEMORY
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Placement

pytestmark = pytest.mark.koordlet

Obj = dict[str, Any]

HINT = "scheduling.koordinator.sh/device-allocate-hint"


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_containers_are_given_the_cards_and_limits_of_the_ledger(seed: int) -> None:
    fleet = Fleet(np.random.default_rng([seed, 31]))
    fleet.fill(60)
    assert len(fleet.bound) > 5
    given = run_koordlet([bound.pod for bound in fleet.bound])["pods"]
    problems = [
        f"{bound.pod['metadata']['name']}: {problem}"
        for bound, containers in zip(fleet.bound, given, strict=True)
        for problem in wrong(bound, fleet.devices[bound.placement.node], containers)
    ]
    assert problems == []
    used = fleet.used()
    for node, limited in summed(fleet.bound, given).items():
        booked = {name.split("/")[1]: amounts[1] for name, amounts in used[node].items()}
        assert sorted(limited) == sorted(booked), "the cards that somebody sees are those in use"
        assert all(limited[minor] <= booked[minor] for minor in limited)


@pytest.mark.parametrize(
    "change",
    [
        lambda gpus: gpus[0].update(minor=(gpus[0]["minor"] + 1) % 4),
        lambda gpus: gpus.append({**gpus[0], "minor": 9}),
        lambda gpus: gpus.pop(),
        lambda gpus: gpus[0]["resources"].update({"koordinator.sh/gpu-memory": "15Gi"}),
        lambda gpus: gpus[0]["resources"].update({"koordinator.sh/gpu-core": "99"}),
        lambda gpus: gpus[0]["resources"].update({"koordinator.sh/gpu-memory-ratio": "100"}),
        lambda gpus: gpus[0]["resources"].pop("koordinator.sh/gpu-memory-ratio"),
    ],
    ids=["another card", "one more card", "no card", "memory", "cores", "all of it", "no ratio"],
)
def test_an_allocation_that_was_changed_is_noticed(change: Callable[[list[Obj]], object]) -> None:
    fleet = Fleet(np.random.default_rng(0))
    bound = fleet.place(asking({"core": "30", "memory": "4Gi"}))
    assert bound is not None
    listed, changed = fleet.devices[bound.placement.node], mutated(bound, change)
    as_written, as_changed = run_koordlet([bound.pod, changed.pod])["pods"]
    assert wrong(bound, listed, as_written) == []
    assert wrong(changed, listed, as_changed)


NIC, FUNCTION, OTHER = "0000:1f:00.0", "0000:1f:00.1", "0000:5c:00.0"
"""PCI addresses of an RDMA device, of its virtual function, and of another device."""
VERBS = {NIC: "uverbs0", FUNCTION: "uverbs1", OTHER: "uverbs2"}
ONE = {
    "minor": 1,
    "id": "GPU-1",
    "resources": {"koordinator.sh/gpu-memory": "8Gi", "koordinator.sh/gpu-memory-ratio": "50"},
}
RESOURCES = ONE["resources"]
assert isinstance(RESOURCES, dict)
TEXTS = [
    None,
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"gpu": null}',
    '{"gpu": []}',
    '{"gpu": {}}',
    '{"gpu": "1"}',
    '{"rdma": [{"minor": "x"}], "gpu": [{"minor": 1}]}',
    '{"gpu": [{}]}',
    '{"gpu": [{"minor": 2147483648}]}',
    '{"gpu": [{"minor": 1.5}]}',
    '{"gpu": [{"minor": 1, "id": 3}]}',
    '{"gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-memory": "much"}}]}',
    '{"gpu": [{"minor": null, "id": null, "resources": null, "extension": null}]}',
    '{"gpu": [{"minor": 1, "extension": {"vfs": {}}}]}',
    '{"gpu": [{"minor": 1, "extension": {"vfs": null}}]}',
    '{"gpu": [{"minor": 1}], "rdma": [{"extension": {"vfs": [{"busID": 3}]}}]}',
    '{"gpu": [{"minor": 1}], "rdma": [{"extension": {"vfs": [{"minor": "0"}]}}]}',
    *(
        json.dumps({"gpu": [{"minor": 1}], "rdma": entries})
        for entries in (
            [],
            [{"minor": 0}],
            [{"id": NIC}],
            [{"id": NIC}, {"id": "0000:ff:00.0"}, {"id": OTHER}],
            [{"id": NIC, "extension": {}}],
            [{"id": NIC, "extension": {"vfs": []}}, {"id": OTHER}],
            [{"id": NIC, "extension": {"vfs": [{"busID": FUNCTION}, {"minor": 1, "busID": OTHER}]}}],
            [{"id": NIC, "extension": {"vfs": [{"busID": FUNCTION}, None]}}, {"id": OTHER}],
        )
    ),
    *(
        json.dumps({"gpu": gpus})
        for gpus in (
            [ONE],
            [ONE, {**ONE, "minor": 0}],
            [{**ONE, "resources": {**RESOURCES, "koordinator.sh/gpu-core": "30"}}],
            [{**ONE, "resources": {**RESOURCES, "koordinator.sh/gpu-core": "1500m"}}],
            [{**ONE, "resources": {**RESOURCES, "koordinator.sh/gpu-memory": "1.5Gi"}}],
            [{**ONE, "resources": {**RESOURCES, "koordinator.sh/gpu-memory": 4096}}],
            [{**ONE, "resources": {**RESOURCES, "koordinator.sh/gpu-memory-ratio": "100"}}],
            [{**ONE, "resources": {**RESOURCES, "koordinator.sh/gpu-memory-ratio": "0"}}],
            [{**ONE, "resources": {"koordinator.sh/gpu-memory": "8Gi"}}],
            [{**ONE, "resources": {"koordinator.sh/gpu-memory-ratio": "50"}}],
            [{**ONE, "unknown": 1, "id": ""}],
            [{"minor": -1, "resources": RESOURCES}],
        )
    ),
]


def node_root(root: Path, verbs: Mapping[str, str]) -> Path:
    """Make the file system of a node with these RDMA devices and virtual functions; return its root."""
    (root / "dev/infiniband").mkdir(parents=True)
    for name in ("rdma_cm", *verbs.values()):
        (root / "dev/infiniband" / name).touch()
    for place, name in verbs.items():
        (root / "sys/bus/pci/devices" / place / "infiniband_verbs" / name).mkdir(parents=True)
    return root


@pytest.mark.parametrize("verbs", [{}, VERBS], ids=["GPUs", "with RDMA devices"])
def test_the_double_gives_containers_what_koordlet_gives(verbs: Mapping[str, str], tmp_path: Path) -> None:
    pods = []
    for labels in ({}, ISOLATED, {"koordinator.sh/gpu-isolation-provider": "other"}):
        for text in TEXTS:
            annotations = {} if text is None else {ALLOCATED: text}
            metadata = {"name": f"p{len(pods)}", "labels": labels, "annotations": annotations}
            pods.append(
                {"metadata": metadata, "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}}
            )
    real = run_koordlet(pods, root=node_root(tmp_path, verbs) if verbs else None)["pods"]
    for pod, containers in zip(pods, real, strict=True):
        double = injected(pod["metadata"]["labels"], pod["metadata"]["annotations"], verbs)
        found = {(name, tuple(mount["source"] for mount in got["mounts"])) for name, got in containers.items()}
        assert found == {(name, double.mounts) for name in "ci"}, pod["metadata"]
        assert [tuple(got["devices"]) for got in containers.values()] == [double.devices] * 2, pod["metadata"]
        assert [got["env"] for got in containers.values()] == [dict(double.env)] * 2, pod["metadata"]


def test_the_double_lists_devices_in_koordlets_own_type() -> None:
    listed = [*Fleet(np.random.default_rng(1)).devices.values(), *with_rdma().devices.values()]
    assert any("vfGroups" in each for each in listed[-1]["spec"]["devices"])
    for ours, theirs in zip(listed, run_koordlet(devices=listed)["devices"], strict=True):
        assert theirs["spec"] == ours["spec"]
        assert theirs["metadata"].items() >= ours["metadata"].items()


@pytest.mark.parametrize("asked", [{"ratio": "60"}, {"memory": "33554446Ki"}], ids=["percent", "all of the small one"])
def test_the_limit_on_cards_of_different_sizes_is_that_of_the_smallest_share(asked: Obj) -> None:
    fleet = Fleet(np.random.default_rng(0), [[16, 24]])
    bound = fleet.place(asking({"shared": "2", "core": "40", **asked}))
    assert bound is not None
    chosen = [card for container in bound.placement.containers for card in container]
    for order in (chosen, chosen[::-1]):
        placement = Placement("node-0", (tuple(order),), DIALECT.name)
        annotations = DIALECT.allocation.annotations(placement, 0, decode_pod(bound.pod))
        pod = {**bound.pod, "metadata": {**bound.pod["metadata"], "annotations": annotations}}
        [given] = run_koordlet([pod])["pods"]
        assert wrong(Bound(pod, placement), fleet.devices["node-0"], given) == []
        assert given["c"]["env"][MEMORY_LIMIT] == str(min(card.amounts[MEMORY] for card in chosen))


def with_rdma() -> Fleet:
    """Return a fleet of a node with two GPUs and two RDMA devices, of which the first one has a virtual function."""
    fleet = Fleet(np.random.default_rng(0), [[16, 16]])
    names = (f"rdma/0/{NIC}", f"rdma-vf/0/{FUNCTION}", f"rdma/1/{OTHER}")
    more = device_object("node-0", dict.fromkeys(names, (100,)))["spec"]["devices"]
    fleet.devices["node-0"]["spec"]["devices"] += more
    fleet.engine.observe_inventory("node-0", fleet.devices["node-0"], 0.0)
    return fleet


def rdma_of(bound: Bound, kind: str = "rdma") -> list[str]:
    """Return the addresses of what a pod has of a type of devices."""
    return [card.uuid.split("/", 2)[2] for c in bound.placement.containers for card in c if card.vendor == kind]


def test_rdma_devices_are_injected_by_their_ids(tmp_path: Path) -> None:
    fleet, root = with_rdma(), node_root(tmp_path, VERBS)
    first = fleet.place(asking({"rdma": "60"}, name="first"))
    second = fleet.place(asking({"rdma": "60", "gpu": "50"}, name="second"))
    for bound in (first, second):
        assert bound is not None
        [given] = run_koordlet([bound.pod], root=root)["pods"]
        names = ["rdma_cm", *(VERBS[address] for address in rdma_of(bound))]
        assert given["c"]["devices"] == [f"/dev/infiniband/{name}" for name in names]
    used = {name.split("/")[2]: amounts[0] for name, amounts in fleet.used()["node-0"].items() if name[0] == "r"}
    assert used == {NIC: 60, OTHER: 60}


def test_virtual_functions_are_injected_in_the_place_of_their_devices(tmp_path: Path) -> None:
    fleet, wanting = with_rdma(), asking({"rdma": "10"})
    wanting["metadata"]["annotations"] = {HINT: json.dumps({"rdma": {"vfSelector": {}}})}
    bound = fleet.place(wanting)
    assert bound is not None
    assert (rdma_of(bound), rdma_of(bound, "rdma-vf")) == ([NIC], [FUNCTION])
    [given] = run_koordlet([bound.pod], root=node_root(tmp_path, VERBS))["pods"]
    assert given["c"]["devices"] == ["/dev/infiniband/rdma_cm", f"/dev/infiniband/{VERBS[FUNCTION]}"]


def asking(amounts: Obj, name: str = "p") -> Obj:
    """Return a pod whose shares are isolated."""
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": ISOLATED},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": long(amounts), "limits": long(amounts)}}],
            "initContainers": [],
            "schedulerName": "vgpu",
        },
    }
