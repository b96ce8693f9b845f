"""A history is replayed: its pods arrive as they did, and an engine on a virtual clock decides where they go.

What is assumed:

- A placed pod is bound at once, and stays as long as it did in the history, from when it is placed.
- A pod that the history never placed departs when it did there, placed or not: by then it had given up.
- Victims of a preemption are gone at once. One that has a controller comes again, and runs its whole time anew, unless
  the history evicted it, too: what came for it arrives as it did there.
- A pod that the history evicted departs when it did there, where nobody evicts it: what came for it does the rest.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Final, NamedTuple

import msgspec

from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.history.allocation_sampler import AllocationSampler
from vgpu_scheduler.history.events import Arrived, Changed, Departed, Event, History, PodLifetime, Removed
from vgpu_scheduler.history.replay_result import PodCourse, ReplayedEviction, ReplayResult
from vgpu_scheduler.history.virtual import POD, VirtualCluster
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import PLURALS, PolicyKey, PolicyResource, key_of

__all__ = ["replay"]

_NOTHING: Final = PodLifetime()


class _Step(NamedTuple):
    """Something that happens: of what happens at one time, what the history has goes first, in its order."""

    at: float
    number: int
    what: Event


@dataclass(slots=True)
class _Life:
    """What becomes of one pod of the history.

    Attributes
    ----------
    pod
        As it waits; one that came again has another UID.
    course
        What became of it so far.
    since
        Since when it waits; None while it does not.
    ends
        When it ends where it was placed; None if it does not.
    """

    pod: Pod
    course: PodCourse
    since: float | None
    ends: float | None = None


def replay(
    history: History,
    options: EngineOptions,
    policies: Sequence[PolicyResource] = (),
    on_step: Callable[[float, Engine], None] = lambda _at, _engine: None,
    *,
    asked: Collection[str] | None = None,
    most_work: float = inf,
) -> ReplayResult:
    """Let the pods of a history arrive again, and return what becomes of them.

    Parameters
    ----------
    options
        What the engine is made from.
    policies
        They are in force instead of those of the same kind and name, from the beginning to the end; see
        :func:`with_policies`.
    on_step
        Is called after each moment at which something happened, with the time and the engine.
    asked
        The UIDs of the pods that alone are of interest: it ends when each of them has been placed. None for all.
    most_work
        It ends after so many moments and decisions together.

    Returns
    -------
    ReplayResult
        The same one each time.
    """
    return _Replay(with_policies(history, policies), options, on_step).run(asked, most_work)


def with_policies(history: History, policies: Sequence[PolicyResource]) -> History:
    """Return a history in which these policies are in force throughout, instead of those of the same kind and name."""
    if not policies:
        return history
    new = {key_of(policy): policy for policy in policies}
    first = tuple(event for event in history.first if not _is_about(event, new))
    put = tuple(Changed(history.began, policy.kind, policy) for policy in new.values())
    return replace(
        history,
        first=put + first,
        events=tuple(event for event in history.events if not _is_about(event, new)),
    )


def _is_about(event: Event, policies: dict[PolicyKey, PolicyResource]) -> bool:
    if not isinstance(event, Changed | Removed) or event.kind not in PLURALS:
        return False
    return isinstance(event.value, PolicyResource) and key_of(event.value) in policies


class _Replay:
    """One replay."""

    def __init__(self, history: History, options: EngineOptions, on_step: Callable[[float, Engine], None]) -> None:
        self._history = history
        self._on_step = on_step
        self._cluster = VirtualCluster(options)
        self._engine = self._cluster.engine
        self._gauge = AllocationSampler(self._engine.state, self._engine.dialects)
        self._stays = history.stays()
        self._lives: dict[str, _Life] = {}  # by the UID in the history
        self._first_uids: dict[str, str] = {}  # of pods that came again
        self._evictions: list[ReplayedEviction] = []
        self._spared: list[str] = []
        """Whom the history evicted, and who goes now unless somebody gets its room first."""
        self._errors: Counter[str] = Counter()
        self._placed: set[str] = set()
        self._work = 0
        self._numbers = count()
        self._steps = [_Step(history.began, next(self._numbers), event) for event in history.first]
        self._steps += [_Step(event.at, next(self._numbers), event) for event in history.events]
        heapq.heapify(self._steps)

    def run(self, asked: Collection[str] | None, most_work: float) -> ReplayResult:
        """Let everything happen to the end of the history, or until all that were asked about have been placed."""
        steps, ended, began = self._steps, self._history.ended, self._history.began
        waiting = None if asked is None else set(asked)
        due = inf
        while (now := min(steps[0].at if steps else inf, due)) <= ended:
            while steps and steps[0].at <= now:
                self._do(heapq.heappop(steps).what, now)
            due = self._decide(now)
            if self._spared:
                for uid in self._spared:
                    self._end(self._lives[uid], now)
                self._spared.clear()
                due = self._decide(now)
            self._work += 1
            self._gauge.read(now)
            self._on_step(now, self._engine)
            if waiting is not None:
                waiting -= self._placed
            if waiting == set() or self._work >= most_work:
                break
        pods = [self._ended(life) for life in self._lives.values()]
        lacked = self._cluster.lacked + self._errors
        series = self._gauge.series()
        return ReplayResult(
            began, ended, pods, series, tuple(self._evictions), dict(sorted(lacked.items())), self._work
        )

    def _ended(self, life: _Life) -> PodCourse:
        """Return the course of a pod, with what it has waited in the end."""
        since = life.since
        return life.course if since is None else _waited(life.course, self._history.ended - since)

    # What happens ----------------------------------------------------------------------------------------------------

    def _do(self, event: Event, now: float) -> None:
        if isinstance(event, Arrived):
            self._arrive(event.pod.as_created(), now)
        elif isinstance(event, Departed):
            self._depart(event.uid, now)
        elif isinstance(event, Removed):
            self._cluster.remove(event.kind, event.value, now)
        elif isinstance(event, Changed):
            self._change(event, now)

    def _arrive(self, pod: Pod, now: float) -> None:
        self._cluster.observe(POD, pod, now)
        asked = self._cluster.asked(pod)
        course = PodCourse(pod.uid, pod.key, pod.namespace, pod.priority, asked, now)
        self._lives[pod.uid] = _Life(pod, course, now)

    def _change(self, event: Changed, now: float) -> None:
        pod = event.value
        if event.kind != POD or not isinstance(pod, Pod):
            self._cluster.observe(event.kind, pod, now)
            return
        life = self._lives.get(pod.uid)
        if life is None and not pod.node_name and pod.scheduler_name in self._engine.scheduler_names:
            self._arrive(pod.as_created(), now)
        elif life is None:
            self._cluster.observe(POD, pod, now)
        elif life.since is not None and life.pod.uid == pod.uid:  # else it is as it was placed
            life.pod = pod.as_created()
            self._cluster.observe(POD, life.pod, now)

    def _depart(self, uid: str, now: float) -> None:
        """Let a pod go if it is its time: what went in the history may have come later here."""
        life = self._lives.get(self._first_uids.get(uid, uid))
        if life is None:
            self._cluster.depart(uid, now)
            return
        stay, is_its_own = self._stays.get(life.course.uid, _NOTHING), uid == life.pod.uid
        if stay.evicted:
            self._spared.append(life.course.uid)
        elif (stay.placed is None and uid == life.course.uid) or (is_its_own and life.ends == now):
            self._end(life, now)

    def _end(self, life: _Life, now: float) -> None:
        """Let a pod go, unless it has gone."""
        if life.course.departed is not None:
            return
        self._cluster.depart(life.pod.uid, now)
        waited = 0.0 if life.since is None else now - life.since
        life.course, life.since, life.ends = replace(_waited(life.course, waited), departed=now), None, None

    # Decisions -------------------------------------------------------------------------------------------------------

    def _decide(self, now: float) -> float:
        """Decide all pods that are active; return when the next one is, at infinity if none will be."""
        while decisions := self._engine.attempt_group(now):
            self._work += 1
            for decision in decisions:
                self._carry_out(decision, now)
        due = self._engine.queue.tick(now)
        return inf if due is None else due

    def _carry_out(self, decision: Decision, now: float) -> None:
        if decision.outcome is Outcome.ERROR:
            self._errors[f"Pod {decision.pod}: {decision.message}"] += 1
        elif decision.outcome is Outcome.PLACED:
            self._place(decision, now)
        elif decision.preemption is not None:
            for victim in decision.preemption.victims:
                self._evict(victim.uid, decision.pod, now)

    def _place(self, decision: Decision, now: float) -> None:
        """Bind a pod, and note when it goes."""
        assert decision.placement is not None
        life = self._lives[self._first_uids.get(decision.uid, decision.uid)]
        self._cluster.bind(life.pod, decision, now)
        placement, course = decision.placement, life.course
        cards = tuple(card.uuid for container in placement.containers for card in container)
        waited = 0.0 if life.since is None else now - life.since
        started = now if course.started is None else course.started
        life.course = replace(_waited(course, waited), started=started, node=placement.node, cards=cards)
        life.since = None
        self._placed.add(course.uid)
        stay = self._stays.get(course.uid, _NOTHING)
        life.ends = None if stay.placed is None or stay.evicted else stay.ends(now)
        if life.ends is not None:
            heapq.heappush(self._steps, _Step(life.ends, next(self._numbers), Departed(life.ends, life.pod.uid)))

    def _evict(self, uid: str, preemptor: str, now: float) -> None:
        """Let a pod go for another one; it comes again where somebody makes it anew."""
        victim = self._cluster.evict(uid, now)
        if victim is None:
            return
        first = self._first_uids.get(uid, uid)
        self._evictions.append(ReplayedEviction(now, victim.key, victim.namespace, victim.priority, preemptor))
        stay, life = self._stays.get(first, _NOTHING), self._lives.get(first)
        comes_again = victim.owner and not stay.evicted
        if life is None and comes_again:  # it ran already when the history began
            began = self._history.began if victim.start_time is None else float(victim.start_time)
            self._stays[first] = replace(stay, placed=began)
            asked = self._cluster.asked(victim)
            course = PodCourse(first, victim.key, victim.namespace, victim.priority, asked, began, started=began)
            life = self._lives[first] = _Life(victim.as_created(), course, None)
        if life is None:
            return
        evictions = life.course.evictions + 1
        life.course, life.ends = replace(life.course, evictions=evictions), None
        if not comes_again:
            life.course = replace(life.course, departed=now)
            return
        life.pod, life.since = msgspec.structs.replace(life.pod, uid=f"{first}+{evictions}"), now
        self._first_uids[life.pod.uid] = first
        self._cluster.observe(POD, life.pod, now)


def _waited(course: PodCourse, seconds: float) -> PodCourse:
    return replace(course, waited=course.waited + seconds)
