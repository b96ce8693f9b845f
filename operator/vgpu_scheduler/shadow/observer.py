"""Follows a cluster on which another scheduler works, and notes what this one would have done in its place."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from vgpu_scheduler.history.allocation_sampler import AllocationSampler
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.predicates import needs_scheduling
from vgpu_scheduler.shadow import faults
from vgpu_scheduler.shadow.comparing import choose, concerns, place_of, room_for_waiting
from vgpu_scheduler.shadow.records import Fault, MissedPlacement, PodRecord, Record, Sample, Watch
from vgpu_scheduler.whatif import ChangeResult, World, WorldError, apply_change
from vgpu_scheduler.whatif.world.changes import POD, key_of

SHORTEST_MISS: Final = 1.0
"""Seconds; who waits for less has waited for the decision alone, and no report is about less."""
_OF_TIME: Final = 0.02
"""How much of the time that was watched there is between two samples, unless they need not be as far apart."""


class ShadowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How closely is looked.

    Attributes
    ----------
    min_duration
        Seconds that something has to last before it is worth a word.
    gap
        Seconds without a look after which nobody has watched: the machine slept. What is known is old then, and nothing
        is noted until somebody begins anew.
    audit_every, sample_every
        Seconds between two looks at books and locks, and at how the cluster stands. Who waits is looked at whenever
        something has moved, and as often as books are: locks grow old by themselves. How the cluster stands is looked
        at more often in the beginning, so that there are averages of a short watch, too.
    """

    min_duration: float = 60.0
    gap: float = 120.0
    audit_every: float = 30.0
    sample_every: float = 60.0


