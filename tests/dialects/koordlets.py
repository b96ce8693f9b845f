"""Nodes and pods of Koordinator's names that an engine binds, and what koordlet's own code makes of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.apiserver.binaries import AssetsUnavailableError, koordlet_hooks
from tests.conftest import unavailable
from tests.dialects.koordinator_objects import ALLOCATED, DIALECT, long
from tests.placing import place

from vgpu_devcluster import device_object
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.policy import PolicyDefaults

Obj = dict[str, Any]

PROVIDER = "koordinator.sh/gpu-isolation-provider"
ISOLATED = {PROVIDER: "HAMi-core"}
VISIBLE, MEMORY_LIMIT, CORE_LIMIT = "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"
LIBRARY = "/usr/local/vgpu/libvgpu.so"
GIB = 2**30
_WHOLE = 100


def run_koordlet(pods: Sequence[Obj] = (), devices: Sequence[Obj] = (), root: Path | None = None) -> Obj:
    """Return what koordlet's code gives the containers of pods, and what it keeps of Device objects.

    Parameters
    ----------
    root
        The root of the node's file system; its user has to be root for that, or may be in a namespace.
    """
    try:
        binary = koordlet_hooks()
    except AssetsUnavailableError as error:
        unavailable(str(error))
    command = [str(binary)]
    if root is not None:
        command.append(str(root))
        if os.geteuid():
            inside = ["unshare", "--user", "--map-root-user"]
            if shutil.which("unshare") is None or subprocess.run([*inside, "true"], check=False).returncode:
                unavailable("another root needs root's rights, or namespaces of users")
            command = [*inside, *command]
    asked = json.dumps({"pods": list(pods), "devices": list(devices)})
    done = subprocess.run(command, input=asked, text=True, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found: Obj = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class Bound:
    """A pod that was bound, and where the engine decided it to be.

    Attributes
    ----------
    pod
        As the API server shows it.
    """

    pod: Obj
    placement: Placement


class Fleet:
    """An engine with nodes whose cards koordlet lists; every other one isolates shares by HAMi-core.

    Parameters
    ----------
    sizes
        The GiB of the cards of each node, or some of different sizes and some alike.
    """

    def __init__(self, random: np.random.Generator, sizes: Sequence[Sequence[int]] | None = None) -> None:
        self.engine = Engine(EngineOptions([DIALECT], PolicyDefaults(), ["vgpu"]))
        self.bound: list[Bound] = []
        self.devices: dict[str, Obj] = {}
        self._random = random
        self._now = 0.0
        for number, gibs in enumerate(sizes or [random.choice([16, 24, 40, 81], size=4), [40] * 4, [16] * 4, [24, 81]]):
            name = f"node-{number}"
            cards = {
                f"gpu/{minor}/GPU-{name}-{minor}": (100, int(size) * GIB + 7 * 1024, 100)
                for minor, size in enumerate(gibs)
            }
            self.devices[name] = device_object(name, cards)
            offered = long({"core": f"{len(cards)}00", "ratio": f"{len(cards)}00", "memory": "1000Gi", "rdma": "200"})
            amounts = {**offered, "koordinator.sh/gpu": f"{len(cards)}00", "nvidia.com/gpu": str(len(cards))}
            status = {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "200", **amounts}}
            labels = {} if number % 2 else ISOLATED
            metadata = {"name": name, "uid": name, "labels": labels}
            self.engine.observe_inventory(name, self.devices[name], 0.0)
            self.engine.observe_node(decode_node({"metadata": metadata, "spec": {}, "status": status}), 0.0)

    def place(self, waiting: Obj) -> Bound | None:
        """Have a pod decided and bound; return it, None where there is no room."""
        self._now += 1.0
        found = place(self.engine, waiting, self._now)
        if found is None:
            return None
        placement, written = found
        metadata, spec = waiting["metadata"], {**waiting["spec"], "nodeName": placement.node}
        annotations = {**metadata.get("annotations", {}), **written}
        running = {**waiting, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
        self.engine.observe_pod(decode_pod(running), self._now)
        self.bound.append(Bound(running, placement))
        return self.bound[-1]

    def fill(self, pods: int) -> None:
        """Have random pods bound, of which some end again."""
        for number in range(pods):
            self.place(random_pod(self._random, f"pod-{number}"))
            if self.bound and self._random.random() < 0.3:
                ended = self.bound.pop(int(self._random.integers(len(self.bound))))
                self.engine.remove_pod(ended.pod["metadata"]["uid"], self._now)

    def used(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Return what the ledger says is used of each device, by node and name; idle ones are left out."""
        assert not self.engine.state.drift()
        state, found = self.engine.state, {}
        for node in self.devices:
            row = state.nodes.row(node)
            assert row is not None
            found[node] = {name: tuple(map(int, amounts)) for name, amounts in state.devices.usage(row) if any(amounts)}
        return found


