"""Watch a cluster on which another scheduler works, and record what this scheduler would have done."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from vgpu_scheduler.history.allocation_sampler import AllocationSampler
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.predicates import needs_scheduling
from vgpu_scheduler.shadow import faults
from vgpu_scheduler.shadow.comparing import choose, concerns, place_of, room_for_waiting
from vgpu_scheduler.shadow.records import ClusterSample, Fault, MissedPlacement, ObservedPeriod, PodRecord, Record
from vgpu_scheduler.whatif import ChangeResult, InvalidObjectsError, World, apply_change
from vgpu_scheduler.whatif.world.changes import POD, key_of

SHORTEST_MISS: Final = 1.0
"""The shortest missed placement in seconds: a shorter wait is that for the decision itself."""
_OF_TIME: Final = 0.02
"""The interval between samples, as a fraction of the watched time, up to ``sample_every``."""


class ShadowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How closely to watch.

    Attributes
    ----------
    min_duration
        The seconds that a fault or miss has to last to be reported.
    gap
        The seconds without a look after which the watch counts as interrupted, such as by a sleeping machine. What
        is known is stale then, and nothing is recorded until a new watch begins.
    audit_every, sample_every
        The seconds between two audits of allocations and locks, and between two samples of the cluster. Waiting pods
        are checked after each change and with each audit, since locks age by themselves. Samples are more frequent at
        first, so that a short watch has averages, too.
    """

    min_duration: float = 60.0
    gap: float = 120.0
    audit_every: float = 30.0
    sample_every: float = 60.0


