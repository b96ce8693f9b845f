"""Watches clusters in memory: everything that happens is looked at, and written down to be replayed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from tests.shadow.clusters import HAMI, START, Cluster

from vgpu_scheduler.engine import SCHEDULER_NAME, EngineOptions
from vgpu_scheduler.history import History
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.shadow import ChangeLog, IncreasingClock, LogEntry, Record, Shadow, ShadowOptions, histories
from vgpu_scheduler.whatif import ChangeResult, World, make_dialect

Object = dict[str, Any]
OPTIONS = EngineOptions([make_dialect("hami")], scheduler_names=(SCHEDULER_NAME, HAMI), coexist_with=(HAMI,))


def world_of(cluster: Cluster) -> World:
    world = World(OPTIONS)
    world.add(cluster.all())
    return world


class Watched:
    """A cluster that is looked at after everything that happens."""

    def __init__(self, cluster: Cluster, now: float = START, record: Record | None = None, gap: float = 1e9) -> None:
        self.cluster = cluster
        self.lines: list[LogEntry] = []
        self.change_log = ChangeLog(self.lines.append)
        self.clock = IncreasingClock(record.until if record is not None else 0.0)
        now = self.clock.time_of_change(now)
        self.options = ShadowOptions(min_duration=60.0, gap=gap, audit_every=0.0, sample_every=60.0)
        self.shadow = Shadow(record or Record(HAMI), self.options)
        self._begin(now)
        self.anew = 0

    def _begin(self, now: float) -> None:
        list(self.cluster.happened())
        self.change_log.begin(self.cluster.all(), now)
        self.world = world_of(self.cluster)
        self.shadow.begin(self.world, now)
        self.shadow.check(self.world, self.clock.time_of_look(now))

    @property
    def record(self) -> Record:
        return self.shadow.record

    def see(self, now: float) -> None:
        """See what has happened; where nobody has looked for too long, begin anew, as the command does."""
        if self.shadow.slept(now):
            self._begin(self.clock.time_of_change(now))
            return
        for obj, gone in self.cluster.happened():
            now = self.clock.time_of_change(now)
            self.change_log.note(obj, gone=gone, now=now)
            if self.shadow.apply_change(self.world, obj, gone=gone, now=now) is ChangeResult.NOT:
                before, self.world = self.world, world_of(self.cluster)
                self.shadow.replaced(before, self.world, now)
                self.anew += 1
        self.shadow.check(self.world, self.clock.time_of_look(now))

    def history(self) -> History:
        (found,) = histories(self.lines, self.record.until, {"Pod": decode_pod, "Node": decode_node}, HAMI)
        return found

    def entry(self, name: str) -> Any:
        return next(entry for entry in self.record.pods.values() if entry.pod == f"default/{name}")


class Itself:
    """This scheduler at work on the objects: it decides in its own world, and writes what it would write."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._engine = world_of(cluster).engine

    def see(self, changes: list[tuple[Object, bool]], now: float) -> None:
        for obj, gone in changes:
            if obj["kind"] == "Pod" and gone:
                self._engine.remove_pod(obj["metadata"]["uid"], now)
            elif obj["kind"] == "Pod":
                self._engine.observe_pod(decode_pod(obj), now)
        while decisions := self._engine.schedule_next(now):
            for decision in decisions:
                if decision.placement is not None:
                    self._bind(decision.pod.partition("/")[2], decision.placement)
                    self._engine.binding_succeeded(decision.uid)

    def _bind(self, name: str, placement: Placement) -> None:
        pod = self._cluster.get("Pod", name)
        pod["metadata"]["annotations"] = self._engine.dialects.annotations(placement, 0)
        pod["spec"]["nodeName"] = placement.node
        self._cluster.put(pod)


def beside_itself(seed: int) -> tuple[Watched, float]:
    """Let this scheduler work on a cluster that is watched."""
    rng = np.random.default_rng(seed)
    cluster = Cluster()
    for number in range(4):
        cluster.add_node(f"n{number}", 1 + number % 3)
    watched, itself = Watched(cluster), Itself(cluster)
    now, there = START, []
    for number in range(60):
        now += float(rng.integers(1, 30))
        if there and rng.random() < 0.5:
            cluster.delete("Pod", there.pop(int(rng.integers(len(there)))))
        for each in range(int(rng.integers(3))):
            there.append(f"p{number}-{each}")
            memory, cards = 1000 * int(rng.integers(1, 16)), 1 + int(rng.random() < 0.3)
            cluster.add_pod(there[-1], memory, now, cards=cards, cores=10 * int(rng.integers(5)))
        changes, cluster.changes = cluster.changes, []
        itself.see(copy.deepcopy(changes), now)
        cluster.changes = [*changes, *cluster.changes]
        watched.see(now)
    return watched, now
