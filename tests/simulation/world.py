"""The world of the state machine: the real engine, the simulated API, and what a binder does between the two."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine
from tests.engine.builders import make_engine
from tests.simulation.cluster import Event, SimApi, SimCard, SimNode, SimPod, Snapshot
from tests.simulation.invariants import check_placement, check_quota

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import NODES, PODS, QUOTAS, Observer
from vgpu_scheduler.kube import ResourceQuota
from vgpu_scheduler.model import Outcome, Piece, Placement

REACHED: Counter[str] = Counter()
"""What the runs of this process came across, to make sure that the machine is not idle."""

NAMES = ("node-a", "node-b", "node-c")


Shape = tuple[int, int, int] | tuple[str, int]
"""Cards of NVIDIA, memory and cores of each; or another maker's word, and which of its claims."""


def _pieces(placement: Placement) -> list[Piece]:
    given = [a for container in placement.containers for a in container if a.vendor == "NVIDIA"]
    return [a.piece for a in given if a.piece is not None]


class World(RuleBasedStateMachine):
    """Runs the real engine and observer against the simulated API; the machine itself plays binder and node side."""

    def __init__(self) -> None:
        super().__init__()
        self.api = SimApi()
        self.now = 0.0
        self.engine: Engine
        self.observer: Observer
        self.in_flight: dict[str, Placement] = {}
        self.answers: list[tuple[str, str]] = []
        self.listing: Snapshot | None = None
        self.backup: Snapshot | None = None
        self.disturbed: set[tuple[str, str]] = set()
        self.quota: ResourceQuota | None = None
        self._start_engine()

    def _start_engine(self) -> None:
        self.engine = make_engine()
        ignore = lambda *_: None  # noqa: E731 - nobody waits here
        self.observer = Observer(self.engine, lambda: self.now, ignore, ignore, ignore)
        if self.quota is not None:
            self.observer.observe(QUOTAS, self.quota)

    def _add_node(self, name: str, number: int) -> None:
        listed = tuple(SimCard(f"{name}-{index}", mig=index == 1) for index in range(number))
        self.api.put_node(SimNode(name, f"{name}-{self.api.serial()}", 0, listed))

    def _a_node(self, pick: int) -> SimNode | None:
        nodes = [self.api.nodes[name] for name in sorted(self.api.nodes)]
        return nodes[pick % len(nodes)] if nodes else None

    def _a_pod(self, pick: int, **wanted: bool) -> SimPod | None:
        found = [
            pod
            for pod in sorted(self.api.pods.values(), key=lambda pod: pod.name)
            if bool(pod.node) is wanted.get("bound", bool(pod.node))
            and pod.terminal is wanted.get("terminal", pod.terminal)
            and pod.started is wanted.get("started", pod.started)
            and pod.ours is wanted.get("ours", pod.ours)
        ]
        return found[pick % len(found)] if found else None

    def _new_pod(self, shape: Shape, **more: Any) -> SimPod:
        number = self.api.serial()
        asked: tuple[int, ...] = (0, 0, 0)
        if isinstance(shape[0], str):
            more = {"maker": shape[0], "claim": shape[1], **more}
        else:
            asked = shape
        return SimPod(f"pod-{number:04}", f"uid-{number}", 0, *asked, **{"cpu": 1, **more})

    def _disturb(self, pod: SimPod) -> None:
        for container in pod.placement.containers if pod.placement else ():
            self.disturbed.update((pod.node, assignment.uuid) for assignment in container)

    def _deliver(self, event: Event) -> None:
        known = event.object
        before = self.engine.state.pod(known.uid) if isinstance(known, SimPod) else None
        if isinstance(known, SimNode):
            (self.observer.gone if event.gone else self.observer.observe)(NODES, known.shown())
        elif event.waiting and event.gone:
            self.observer.no_longer_waits(known.shown())
            REACHED["no longer waits"] += self.engine.has_departed(known.uid)
        else:
            (self.observer.gone if event.gone else self.observer.observe)(PODS, known.shown())
        after = self.engine.state.pod(known.uid)
        assert before is None or after is None or after.resource_version >= before.resource_version

    def _deliver_all(self) -> None:
        while self.api.events:
            event = self.api.events.pop(0)
            self.api.history.append(event)
            self._deliver(event)

    def _sweep(self, listed: Snapshot) -> None:
        self.engine.sweep_nodes([node.shown() for node in listed.nodes.values()], listed.version, self.now)
        gone = self.engine.sweep_pods([pod.shown() for pod in listed.pods.values()], listed.version, self.now)
        REACHED["swept away"] += gone > 0

    def _decide(self, number: int) -> None:
        for _ in range(number):
            decision = self.engine.attempt(self.now)
            if decision is None:
                return
            REACHED[decision.outcome.value] += 1
            REACHED["held back by a quota"] += "ResourceQuotaNotFit" in decision.reasons
            assert decision.outcome is not Outcome.ERROR, decision.error
            if decision.placement is not None:
                REACHED["placed on a MIG card"] += bool(_pieces(decision.placement))
                REACHED.update(f"placed: {maker}" for maker in decision.placement.vendors())
                check_placement(self.engine, decision.placement)
                check_quota(self.engine, decision.placement)
                self.in_flight[decision.uid] = decision.placement

    def _note_held(self) -> None:
        """Note which odd states of MIG cards come up."""
        devices = self.engine.state.devices
        for row in self.engine.state.nodes.rows().tolist():
            REACHED["a card out of service"] += bool(devices.unexplained(row))

    def _flying(self, pick: int) -> str:
        flying = sorted(self.in_flight)
        return flying[pick % len(flying)]

    def _recheck(self, uid: str) -> Placement | None:
        """Check a placement as the binder does right before it sends; one that was sent is left alone."""
        if any(uid == sent for sent, _ in self.answers):
            return None
        before = self.in_flight[uid]
        placement = self.engine.recheck(uid)
        if placement is None:
            del self.in_flight[uid]
            self.engine.give_back(uid, self.now)
            REACHED["recheck: given back"] += 1
            return None
        REACHED["recheck: holds" if placement == before else "recheck: refitted"] += 1
        check_placement(self.engine, placement)
        check_quota(self.engine, placement)
        self.in_flight[uid] = placement
        return placement

    def _befall(self, uid: str, what: str) -> None:
        pod = self.api.pods.get(uid)
        if pod is None:
            return
        if what == "deleted":
            self.api.delete_pod(uid)
        elif what == "taken" and not pod.node:
            self.api.put_pod(replace(pod, node=NAMES[0]))
        elif what == "deleting":
            self.api.put_pod(replace(pod, deleting=True))

    def _send(self, uid: str, fate: str) -> bool:
        placement = self._recheck(uid)
        if placement is None:
            return False
        code = 0
        if fate in {"succeeds", "lost"}:
            pod = self.engine.state.pod(uid)
            code = self.api.bind(uid, placement, self.engine.dialects.annotations(placement, 0, pod))
        said = {201: "bound", 404: "gone", 409: "conflict"}
        answer = {"succeeds": said.get(code, ""), "lost": "unknown", "dropped": "unknown"}.get(fate, fate)
        self.answers.append((uid, answer))
        return True

    def _settle(self, uid: str, answer: str) -> None:
        """Do what the binder does with an answer."""
        placement = self.in_flight.pop(uid)
        current = self.api.pods.get(uid)
        if answer == "unknown":
            answer = self._find_out(current, placement)
            REACHED[f"unknown: {answer}"] += 1
        REACHED[f"answer: {answer}"] += 1
        if answer == "bound":
            REACHED["bound, but deleted meanwhile"] += self.engine.state.was_removed(uid)
            self.engine.confirmed(uid)
            return
        if answer == "gone":
            self.engine.remove_pod(uid, self.now)
        elif answer == "conflict" and current is not None:
            self.engine.observe_pod(current.shown(), self.now)
        self.engine.give_back(uid, self.now, 1.0 if answer == "throttled" else 0.0)

    def _find_out(self, current: SimPod | None, placement: Placement) -> str:
        if current is None:
            return "gone"
        self.engine.observe_pod(current.shown(), self.now)
        if not current.node:
            return "throttled"
        return "bound" if current.node == placement.node else "conflict"

    def _shown_as_bound(self) -> set[str]:
        return {pod.uid for pod in self.api.pods.values() if pod.node}