class Shadow:
    """Notes what happens in a world, which is another one now and then, and what this scheduler would have done.

    Parameters
    ----------
    record
        What was seen so far, and goes on.
    """

    def __init__(self, record: Record, options: ShadowOptions) -> None:
        self.record = record
        self._options = options
        self._open = {course.uid: course for course in record.pods.values() if course.left is None}
        self._missed = {missed.uid: missed for missed in record.missed if missed.until is None}
        self._passed_over: set[str] = set()
        """UIDs of pods that were bound when somebody began to watch."""
        self._gated: set[str] = set()
        self._beginning = False
        """Whether what is noted came about while nobody watched."""
        self._moved = True
        self._audited = self._sampled = float("-inf")

    def begin(self, world: World, now: float) -> None:
        """Begin to watch a world; of what came about since an earlier watch it is noted what is left of it."""
        self._watch_from(now)
        self._moved = self._beginning = True
        for pod in world.pods.values():
            uid = world.first_uid(pod)
            if uid not in self._open and pod.node_name:
                self._passed_over.add(uid)
            else:
                self._note(world, pod, now)
        self._note_gone(world, now)
        self._beginning = False

    def apply_change(self, world: World, obj: Object, *, gone: bool, now: float) -> ChangeResult:
        """Take a change into a world, and note what it means; see :func:`vgpu_scheduler.whatif.apply_change`."""
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
        """Take in that a world stands for the cluster from now on that was made anew of its objects."""
        if self.slept(now):
            return
        for pod in world.pods.values():
            self._choose_before(before, world, pod, now)
            self._note(world, pod, now)
        self._note_gone(world, now)
        self._moved = True

    def look(self, world: World, now: float) -> None:
        """Look at who waits, and at times at books, locks and what is given out."""
        if self.slept(now):
            return
        self.record.watches[-1].until = now
        world.review_locks(datetime.fromtimestamp(now, UTC))
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
            self.record.samples.append(_sample(world, self.record.beside, now))

    def end(self, world: World, now: float) -> None:
        """Look at everything once more, before nobody watches any longer."""
        self._audited = self._sampled = float("-inf")
        self.look(world, now)

    def slept(self, now: float) -> bool:
        """Tell whether so long nobody has looked that somebody has to begin anew."""
        return now - self.record.until > self._options.gap

    def _was_bound(self, world: World, fault: Fault) -> bool:
        """Tell whether the pod of a fault was bound since the fault came."""
        pod = world.pods.get(fault.object.removeprefix(f"{POD} "))
        return (pod is not None and bool(pod.node_name)) or any(
            f"{POD} {course.pod}" == fault.object and course.bound is not None and course.bound >= fault.since
            for course in self.record.pods.values()
        )

    def _watch_from(self, now: float) -> None:
        """Begin a watch; what lasted when the one before ended may have ended with it."""
        for missed in self._missed.values():
            missed.until = self.record.until
        self._missed.clear()
        self.record.watches.append(Watch(now, now))

    # Pods -------------------------------------------------------------------------------------------------------------

    def _foresee(self, world: World, obj: Object, now: float) -> None:
        """Choose for a pod that is about to be placed, while the cluster is as its scheduler saw it."""
        try:
            pod = world.pod({**obj, "spec": obj.get("spec") or {}}, again=True)
        except WorldError:
            return  # which the world says of it, too
        self._choose_before(world, world, pod, now)

    def _choose_before(self, before: World, after: World, pod: Pod, now: float) -> None:
        """Choose for a pod that has got its place since a cluster was as it was before."""
        uid = after.first_uid(pod)
        course = self._open.get(uid)
        if uid in self._passed_over or (course is not None and course.place is not None):
            return
        if not concerns(after, pod, self.record.beside) or pod.terminal or place_of(after, pod) is None:
            return
        known = before.pods.get(pod.key)
        asked = known if known is not None and before.first_uid(known) == uid else pod
        course = course or self._arrived(uid, pod, now)
        course.choice = choose(before, asked)
        if course.choice.place is not None and course.fitted is None:
            course.fitted = now

    def _note(self, world: World, pod: Pod, now: float) -> None:
        """Note where a pod stands."""
        uid = world.first_uid(pod)
        course = self._open.get(uid)
        if uid in self._passed_over or not concerns(world, pod, self.record.beside):
            return
        place = place_of(world, pod)
        if course is None and place is None and not needs_scheduling(pod):
            self._gated.add(uid)
            return
        if course is None and not pod.terminal:
            course = self._arrived(uid, pod, now)
        if course is None:
            return
        if course.placed is None or place is None:
            course.placed = None if place is None else now
        course.place = place
        if pod.node_name and course.bound is None:
            self._bound(course, pod, now)
        if place is not None:
            self._end_missed_placement(uid, now)
        if pod.terminal:
            self._left(course, now)

    def _bound(self, course: PodRecord, pod: Pod, now: float) -> None:
        """Note that a pod is bound; if that came about while nobody watched, when its kubelet took note of it."""
        course.bound = now
        if not self._beginning:
            return
        course.unseen = pod.start_time is None
        if pod.start_time is not None:
            course.bound = min(max(float(pod.start_time), course.arrived), now)
            course.placed = course.bound if course.placed in {None, now} else course.placed

    def _arrived(self, uid: str, pod: Pod, now: float) -> PodRecord:
        """Begin the course of a pod; one that no gate held back arrived when it was created."""
        created = None if uid in self._gated else pod.created_at
        arrived = now if created is None else min(created, now)
        course = PodRecord(uid, pod.key, pod.priority, arrived)
        self._gated.discard(uid)
        self._open[uid] = self.record.pods[uid] = course
        return course

    def _note_gone(self, world: World, now: float) -> None:
        for course in list(self._open.values()):
            self._note_if_gone(world, course.uid, course.pod, now)

    def _note_if_gone(self, world: World, uid: str, key: str, now: float) -> None:
        """Note that a pod is gone, if it is."""
        known = world.pods.get(key)
        if known is not None and world.first_uid(known) == uid:
            return
        self._passed_over.discard(uid)
        self._gated.discard(uid)
        if uid in self._open:
            self._left(self._open[uid], now)

    def _left(self, course: PodRecord, now: float) -> None:
        course.left = now
        course.unseen |= self._beginning and course.bound is None
        del self._open[course.uid]
        self._end_missed_placement(course.uid, now)

    # Room that is missed ----------------------------------------------------------------------------------------------

    def _look_at_waiting(self, world: World, now: float) -> None:
        fitting = set()
        for pod, place in room_for_waiting(world, self.record.beside):
            uid = world.first_uid(pod)
            course = self._open.get(uid)
            if course is None:
                continue
            fitting.add(uid)
            if course.fitted is None:
                course.fitted = now
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


def _remove_late(found: list[MissedPlacement], missed: MissedPlacement) -> None:
    """Remove one that was added not long ago, if it is there."""
    for at in reversed(range(len(found))):
        if found[at] is missed:
            del found[at]
            return


def _sample(world: World, beside: str, now: float) -> Sample:
    gauge = AllocationSampler(world.engine.state, world.engine.dialects)
    gauge.read(now)
    stand = gauge.series()
    waiting = sum(concerns(world, pod, beside) and needs_scheduling(pod) for pod in world.pending.values())
    (cards, whole, given, stranded) = (
        float(each[0]) for each in (stand.cards, stand.whole, stand.given, stand.stranded)
    )
    return Sample(now, cards, whole, given, stranded, waiting)
