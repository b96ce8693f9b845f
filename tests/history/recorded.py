"""Histories of clusters that a small loop of their own has played: random pods come, are decided and go."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tests.engine.builders import OURS, asks, cards, make_engine, node, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.history import (
    Arrived,
    Changed,
    Decided,
    Departed,
    Header,
    History,
    HistoryEvent,
    LogFile,
    Row,
    rows_of,
)
from vgpu_scheduler.kube import Node, Pod, decode_pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import PolicyResource

BEGAN = 1_800_000_000.0
HOUR = 3600.0


def options(**more: Any) -> EngineOptions:
    """Return what engines are made from."""
    return EngineOptions([hami_dialect()], scheduler_names=[OURS], **more)


def fleet(number: int, cards_each: int = 2) -> list[Node]:
    """Return some nodes with cards of 8000 MiB."""
    return [node(f"node-{each}", cards(f"node-{each}", cards_each)) for each in range(number)]


def waiting(name: str, **more: Any) -> Pod:
    """Return a pod that waits."""
    return decode_pod(pod_object(name, more.pop("resources", None), **more))


def known_at_start(nodes: Iterable[Node], *others: Any) -> tuple[Changed, ...]:
    """Return what is there in the beginning: nodes, and policies."""
    first = [Changed(BEGAN, "Node", each) for each in nodes]
    return (*first, *(Changed(BEGAN, each.kind, each) for each in others))


def history(nodes: Iterable[Node], events: Iterable[HistoryEvent], *others: Any, ended: float = HOUR) -> History:
    """Return a history of an hour."""
    return History(BEGAN, BEGAN + ended, known_at_start(nodes, *others), tuple(events))


@dataclass
class Playing:
    """An engine, what it has decided, and when its pods end."""

    engine: Engine
    ends: dict[str, float]
    events: list[HistoryEvent] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    leaving: list[tuple[float, str]] = field(default_factory=list)
    version: int = 1000

    def observe(self, pod: Pod, now: float) -> None:
        self.version += 1
        self.pods[pod.uid] = msgspec.structs.replace(pod, resource_version=self.version)
        self.engine.observe_pod(self.pods[pod.uid], now)

    def attempt(self, now: float) -> Sequence[Decision]:
        """Decide the next pod."""
        return self.engine.schedule_next(now)

    def decide(self, now: float) -> float | None:
        """Decide whoever is active, and bind them."""
        while decisions := self.attempt(now):
            for decision in decisions:
                pod, found = self.pods[decision.uid], decision.placement
                victims = () if decision.preemption is None else decision.preemption.victims
                if decision.outcome is Outcome.PLACED:
                    assert found is not None
                    notes = self.engine.dialects.annotations(found, 0, pod)
                    self.engine.binding_succeeded(pod.uid)
                    bound = {"node_name": found.node, "annotations": {**pod.annotations, **notes}}
                    self.observe(
                        msgspec.structs.replace(
                            pod, phase="Running", started=True, start_time=int(now), nominated_node_name="", **bound
                        ),
                        now,
                    )
                    self.events.append(Decided(now, pod.uid, found.node, notes, OURS))
                    if pod.uid in self.ends:
                        heapq.heappush(self.leaving, (now + self.ends[pod.uid], pod.uid))
                elif victims:
                    evicted = tuple(victim.uid for victim in victims)
                    self.events.append(Decided(now, pod.uid, "", {}, OURS, evicted))
                    for uid in evicted:
                        self.engine.preemptions.evicted(uid)
                        self.engine.remove_pod(uid, now)
                        self.events.append(Departed(now, uid))
        return self.engine.queue.flush_due(now)


def played(
    seed: int, policies: Iterable[PolicyResource] = (), pods: int = 60, hours: float = 1.0, **more: Any
) -> History:
    """Return the history of a cluster whose pods have come and gone, as its own loop has written it down."""
    rng = np.random.default_rng(seed)
    nodes, policies = fleet(4), list(policies)
    playing = Playing(make_engine(**more), {})
    for each in nodes:
        playing.engine.observe_node(each, BEGAN)
    for rule in policies:
        playing.engine.policy_tracker.observe(rule)
    came = []
    for number, at in enumerate(np.sort(rng.uniform(0.0, hours * HOUR, pods)).tolist()):
        resources = asks(int(rng.integers(1, 3)), int(rng.integers(1, 8)) * 1000, int(rng.integers(0, 10)) * 10)
        name = f"pod-{number}"
        pod = waiting(name, resources=resources, priority=int(rng.integers(0, 3)) * 100)
        came.append((BEGAN + at, pod))
        if rng.random() < 0.9:
            playing.ends[pod.uid] = float(rng.exponential(HOUR / 2))
    play(playing, came, hours)
    return History(BEGAN, BEGAN + hours * HOUR, known_at_start(nodes, *policies), tuple(playing.events))


def play(playing: Playing, came: Iterable[tuple[float, Pod]], hours: float) -> None:
    """Let pods come, in order, and go, for so many hours."""
    coming, due = deque(came), None
    while True:
        times = [*(at for at, _ in islice(coming, 1)), *(at for at, _ in playing.leaving[:1])]
        times += [] if due is None else [due]
        if not times or (now := min(times)) > BEGAN + hours * HOUR:
            break
        while playing.leaving and playing.leaving[0][0] <= now:
            _, uid = heapq.heappop(playing.leaving)
            if playing.engine.state.pod(uid) is not None:
                playing.events.append(Departed(now, uid))
                playing.engine.remove_pod(uid, now)
        while coming and coming[0][0] <= now:
            _, pod = coming.popleft()
            playing.events.append(Arrived(now, pod))
            playing.observe(pod, now)
        due = playing.decide(now)


def written(folder: Path, past: History, header: Header | None = None, batch: int = 7) -> LogFile:
    """Write a history in small batches, and do not close the file."""
    file = LogFile(folder, header or Header(BEGAN, "run", 1, "test", {"preemption": True}))
    file.write(rows_of(past.first, first=True))
    events = list(past.events)
    for number in range(0, len(events), batch):
        file.write(rows_of(events[number : number + batch]))
    file.write([Row(past.ended, "seen")])
    return file


PREEMPTS = policy("preempts", {"preemption": {"mayPreempt": True}})