class Shadow:
    """Records the events of a world, which may be rebuilt meanwhile, and this scheduler's choices.

    Parameters
    ----------
    record
        The record to extend.
    """

    def __init__(self, record: Record, options: ShadowOptions) -> None:
        self.record = record
        self._options = options
        self._open = {entry.uid: entry for entry in record.pods.values() if entry.left is None}
        self._missed = {missed.uid: missed for missed in record.missed if missed.until is None}
        self._passed_over: set[str] = set()
        """UIDs of pods that were bound already when the watch began."""
        self._gated: set[str] = set()
        self._beginning = False
        """Whether the observed state arose before the watch began."""
        self._moved = True
        self._audited = self._sampled = float("-inf")

    def begin(self, world: World, now: float) -> None:
        """Begin to watch a world; record what its present state tells of the time since an earlier watch."""
        self._watch_from(now)
        self._moved = self._beginning = True
        for pod in world.pods.values():
            uid = pod.uid
            if uid not in self._open and pod.node_name:
                self._passed_over.add(uid)
            else:
                self._note(world, pod, now)
        self._note_gone(world, now)
        self._beginning = False

    def apply_change(self, world: World, obj: Object, *, gone: bool, now: float) -> ChangeResult:
        """Apply a change to a world and record its effect; see :func:`vgpu_scheduler.whatif.apply_change`."""
        if self.slept(now):
            return apply_change(world, obj, gone=gone)
        if obj["kind"] == POD and not gone:
            self._foresee(world, obj, now)
        taken = apply_change(world, obj, gone=gone)
        if taken is ChangeResult.CHANGED and obj["kind"] == POD:
            pod = world.pods.get(key_of(obj))
            if pod is not None:
                self._note(world, pod, now)
            self._note_if_gone(world, str(obj["metadata"].get("uid", "")), key_of(obj), now)
        self._moved |= taken is ChangeResult.CHANGED
        return taken

    def replaced(self, before: World, world: World, now: float) -> None:
        """Continue with a world that was rebuilt from the cluster's objects."""
        if self.slept(now):
            return
        for pod in world.pods.values():
            self._choose_before(before, world, pod, now)
            self._note(world, pod, now)
        self._note_gone(world, now)
        self._moved = True

    def check(self, world: World, now: float) -> None:
        """Check the waiting pods and, when they are due, audit and sample the cluster."""
        if self.slept(now):
            return
        self.record.watches[-1].until = now
        _review_locks(world, now)
        is_due = now - self._audited >= self._options.audit_every
        if self._moved or is_due:
            self._look_at_waiting(world, now)
            self._moved = False
        if is_due:
            self._audited = now
            min_duration = self._options.min_duration
            found = faults.find(world, now, min_duration)
            faults.follow(self.record.faults, found, now, min_duration, lambda fault: self._was_bound(world, fault))
        if now - self._sampled >= min(self._options.sample_every, self.record.watched * _OF_TIME):
            self._sampled = now
            self.record.samples.append(_sample(world, self.record.other_scheduler, now))

    def end(self, world: World, now: float) -> None:
        """Audit and sample the cluster a last time, at the end of a watch."""
        self._audited = self._sampled = float("-inf")
        self.check(world, now)

    def slept(self, now: float) -> bool:
        """Tell whether the last look is so long ago that a new watch has to begin."""
        return now - self.record.until > self._options.gap

    def _was_bound(self, world: World, fault: Fault) -> bool:
        """Tell whether the pod of a fault has been bound since the fault began."""
        pod = world.pods.get(fault.object.removeprefix(f"{POD} "))
        return (pod is not None and bool(pod.node_name)) or any(
            f"{POD} {entry.pod}" == fault.object and entry.bound is not None and entry.bound >= fault.since
            for entry in self.record.pods.values()
        )

    def _watch_from(self, now: float) -> None:
        """Begin a watch, and end the missed placements of the one before, whose further course is unknown."""
        for missed in self._missed.values():
            missed.until = self.record.until
        self._missed.clear()
        self.record.watches.append(ObservedPeriod(now, now))

    # Pods -------------------------------------------------------------------------------------------------------------

    def _foresee(self, world: World, obj: Object, now: float) -> None:
        """Record this scheduler's choice for a pod about to be placed, in the cluster as the other scheduler saw it."""
        try:
            pod = world.pod({**obj, "spec": obj.get("spec") or {}}, again=True)
        except InvalidObjectsError:
            return  # applying the change reports the error, too
        self._choose_before(world, world, pod, now)

    def _choose_before(self, before: World, after: World, pod: Pod, now: float) -> None:
        """Record this scheduler's choice for a pod that has been placed since, in an earlier state of the cluster."""
        uid = pod.uid
        entry = self._open.get(uid)
        if uid in self._passed_over or (entry is not None and entry.place is not None):
            return
        if not concerns(after, pod, self.record.other_scheduler) or pod.terminal or place_of(after, pod) is None:
            return
        known = before.pods.get(pod.key)
        asked = known if known is not None and known.uid == uid else pod
        entry = entry or self._arrived(uid, pod, now)
        _review_locks(before, now)  # a lock may have closed its node before its pod was known
        entry.choice = choose(before, asked)
        if entry.choice.place is not None and entry.fitted is None:
            entry.fitted = now

    def _note(self, world: World, pod: Pod, now: float) -> None:
        """Record the present state of a pod."""
        uid = pod.uid
        entry = self._open.get(uid)
        if uid in self._passed_over or not concerns(world, pod, self.record.other_scheduler):
            return
        place = place_of(world, pod)
        if entry is None and place is None and not needs_scheduling(pod):
            self._gated.add(uid)
            return
        if entry is None and not pod.terminal:
            entry = self._arrived(uid, pod, now)
        if entry is None:
            return
        if entry.placed is None or place is None:
            entry.placed = None if place is None else now
        entry.place = place
        if pod.node_name and entry.bound is None:
            self._bound(entry, pod, now)
        if place is not None:
            self._end_missed_placement(uid, now)
        if pod.terminal:
            self._left(entry, now)

    def _bound(self, entry: PodRecord, pod: Pod, now: float) -> None:
        """Record that a pod is bound; if that happened before the watch, take its start time from the kubelet."""
        entry.bound = now
        if not self._beginning:
            return
        entry.unseen = pod.start_time is None
        if pod.start_time is not None:
            entry.bound = min(max(float(pod.start_time), entry.arrived), now)
            entry.placed = entry.bound if entry.placed in {None, now} else entry.placed

    def _arrived(self, uid: str, pod: Pod, now: float) -> PodRecord:
        """Begin the record of a pod, which arrived at its creation or when its gates were removed."""
        created = None if uid in self._gated else pod.created_at
        arrived = now if created is None else min(created, now)
        entry = PodRecord(uid, pod.key, pod.priority, arrived)
        self._gated.discard(uid)
        self._open[uid] = self.record.pods[uid] = entry
        return entry

    def _note_gone(self, world: World, now: float) -> None:
        for entry in list(self._open.values()):
            self._note_if_gone(world, entry.uid, entry.pod, now)

    def _note_if_gone(self, world: World, uid: str, key: str, now: float) -> None:
        """Record that a pod was deleted, if it was."""
        known = world.pods.get(key)
        if known is not None and known.uid == uid:
            return
        self._passed_over.discard(uid)
        self._gated.discard(uid)
        if uid in self._open:
            self._left(self._open[uid], now)

    def _left(self, entry: PodRecord, now: float) -> None:
        entry.left = now
        entry.unseen |= self._beginning and entry.bound is None
        del self._open[entry.uid]
        self._end_missed_placement(entry.uid, now)

    # Missed placements ------------------------------------------------------------------------------------------------

    def _look_at_waiting(self, world: World, now: float) -> None:
        fitting = set()
        for pod, place in room_for_waiting(world, self.record.other_scheduler):
            uid = pod.uid
            entry = self._open.get(uid)
            if entry is None:
                continue
            fitting.add(uid)
            if entry.fitted is None:
                entry.fitted = now
            if uid not in self._missed:
                self._missed[uid] = MissedPlacement(uid, pod.key, now, place)
                self.record.missed.append(self._missed[uid])
        for uid in self._missed.keys() - fitting:
            self._end_missed_placement(uid, now)

    def _end_missed_placement(self, uid: str, now: float) -> None:
        missed = self._missed.pop(uid, None)
        if missed is None:
            return
        missed.until = now
        if missed.lasted(now) < SHORTEST_MISS:
            _remove_late(self.record.missed, missed)


def _review_locks(world: World, now: float) -> None:
    world.review_locks(datetime.fromtimestamp(now, UTC))


def _remove_late(found: list[MissedPlacement], missed: MissedPlacement) -> None:
    """Remove a recent entry, if it is in the list."""
    for at in reversed(range(len(found))):
        if found[at] is missed:
            del found[at]
            return


def _sample(world: World, other_scheduler: str, now: float) -> ClusterSample:
    gauge = AllocationSampler(world.engine.state, world.engine.dialects)
    gauge.read(now)
    stand = gauge.series()
    waiting = sum(concerns(world, pod, other_scheduler) and needs_scheduling(pod) for pod in world.pending.values())
    (cards, idle, allocated, stranded_free) = (
        float(each[0]) for each in (stand.cards, stand.idle, stand.allocated, stand.stranded_free)
    )
    return ClusterSample(now, cards, idle, allocated, stranded_free, waiting)