def random_pod(random: np.random.Generator, name: str) -> Obj:
    """Return a pod that asks for cards in one of the ways that there are, with other containers beside it."""
    two = 2 * int(random.integers(1, 3))
    share = int(random.integers(5, 60))
    ways: list[Obj] = [
        {"nvidia": str(random.integers(1, 3))},
        {"gpu": str(random.choice([100, 200, 300]))},
        {"gpu": str(share)},
        {"core": str(share), "ratio": str(int(random.integers(1, 100)))},
        {"core": str(share), "memory": f"{random.integers(1, 9000)}Mi"},
        {"memory": f"{random.integers(1, 12)}Gi"},
        {"ratio": str(random.choice([100, 200]))},
        {"shared": str(two), "core": str(two * share), "ratio": str(two * (share // 2 + 1))},
        {"shared": "2", "memory": f"{2 * int(random.integers(1, 9))}Gi"},
        {"core": str(share), "ratio": "100"},
    ]
    asked = [long(ways[int(random.integers(len(ways)))])]
    if asked[0].keys() == {long({"core": 0}).popitem()[0], long({"memory": 0}).popitem()[0]} and random.random() < 0.5:
        asked *= 2  # two containers, of which each asks for a part
    containers = [{"name": f"c{n}", "resources": {"requests": each, "limits": each}} for n, each in enumerate(asked)]
    if random.random() < 0.3:
        containers.append({"name": "beside", "resources": {}})
    init = [{"name": "first", "resources": {}}] if random.random() < 0.3 else []
    labels = ISOLATED if random.random() < 0.5 else {}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": containers, "initContainers": init, "schedulerName": "vgpu"},
        "status": {"phase": "Pending"},
    }


def wrong(bound: Bound, listed: Obj, given: Mapping[str, Obj]) -> list[str]:
    """Return where what the containers of a pod are given is not what was decided.

    Parameters
    ----------
    listed
        The Device object of its node, by which the minors that are injected mean cards.
    given
        What each container is given.
    """
    pod, problems = bound.pod, []
    ids = {entry["minor"]: entry["id"] for entry in listed["spec"]["devices"]}
    decided = {card.uuid: card.amounts for container in bound.placement.containers for card in container}
    isolated = pod["metadata"]["labels"].get(PROVIDER) == "HAMi-core" and min(a[3] for a in decided.values()) < _WHOLE
    names = [container["name"] for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])]
    if sorted(given) != sorted(names):
        return [f"containers {sorted(given)} instead of {sorted(names)}"]
    for name in names:
        env, mounts = given[name]["env"], [mount["source"] for mount in given[name]["mounts"]]
        minors = [int(text) for text in env.get(VISIBLE, "").split(",") if text]
        visible = sorted(f"gpu/{minor}/{ids.get(minor, '')}" for minor in minors)
        if visible != sorted(decided):
            problems.append(f"{name} sees {visible} instead of {sorted(decided)}")
        for _, memory, cores, _ in decided.values():
            limits = {MEMORY_LIMIT: str(memory) if isolated else None, CORE_LIMIT: str(cores) if isolated else None}
            if not cores:
                limits[CORE_LIMIT] = None
            problems += [
                f"{name} has {env.get(limit)} as {limit} instead of {text}"
                for limit, text in limits.items()
                if env.get(limit) != text and not (limit == MEMORY_LIMIT and _is_less(env.get(limit), text))
            ]
            if (env.get("LD_PRELOAD") == LIBRARY and LIBRARY in mounts) != isolated:
                problems.append(f"{name} is {'not ' if isolated else ''}kept to its limits")
    return problems


def _is_less(limit: str | None, amount: str | None) -> bool:
    """Tell whether a limit keeps a container to less than its share: that of one card holds for all of them."""
    return limit is not None and amount is not None and int(limit) < int(amount)


def summed(bounds: Iterable[Bound], given: Sequence[Mapping[str, Obj]]) -> dict[str, dict[str, int]]:
    """Return the bytes that isolated pods are limited to on each card, by node and minor."""
    found: dict[str, dict[str, int]] = {}
    for bound, containers in zip(bounds, given, strict=True):
        env = next(iter(containers.values()))["env"]
        for minor in env.get(VISIBLE, "").split(","):
            on = found.setdefault(bound.placement.node, {})
            on[minor] = on.get(minor, 0) + int(env.get(MEMORY_LIMIT, 0))
    return found


def mutated(bound: Bound, change: Any) -> Bound:
    """Return a pod whose allocation was changed after it was decided."""
    metadata = bound.pod["metadata"]
    allocated = json.loads(metadata["annotations"][ALLOCATED])
    change(allocated["gpu"])
    annotations = {ALLOCATED: json.dumps(allocated)}
    return Bound({**bound.pod, "metadata": {**metadata, "annotations": annotations}}, bound.placement)
