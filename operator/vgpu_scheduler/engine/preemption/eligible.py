"""Who may preempt whom now: what policies and the evictions of the last hour allow."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from vgpu_scheduler.engine.preemption.occupants import is_evictable
from vgpu_scheduler.engine.preemption.victims import GIVEN_UP_AFTER
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import HOUR, Policies, PolicyKey, PreemptionRules, VictimScope
from vgpu_scheduler.state import State

__all__ = ["EvictionLimits", "VictimFilter"]

_HOUR: Final = HOUR.total_seconds()
_Policy = tuple[PolicyKey, str]
"""Its name and its UID: one that is created anew starts anew, as its status does."""


@dataclass(slots=True)
class VictimFilter:
    """Tells which pods of lower priority may be victims of one pod.

    Attributes
    ----------
    state, policies
        What is known of pods, and what is in force for each.
    rules
        What is in force for the pod that needs room.
    scheduler_names
        Those of this scheduler.
    protected
        Namespaces of which no pod is ever a victim: the one where this scheduler's own replicas run.
    moment
        Seconds since 1970.
    excluded
        Until when pods that have turned out to be no victims are none, by UID, in seconds since 1970.
    first_at
        When the first of the pods that it was asked about may be a victim that may not be one yet: it is excluded, or
        has not run for as long as its policy says. In seconds since 1970; infinite if there is none.
    any_excluded
        Whether it was asked about one of those that have turned out to be no victims for a time.
    """

    state: State
    policies: Policies
    rules: PreemptionRules
    scheduler_names: Collection[str]
    protected: Collection[str]
    moment: float
    excluded: Mapping[str, float] = field(default_factory=dict)
    first_at: float = math.inf
    any_excluded: bool = False

    def __call__(self, pod: Pod) -> bool:
        """Tell whether a pod may be one."""
        held, until = self.state.reservation(pod.uid), self.excluded.get(pod.uid)
        if until is not None and not (pod.deleting and until < math.inf):  # nobody has to evict who ends already
            self.first_at, self.any_excluded = min(self.first_at, until), self.any_excluded or until < math.inf
            return False
        if held is None or not is_evictable(pod, held):
            return False  # whether its end would free the room that is asked for, nobody can tell
        return not self._is_stuck(pod) if pod.deleting else self._may_be_evicted(pod)

    def _is_stuck(self, pod: Pod) -> bool:
        """Tell whether a pod should have ended long ago: nobody waits for it."""
        return pod.ends_by is not None and self.moment >= pod.ends_by + GIVEN_UP_AFTER

    def _may_be_evicted(self, pod: Pod) -> bool:
        if pod.namespace in self.protected:
            return False
        if self.rules.victims is VictimScope.OWN and pod.scheduler_name not in self.scheduler_names:
            return False
        own = self.policies.resolve(pod).preemption
        if not own.preemptible or own.min_runtime == 0.0:
            return own.preemptible
        may_at = (self.moment if pod.start_time is None else pod.start_time) + own.min_runtime
        if self.moment < may_at:
            self.first_at = min(self.first_at, may_at)
        return self.moment >= may_at


class Exceeded(NamedTuple):
    """A policy that allows fewer evictions now than are needed."""

    key: PolicyKey
    remaining: int
    needed: int


class EvictionLimits:
    """Counts the evictions of the last hour by policy: those that policies record, and those decided here since.

    Parameters
    ----------
    policies
        What is known of policies.
    """

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._decided: dict[_Policy, dict[str, float]] = {}
        """By policy, when each pod was chosen as a victim, by its UID, in seconds since 1970."""
        self._evicted: dict[_Policy, dict[str, float]] = {}
        """The same of those that were evicted, which no policy may record yet."""

    def exceeded(self, rules: PreemptionRules, victims: Collection[str], moment: float) -> Exceeded | None:
        """Return which limit some pods exceed if they are evicted now under some rules; None if none.

        Those that count already, for an earlier leader has recorded them, count once.
        """
        found = []
        for key, limit in rules.eviction_limits:
            counting = self._counting(key, moment)
            remaining, needed = limit - len(counting), len(set(victims) - counting.keys())
            if needed > remaining:
                found.append(Exceeded(key, max(remaining, 0), needed))
        return min(found, key=lambda each: each.remaining, default=None)

    def again_at(self, key: PolicyKey, moment: float) -> float:
        """Return when the oldest of the evictions that count for a policy does not count any more."""
        return min(self._counting(key, moment).values(), default=moment) + _HOUR

    def reserve(self, rules: PreemptionRules, victims: Collection[str], moment: float) -> None:
        """Count pods that are to be evicted; one that is counted already counts once."""
        for key, _ in rules.eviction_limits:
            self._decided.setdefault(self._known(key), {}).update(dict.fromkeys(victims, moment))

    def commit(self, victim: str) -> None:
        """Count a pod for good: it was evicted."""
        for policy, decided in self._decided.items():
            if victim in decided:
                self._evicted.setdefault(policy, {})[victim] = decided.pop(victim)

    def release(self, victims: Iterable[str]) -> None:
        """Count pods no more that were not evicted after all."""
        for uid in victims:
            for decided in self._decided.values():
                decided.pop(uid, None)

    def reserved(self) -> dict[_Policy, dict[str, float]]:
        """Return what was decided here, to be brought back by :meth:`restore`."""
        return {policy: dict(victims) for policy, victims in self._decided.items()}

    def restore(self, decided: dict[_Policy, dict[str, float]]) -> None:
        """Bring back what was decided at some moment, and nothing else."""
        self._decided = decided

    def _counting(self, key: PolicyKey, moment: float) -> dict[str, float]:
        policy = self._policies.catalogue.get(key)
        recorded = {one.uid: one.time.timestamp() for one in policy.evictions} if policy is not None else {}
        own = self._known(key)
        for known in (self._decided, self._evicted):
            known[own] = {uid: at for uid, at in known.get(own, {}).items() if moment - at < _HOUR}
        every = {**recorded, **self._evicted[own], **self._decided[own]}
        return {uid: at for uid, at in every.items() if abs(moment - at) < _HOUR}

    def _known(self, key: PolicyKey) -> _Policy:
        policy = self._policies.catalogue.get(key)
        return key, "" if policy is None else policy.uid
