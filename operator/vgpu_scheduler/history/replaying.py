"""Replay a history: its pods arrive as they did, and an engine on a virtual clock places them.

Assumptions:

- A placed pod is bound at once, and runs from then on as long as it did in the history.
- A pod that the history never placed departs when it did there, since it had given up by then, even if placed here.
- Victims of a preemption are gone at once. A victim with a controller is recreated, and runs its whole time again,
  unless the history evicted it, too: its replacement then arrives as recorded.
- A pod that the history evicted, and the replay does not, departs when it did there; its recorded replacement runs on.
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
from vgpu_scheduler.history.events import Arrived, Changed, Departed, History, HistoryEvent, PodLifetime, Removed
from vgpu_scheduler.history.replay_result import ReplayedEviction, ReplayedPod, ReplayResult
from vgpu_scheduler.history.virtual import POD, VirtualCluster
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import POLICY_KINDS, PolicyKey, PolicyResource, key_of

_NOTHING: Final = PodLifetime()


class _Step(NamedTuple):
    """An event of the replay; at equal times, recorded events come first, in their order."""

    at: float
    number: int
    what: HistoryEvent


@dataclass(slots=True)
class _Life:
    """The state of one pod of the history.

    Attributes
    ----------
    pod
        The pod as it waits; a recreated pod has another UID.
    replayed
        Its lifetime so far.
    since
        Since when it waits; None while it does not.
    ends
        When its present placement ends; None if it does not.
    """

    pod: Pod
    replayed: ReplayedPod
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
    """Replay the arrivals of a history with an engine, and return the result.

    Parameters
    ----------
    options
        The options for the engine.
    policies
        Policies that replace those of the same kind and name throughout; see :func:`with_policies`.
    on_step
        Called after each moment with events, with the time and the engine.
    asked
        UIDs of pods: the replay ends once all of them have been placed. None to replay everything.
    most_work
        The replay ends after this many moments and decisions.

    Returns
    -------
    ReplayResult
        The result, which is deterministic.
    """
    return _Replay(with_policies(history, policies), options, on_step).run(asked, most_work)


def with_policies(history: History, policies: Sequence[PolicyResource]) -> History:
    """Return a history in which policies replace those of the same kind and name throughout."""
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


def _is_about(event: HistoryEvent, policies: dict[PolicyKey, PolicyResource]) -> bool:
    if not isinstance(event, Changed | Removed) or event.kind not in POLICY_KINDS:
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
        self._lifetimes = history.pod_lifetimes()
        self._lives: dict[str, _Life] = {}  # by the UID in the history
        self._first_uids: dict[str, str] = {}  # original UIDs of recreated pods
        self._evictions: list[ReplayedEviction] = []
        self._spared: list[str] = []
        """Pods that the history evicted: they end now, unless a preemption in the replay evicts them first."""
        self._errors: Counter[str] = Counter()
        self._placed: set[str] = set()
        self._work = 0
        self._numbers = count()
        self._steps = [_Step(history.began, next(self._numbers), event) for event in history.first]
        self._steps += [_Step(event.at, next(self._numbers), event) for event in history.events]
        heapq.heapify(self._steps)

    def run(self, asked: Collection[str] | None, most_work: float) -> ReplayResult:
        """Process events to the end of the history, or until all requested pods have been placed."""
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

    def _ended(self, life: _Life) -> ReplayedPod:
        """Return the lifetime of a pod, including a wait that lasts to the end."""
        since = life.since
        return life.replayed if since is None else _waited(life.replayed, self._history.ended - since)

    # Events -----------------------------------------------------------------------------------------------------------

    def _do(self, event: HistoryEvent, now: float) -> None:
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
        replayed = ReplayedPod(pod.uid, pod.key, pod.namespace, pod.priority, asked, now)
        self._lives[pod.uid] = _Life(pod, replayed, now)

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
        elif life.since is not None and life.pod.uid == pod.uid:  # a placed pod no longer changes
            life.pod = pod.as_created()
            self._cluster.observe(POD, life.pod, now)

    def _depart(self, uid: str, now: float) -> None:
        """End a pod if its time has come: it may have been placed later than in the history."""
        life = self._lives.get(self._first_uids.get(uid, uid))
        if life is None:
            self._cluster.depart(uid, now)
            return
        lifetime, is_its_own = self._lifetimes.get(life.replayed.uid, _NOTHING), uid == life.pod.uid
        if lifetime.evicted:
            self._spared.append(life.replayed.uid)
        elif (lifetime.placed is None and uid == life.replayed.uid) or (is_its_own and life.ends == now):
            self._end(life, now)

    def _end(self, life: _Life, now: float) -> None:
        """End a pod, unless it has ended."""
        if life.replayed.departed is not None:
            return
        self._cluster.depart(life.pod.uid, now)
        waited = 0.0 if life.since is None else now - life.since
        life.replayed, life.since, life.ends = replace(_waited(life.replayed, waited), departed=now), None, None

    # Decisions -------------------------------------------------------------------------------------------------------

    def _decide(self, now: float) -> float:
        """Try all active pods; return when the next one becomes active, infinity if none will."""
        while decisions := self._engine.schedule_next(now):
            self._work += 1
            for decision in decisions:
                self._carry_out(decision, now)
        due = self._engine.queue.flush_due(now)
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
        """Bind a pod, and schedule its end."""
        assert decision.placement is not None
        life = self._lives[self._first_uids.get(decision.uid, decision.uid)]
        self._cluster.bind(life.pod, decision, now)
        placement, replayed = decision.placement, life.replayed
        cards = tuple(card.uuid for container in placement.containers for card in container)
        waited = 0.0 if life.since is None else now - life.since
        started = now if replayed.started is None else replayed.started
        life.replayed = replace(_waited(replayed, waited), started=started, node=placement.node, cards=cards)
        life.since = None
        self._placed.add(replayed.uid)
        lifetime = self._lifetimes.get(replayed.uid, _NOTHING)
        life.ends = None if lifetime.placed is None or lifetime.evicted else lifetime.ends(now)
        if life.ends is not None:
            heapq.heappush(self._steps, _Step(life.ends, next(self._numbers), Departed(life.ends, life.pod.uid)))

    def _evict(self, uid: str, preemptor: str, now: float) -> None:
        """Evict a pod for another one; it is recreated if it has a controller."""
        victim = self._cluster.evict(uid, now)
        if victim is None:
            return
        first = self._first_uids.get(uid, uid)
        self._evictions.append(ReplayedEviction(now, victim.key, victim.namespace, victim.priority, preemptor))
        lifetime, life = self._lifetimes.get(first, _NOTHING), self._lives.get(first)
        comes_again = victim.owner and not lifetime.evicted
        if life is None and comes_again:  # it was bound when the history began
            began = self._history.began if victim.start_time is None else float(victim.start_time)
            self._lifetimes[first] = replace(lifetime, placed=began)
            asked = self._cluster.asked(victim)
            replayed = ReplayedPod(first, victim.key, victim.namespace, victim.priority, asked, began, started=began)
            life = self._lives[first] = _Life(victim.as_created(), replayed, None)
        if life is None:
            return
        evictions = life.replayed.evictions + 1
        life.replayed, life.ends = replace(life.replayed, evictions=evictions), None
        if not comes_again:
            life.replayed = replace(life.replayed, departed=now)
            return
        life.pod, life.since = msgspec.structs.replace(life.pod, uid=f"{first}+{evictions}"), now
        self._first_uids[life.pod.uid] = first
        self._cluster.observe(POD, life.pod, now)


def _waited(replayed: ReplayedPod, seconds: float) -> ReplayedPod:
    return replace(replayed, waited=replayed.waited + seconds)
