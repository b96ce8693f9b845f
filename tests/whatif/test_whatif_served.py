"""Whoever is said to be served first is tried first, and gets the room, in whatever order pods came and were tried."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import make_engine
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import everybody, waits

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.queued_pods import INITIAL_BACKOFF, MAX_BACKOFF
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.whatif.world.queue_order import pods_before_and_after

Object = dict[str, Any]


class Cluster:
    """A scheduler's engine in a cluster that changes, beside what ``explain`` would read of it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.engine: Engine = make_engine()
        self.now = 0.0
        self.version = 1
        self.objects: dict[str, Object] = {}
        self.placed: dict[str, str] = {}
        self._tried: dict[str, float] = {}

    def show(self, obj: Object) -> None:
        """Have both see an object as it is now."""
        self.version += 1
        metadata = obj["metadata"]
        metadata |= {"uid": f"uid-{metadata['name']}", "resourceVersion": str(self.version)}
        for container in obj["spec"].get("containers", ()):  # as the API server does it
            container["resources"]["requests"] = container["resources"]["limits"]
        self.objects[metadata["name"]] = obj
        if obj["kind"] == "Node":
            self.engine.observe_node(decode_node(obj), self.now)
        else:
            self.engine.observe_pod(decode_pod(obj), self.now)

    def end(self, name: str) -> None:
        """End a pod."""
        del self.objects[name]
        self.engine.remove_pod(f"uid-{name}", self.now)

    def cordoned(self, name: str, *, cordoned: bool) -> None:
        """Cordon a node or uncordon it."""
        made = deepcopy(self.objects[name])
        made["spec"]["unschedulable"] = cordoned
        self.show(made)

    def names(self, kind: str) -> list[str]:
        """Return the nodes, or the pods that run since the beginning."""
        return [name for name, obj in self.objects.items() if obj["kind"] == kind and not name.startswith("w")]

    def waiting(self) -> list[Pod]:
        """Return the pods that wait, in the order of their turns."""
        world = world_of(*(deepcopy(obj) for name, obj in self.objects.items() if name not in self.placed))
        pods = [*world.pending.values()]
        return (
            [*pods_before_and_after(world, pods[0]).before, pods[0], *pods_before_and_after(world, pods[0]).after]
            if pods
            else []
        )

    def change(self) -> None:
        """Have something happen."""
        match self._rng.integers(0, 4):
            case 0 if running_ := self.names("Pod"):
                self.end(str(self._rng.choice(running_)))
            case 1:
                self.cordoned(str(self._rng.choice(self.names("Node"))), cordoned=True)
            case 2:
                self.cordoned(str(self._rng.choice(self.names("Node"))), cordoned=False)
            case _:
                self.pass_time(float(self._rng.choice([0.1, 2.0, 15.0])))

    def pass_time(self, seconds: float) -> None:
        """Have pods tried when their turns come, as long as nothing happens."""
        until = self.now + seconds
        while self.now < until:
            while self.attempt() is not None:
                pass
            due = self.engine.queue.flush_due(self.now)
            self.now = until if due is None else min(due, until)

    def attempt(self) -> tuple[str, Outcome] | None:
        """Have the next pod tried; nobody before it that is not in back-off may fit where it is placed."""
        before = [decode_pod(self.objects[pod.name]) for pod in self.waiting()]
        fits = {pod.name for pod in before if self.engine.algorithm.decide(pod).outcome is Outcome.PLACED}
        decision = self.engine.attempt(self.now)
        if decision is None:
            return None
        name = decision.pod.partition("/")[2]
        if decision.placement is not None:
            first = [pod.name for pod in before[: [pod.name for pod in before].index(name)] if pod.name in fits]
            passed_over = [each for each in first if not self._backs_off(each)]
            assert not passed_over, f"{name} was placed before {passed_over}"
            self.placed[name] = decision.placement.node
        self._tried[name] = self.now
        return name, decision.outcome

    def _backs_off(self, name: str) -> bool:
        if name not in self._tried:
            return False
        attempts = self.engine.queue.attempts(f"uid-{name}")
        return self.now < self._tried[name] + min(INITIAL_BACKOFF * 2 ** (attempts - 1), MAX_BACKOFF)


def drawn(rng: np.random.Generator) -> tuple[Cluster, list[Object]]:
    """Return a full cluster, and pods that will wait in it, each created in a second of its own, in no order."""
    cluster = Cluster(rng)
    for number in range(int(rng.integers(1, 4))):
        name = f"n{number}"
        cluster.show(node(name, cards=int(rng.integers(1, 3)), labels={"pool": str(rng.choice(["x", "y"]))}))
        for card in range(cluster.objects[name]["metadata"]["annotations"]["hami.io/node-nvidia-register"].count(":")):
            for tenant, memory in enumerate((8000, 8000)):
                cluster.show(running(f"{name}-{card}-{tenant}", name, f"GPU-{name}-{card}", memory))
    kinds = [
        ({GPU: 1, MEMORY: int(rng.choice([4000, 8000, 16000]))}, {"nodeSelector": {"pool": str(pool)}} if pool else {})
        for pool in rng.choice(["", "", "x", "y"], size=int(rng.integers(1, 5)))
    ]
    kinds += [({**limits, "cpu": str(int(rng.integers(1, 12)))}, spec) for limits, spec in kinds]
    pods = []
    for number, second in enumerate(rng.permutation(int(rng.integers(2, 9)))):
        limits, spec = kinds[int(rng.integers(0, len(kinds)))]
        pods.append(waits(f"w{number}", limits, int(second), priority=int(rng.random() < 0.2), **spec))
    return cluster, pods


@pytest.mark.parametrize("seed", range(150))
def test_after_a_change_pods_have_room_in_the_order_that_explain_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster, pods = drawn(rng)
    for obj in pods:
        cluster.show(obj)
        while rng.random() < 0.7 and cluster.attempt() is not None:
            cluster.now += float(rng.random())
    while cluster.attempt() is not None:
        pass
    cluster.now += 15.0
    for name in rng.permutation(cluster.names("Pod"))[: int(rng.integers(1, 4))]:
        cluster.end(str(name))
    expected = cluster.placed | everybody(world_of(*(deepcopy(each) for each in cluster.objects.values())))
    while cluster.attempt() is not None:
        cluster.now += 0.001
    assert cluster.placed == expected


@pytest.mark.parametrize("seed", range(150))
def test_nobody_takes_the_room_of_a_pod_that_is_served_before_whatever_happens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster, pods = drawn(rng)
    while pods or rng.random() < 0.95:
        if pods and rng.random() < 0.3:
            cluster.show(pods.pop())
        if rng.random() < 0.5:
            cluster.change()
        if rng.random() < 0.7:
            cluster.attempt()
