"""A fleet whose pods are bound as they are decided, and end when the test says so; victims of preemption among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.engine.builders import asks, make_engine, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.kube import Node, decode_pod
from vgpu_scheduler.model import Decision, Outcome, Preemption

Obj = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"


class Fleet:
    """An engine with the node sides that it would have."""

    def __init__(self, nodes: Iterable[Node], preemption: Obj | None = None, **options: Any) -> None:
        self.engine = make_engine(preemption=True, **options)
        for node in nodes:
            self.engine.observe_node(node, 0.0)
        rules = {"mayPreempt": True} if preemption is None else preemption
        self.engine.policy_tracker.observe(policy("preempts", {"preemption": rules}))
        self.now = 0.0
        self.objects: dict[str, Obj] = {}
        self.victims_of: dict[str, Preemption] = {}
        self.last: dict[str, Decision] = {}
        self.waiting_in_lanes: set[str] = set()
        """The names of pods that are placed and not bound yet."""
        self._version = 1

    def come(self, name: str, priority: int, resources: Obj | None = None, **more: Any) -> None:
        """Have a pod created."""
        self._version += 1
        obj = pod_object(name, resources or asks(), priority=priority, version=self._version, **more)
        obj["metadata"]["creationTimestamp"] = CREATED
        self.objects[obj["metadata"]["uid"]] = obj
        self.engine.observe_pod(decode_pod(obj), self.now)

    def decide(self) -> None:
        """Decide all pods that are active; who is placed is bound and runs."""
        while (decision := self.engine.attempt(self.now)) is not None:
            name = decision.pod.partition("/")[2]
            self.last[name] = decision
            if decision.outcome is Outcome.PLACED and name not in self.waiting_in_lanes:
                self.victims_of.pop(decision.uid, None)
                self._bind(decision)
            elif decision.preemption is not None:
                self.victims_of[decision.uid] = decision.preemption

    def relabel(self, name: str, labels: dict[str, str]) -> None:
        """Have a pod get other labels."""
        self._version += 1
        obj = self.objects[f"uid-{name}"]
        obj["metadata"] = {**obj["metadata"], "labels": labels, "resourceVersion": str(self._version)}
        self.engine.observe_pod(decode_pod(obj), self.now)

    def end(self, uid: str) -> None:
        """Have a pod end and be deleted."""
        if any(uid == victim.uid for found in self.victims_of.values() for victim in found.victims):
            self.engine.preemptions.evicted(uid)
        self.objects.pop(uid, None)
        self.victims_of.pop(uid, None)
        self.engine.remove_pod(uid, self.now)

    def node_of(self, name: str) -> str:
        """Return the node that a pod holds something on; empty if there is none."""
        held = self.engine.state.reservation(f"uid-{name}")
        return "" if held is None else held.node

    def _bind(self, decision: Decision) -> None:
        assert decision.placement is not None
        assert decision.annotations is not None
        self._version += 1
        obj = self.objects[decision.uid]
        obj["metadata"]["resourceVersion"] = str(self._version)
        obj["metadata"]["annotations"] = {**obj["metadata"]["annotations"], **decision.annotations}
        obj["spec"]["nodeName"] = decision.placement.node
        obj["status"] = {
            "phase": "Running",
            "startTime": CREATED,
            "containerStatuses": [{"name": "main", "state": {"running": {}}}],
        }
        self.engine.binding_succeeded(decision.uid)
        self.engine.observe_pod(decode_pod(obj), self.now)

    def run(self, name: str, priority: int, where: str, annotations: dict[str, str], **more: Any) -> None:
        """Have a pod of another scheduler run on a node."""
        self.come(name, priority, scheduler="another", annotations=annotations, nodeName=where, started=True, **more)
