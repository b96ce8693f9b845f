"""Which pods may be victims of a pod now, by policies and by the evictions of the last hour."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from vgpu_scheduler.engine.preemption.occupants import is_evictable
from vgpu_scheduler.engine.preemption.victims import GIVEN_UP_AFTER
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import HOUR, Policies, PolicyKey, PreemptionRules, VictimScope
from vgpu_scheduler.state import State

_HOUR: Final = HOUR.total_seconds()
_Policy = tuple[PolicyKey, str]
"""The name and UID of a policy: a recreated policy starts anew, as its status does."""


class VictimVerdict(NamedTuple):
    """Whether a pod may be a victim.

    Attributes
    ----------
    may_end
        Whether it may be one now.
    may_at
        The earliest time at which the pod may be a victim: the end of its exclusion or of its policy's minRuntime. Unix
        seconds; infinity if never.
    is_excluded
        Whether an earlier eviction was refused, so that the pod is excluded for some minutes.
    """

    may_end: bool
    may_at: float = math.inf
    is_excluded: bool = False


_MAY: Final = VictimVerdict(may_end=True)
_MAY_NOT: Final = VictimVerdict(may_end=False)


@dataclass(slots=True)
class RecordingVictimFilter:
    """Asks a filter about pods, and sums up what it says of those that may not be victims yet.

    Attributes
    ----------
    filter
        The filter.
    first_at
        When the first of the pods that may not be a victim yet may be one; in seconds since 1970, infinite if there is
        none.
    any_excluded
        Whether any has turned out to be no victim for a time.
    """

    filter: Callable[[Pod], VictimVerdict]
    first_at: float = math.inf
    any_excluded: bool = False

    def __call__(self, pod: Pod) -> bool:
        """Tell whether a pod may be a victim."""
        verdict = self.filter(pod)
        if not verdict.may_end:
            self.first_at = min(self.first_at, verdict.may_at)
            self.any_excluded |= verdict.is_excluded
        return verdict.may_end


@dataclass(frozen=True, slots=True)
class VictimFilter:
    """Tells which pods of lower priority may be victims of one pod.

    Attributes
    ----------
    state, policies
        The cluster's state, and the policies in effect for pods.
    rules
        The preemption rules in effect for the preemptor.
    scheduler_names
        The names of this scheduler.
    protected
        Namespaces whose pods are never victims: the one where this scheduler's own replicas run.
    moment
        Unix time (seconds).
    excluded
        Until when pods that have turned out to be no victims are none, by UID, in seconds since 1970.
    """

    state: State
    policies: Policies
    rules: PreemptionRules
    scheduler_names: Collection[str]
    protected: Collection[str]
    moment: float
    excluded: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, pod: Pod) -> VictimVerdict:
        """Tell whether a pod may be a victim."""
        reservation, until = self.state.reservation(pod.uid), self.excluded.get(pod.uid)
        if until is not None and not (pod.deleting and until < math.inf):  # nobody has to evict who ends already
            return VictimVerdict(may_end=False, may_at=until, is_excluded=until < math.inf)
        if reservation is None or not is_evictable(pod, reservation):
            return _MAY_NOT  # whether its end would free the room that is asked for, nobody can tell
        if pod.deleting:
            return _MAY_NOT if self._is_stuck(pod) else _MAY
        return self._may_be_evicted(pod)

    def _is_stuck(self, pod: Pod) -> bool:
        """Tell whether a terminating pod is long overdue, so that it is not waited for."""
        return pod.ends_by is not None and self.moment >= pod.ends_by + GIVEN_UP_AFTER

    def _may_be_evicted(self, pod: Pod) -> VictimVerdict:
        if pod.namespace in self.protected:
            return _MAY_NOT
        if self.rules.victims is VictimScope.OWN and pod.scheduler_name not in self.scheduler_names:
            return _MAY_NOT
        own = self.policies.resolve(pod).preemption
        if not own.preemptible or own.min_runtime == 0.0:
            return _MAY if own.preemptible else _MAY_NOT
        may_at = (self.moment if pod.start_time is None else pod.start_time) + own.min_runtime
        return _MAY if self.moment >= may_at else VictimVerdict(may_end=False, may_at=may_at)


class Exceeded(NamedTuple):
    """A policy that allows fewer evictions now than are needed."""

    key: PolicyKey
    remaining: int
    needed: int


class EvictionLimits:
    """Counts the evictions of the last hour by policy: those recorded in policies, and those decided here since.

    Parameters
    ----------
    policies
        The known policies.
    """

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._decided: dict[_Policy, dict[str, float]] = {}
        """By policy, the Unix time at which each pod was chosen as a victim, by UID."""
        self._evicted: dict[_Policy, dict[str, float]] = {}
        """The same for pods that were evicted; policies may not have recorded them yet."""

    def exceeded(self, rules: PreemptionRules, victims: Collection[str], moment: float) -> Exceeded | None:
        """Return which limit of some rules is exceeded if the victims are evicted now; None if none is.

        Victims that an earlier leader has recorded already are not counted twice.
        """
        found = []
        for key, limit in rules.eviction_limits:
            counting = self._counting(key, moment)
            remaining, needed = limit - len(counting), len(set(victims) - counting.keys())
            if needed > remaining:
                found.append(Exceeded(key, max(remaining, 0), needed))
        return min(found, key=lambda each: each.remaining, default=None)

    def retry_at(self, key: PolicyKey, moment: float) -> float:
        """Return when the oldest eviction that counts for a policy stops counting."""
        return min(self._counting(key, moment).values(), default=moment) + _HOUR

    def used(self, key: PolicyKey, moment: float) -> int:
        """Return how many evictions of the last hour count for a policy."""
        return len(self._counting(key, moment))

    def reserve(self, rules: PreemptionRules, victims: Collection[str], moment: float) -> None:
        """Count pods that are to be evicted; pods that count already are not counted twice."""
        for key, _ in rules.eviction_limits:
            self._decided.setdefault(self._known(key), {}).update(dict.fromkeys(victims, moment))

    def commit(self, victim: str) -> None:
        """Count a pod for good, since it was evicted."""
        for policy, decided in self._decided.items():
            if victim in decided:
                self._evicted.setdefault(policy, {})[victim] = decided.pop(victim)

    def release(self, victims: Iterable[str]) -> None:
        """Stop counting pods that were not evicted after all."""
        for uid in victims:
            for decided in self._decided.values():
                decided.pop(uid, None)

    def reserved(self) -> dict[_Policy, dict[str, float]]:
        """Return the victims that are counted but not evicted yet, for :meth:`restore`."""
        return {policy: dict(victims) for policy, victims in self._decided.items()}

    def restore(self, decided: dict[_Policy, dict[str, float]]) -> None:
        """Restore a value of :meth:`reserved`."""
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
