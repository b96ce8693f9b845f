"""Forecast when waiting pods are placed, from many draws: possible futures, each replayed by an engine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from math import inf
from typing import Final

import msgspec
import numpy as np

from vgpu_scheduler.engine import Engine, EngineOptions, queue_key
from vgpu_scheduler.forecast.answers import PROBABILITY, Forecast, NoForecast
from vgpu_scheduler.forecast.current_cluster import CurrentCluster, RunningPod
from vgpu_scheduler.forecast.durations import Duration, DurationClass, Durations
from vgpu_scheduler.forecast.workload_history import WorkloadHistory
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.groups import membership as membership_of
from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, History, HistoryEvent, replay
from vgpu_scheduler.history.virtual import POD, VirtualCluster
from vgpu_scheduler.kube import Pod, rfc3339
from vgpu_scheduler.model import Outcome, counted
from vgpu_scheduler.predicates import gated

_ROUNDS: Final = (9, 10, 10, 20, 50)
"""The number of draws per round: of 10 k - 1 draws in all, 8 in 10 lie between the k-th and the k-th last."""
BUDGET: Final = 50_000
"""The limit of moments, decisions and objects of all draws; a round starts only if it likely stays within it."""
_HORIZON: Final = 30 * 86400.0
"""The longest draw in seconds."""
_MOST_ARRIVALS: Final = 2_000
"""The most arrivals in a draw, which ends earlier if there would be more."""
_SOMEWHERE: Final = "-"
_FEWEST_ENDED: Final = 5
"""The least number of known durations for a range; with fewer, all draws would repeat them."""


def forecast(
    present: CurrentCluster,
    past: WorkloadHistory,
    options: EngineOptions,
    asked: Sequence[Pod],
    seed: int = 0,
    budget: int = BUDGET,
    on_draw: Callable[[int], None] = lambda _: None,
) -> dict[str, Forecast | NoForecast]:
    """Return how much longer pods wait.

    Parameters
    ----------
    options
        The options for an engine of their scheduler.
    asked
        Pods without a node.
    seed
        The random seed.
    budget, on_draw
        See :func:`replay_waits`.

    Returns
    -------
    dict
        The forecasts by UID; deterministic.
    """
    empty = _empty(present, options)
    found: dict[str, Forecast | NoForecast] = {}
    for pod in asked:
        if why := _why_not(pod, present, empty):
            found[pod.uid] = NoForecast(why)
    told = [pod for pod in asked if pod.uid not in found]
    alike = _AlikePods(present.waiting)
    simulated = replay_waits(present, past, options, alike.up_to(told), seed, budget, on_draw)
    ranges = alike.ranges(told, present.at, simulated, past)
    return found | {pod.uid: _answer(pod, ranges, present, simulated, past) for pod in told}


class _AlikePods:
    """The waiting pods by request; of pods with equal requests, none is placed before an earlier one.

    Parameters
    ----------
    waiting
        All waiting pods; those with scheduling gates are ignored.
    """

    def __init__(self, waiting: Sequence[Pod]) -> None:
        self._pods: defaultdict[Hashable, list[Pod]] = defaultdict(list)
        for pod in waiting:
            if gated(pod) is None:
                self._pods[_request(pod)].append(pod)

    def up_to(self, asked: Sequence[Pod]) -> list[str]:
        """Return the UIDs of some pods, and of the pods with equal requests ahead of them."""
        last: dict[Hashable, tuple[float, float]] = {}
        for pod in asked:
            last[_request(pod)] = max(last.get(_request(pod), _rank(pod)), _rank(pod))
        before = (each.uid for key, rank in last.items() for each in self._pods[key] if _rank(each) < rank)
        return list(dict.fromkeys((*(pod.uid for pod in asked), *before)))

    def ranges(
        self, asked: Sequence[Pod], now: float, simulated: SimulatedWaits, past: WorkloadHistory
    ) -> dict[str, tuple[float, float]]:
        """Return the ranges of further waits in seconds, none below that of an equal pod ahead in the queue.

        Each pod is processed once, however many have equal requests.
        """
        found: dict[str, tuple[float, float]] = {}
        for key in dict.fromkeys(map(_request, asked)):
            least = most = 0.0
            followed = (pod for pod in sorted(self._pods[key], key=_rank) if pod.uid in simulated.waits)
            for _, pods in groupby(followed, _rank):
                for pod in pods:
                    own = _range(pod, now, simulated, past)
                    found[pod.uid] = max(own[0], least), max(own[1], most)
                    reached = own if own[0] < inf else (0.0, 0.0)
                least, most = max(least, reached[0]), max(most, reached[1])
        return found


def _request(pod: Pod) -> Hashable:
    """Return a key that is equal for pods with equal requests, quotas and policies."""
    texts = (tuple(sorted(each.items())) for each in (pod.labels, pod.annotations))
    return (pod.spec.fingerprint, pod.namespace, pod.scheduler_name, *texts)


def _rank(pod: Pod) -> tuple[int, float]:
    """Return the sort key of a pod in queue order.

    It uses the pod's own priority, not its group's, which is precise enough for random draws.
    """
    return queue_key(pod, pod.priority)


def _empty(present: CurrentCluster, options: EngineOptions) -> Engine:
    """Return an engine with the state of a cluster without its running pods."""
    cluster = VirtualCluster(options)
    for each in present.objects:
        cluster.observe(each.kind, each.value, present.at)
    for pod in present.waiting:
        cluster.observe(POD, pod, present.at)
    return cluster.engine


def _why_not(pod: Pod, present: CurrentCluster, empty: Engine) -> str:
    """Say why a pod's wait cannot be known in any future; empty if it may be."""
    if gated(pod) is not None:
        return "it is not tried before its scheduling gates are removed, and when that happens is not known"
    if pod.scheduler_name not in empty.scheduler_names:
        return f"{pod.scheduler_name} places it, and how that scheduler decides is not known"
    if all(pod.uid != each.uid for each in present.waiting):
        return "it does not wait to be placed"
    group = _group(pod)
    status = empty.groups.incomplete_status(pod)
    if status is not None and sum(_group(each) == group for each in present.pods()) < status.minimum:
        return f"pods of its group {group} do not exist yet, and when they will be created is not known"
    if empty.groups.key_of(pod.uid) is not None or pod.spec.required_pod_affinity:
        return ""  # it may need running pods, so the draws have to tell
    would_fit = empty.attempts.dry_run(pod, explain=False).outcome is Outcome.PLACED
    return "" if would_fit else "it would fit nowhere, even if no pod ran"


@dataclass(slots=True)
class SimulatedWaits:
    """The results of all draws for some pods.

    Attributes
    ----------
    waits
        The further waits of each pod, sorted, by UID; infinity if it was not placed within the draw.
    known_from
        How often an end was drawn from each class of pods, and from how many ended pods.
    ended
        How often a running pod was drawn to end.
    unending
        How often a waiting pod was placed with an unknown end, by UID.
    preempting
        How often pods were preempted now for a waiting pod, or for another pod of its group, by UID.
    """

    waits: dict[str, list[float]]
    known_from: Counter[tuple[DurationClass, int]] = field(default_factory=Counter)
    ended: int = 0
    unending: Counter[str] = field(default_factory=Counter)
    preempting: Counter[str] = field(default_factory=Counter)

    @property
    def mostly_from(self) -> tuple[DurationClass | None, int]:
        """The most frequent class, and its number of ended pods; None if all running pods are being deleted."""
        if not self.known_from:
            return None, 0
        return max(self.known_from.items(), key=lambda each: (each[1], each[0][1]))[0]


def replay_waits(
    present: CurrentCluster,
    past: WorkloadHistory,
    options: EngineOptions,
    asked: Sequence[str],
    seed: int = 0,
    budget: int = BUDGET,
    on_draw: Callable[[int], None] = lambda _: None,
) -> SimulatedWaits:
    """Replay possible futures, and return how long pods waited in each.

    Parameters
    ----------
    budget
        See :data:`BUDGET`: large clusters and long waits get fewer draws, but at least 9.
    on_draw
        Called before each draw with its number; an exception from it ends the forecast.
    """
    rate = past.per_second
    horizon = min(_HORIZON, _MOST_ARRIVALS / rate) if rate else _HORIZON
    found = SimulatedWaits({uid: [] for uid in asked})
    options = replace(options, flush_after=_HORIZON)  # a replay misses no event, so pods need no periodic retry
    objects = len(present.objects) + len(present.running) + len(present.waiting)
    drawn = spent = 0
    for size in _ROUNDS if asked else ():
        if drawn and spent + spent / drawn * size > budget:
            break
        for number in range(drawn, drawn + size):
            on_draw(number)
            rng = np.random.default_rng((seed, number))
            future, unending = _drawn(present, past, horizon, rng, found)
            most = budget / _ROUNDS[0]
            result = replay(future, options, asked=asked, most_work=most)
            spent += objects + result.work
            preemptors = {each.preemptor for each in result.evictions if each.at <= present.at}
            found.preempting.update(_with_groups(preemptors, present.waiting))
            for pod in result.pods:
                found.unending[pod.uid] += pod.uid in unending and pod.started is not None
                if pod.uid in found.waits:
                    found.waits[pod.uid].append(inf if pod.started is None else pod.started - present.at)
        drawn += size
    for each in found.waits.values():
        each.sort()
    return found


def _drawn(
    present: CurrentCluster, past: WorkloadHistory, horizon: float, rng: np.random.Generator, found: SimulatedWaits
) -> tuple[History, set[str]]:
    """Draw a possible future; also return the UIDs of waiting pods with an unknown end."""
    now, durations = present.at, past.durations
    first: list[Changed | Arrived] = list(present.objects)
    events: list[HistoryEvent] = []
    unending: set[str] = set()
    for each in present.running:
        first.append(Changed(now, POD, each.pod))
        rest = _rest(each, now, durations, rng)
        if rest.seconds < inf:
            events.append(Departed(now + rest.seconds, each.pod.uid))
            found.ended += 1
        if rest.known_from is not None:
            found.known_from[rest.known_from, durations.ended(each.pod, rest.known_from)] += 1
    for pod in present.waiting:
        first.append(Arrived(now, pod))
        runs_for = durations.draw(pod, 0.0, rng).seconds
        unending |= {pod.uid} if runs_for == inf else set()
        events += _run_events(now, pod, runs_for)
    groups = {_group(pod) for pod in (*present.waiting, *(each.pod for each in present.running))} - {None}
    for coming in past.draw(horizon, rng):
        if _group(coming.pod) in groups:
            continue  # a new pod must not complete a group of existing pods
        at = now + coming.after
        pod = msgspec.structs.replace(coming.pod, creation_timestamp=rfc3339(datetime.fromtimestamp(at, UTC)))
        events += [Arrived(at, pod), *_run_events(at, pod, coming.runs)]
    events.sort(key=lambda event: event.at)
    return History(now, now + horizon, tuple(first), tuple(events)), unending


def _group(pod: Pod) -> GroupKey | None:
    """Return the group that a pod declares; None without one."""
    membership = membership_of(pod)
    return None if membership is None else membership.key


def _with_groups(names: Collection[str], waiting: Sequence[Pod]) -> list[str]:
    """Return the UIDs of the waiting pods of these names, and of all others of their groups."""
    groups = {_group(pod) for pod in waiting if pod.key in names} - {None}
    return [pod.uid for pod in waiting if pod.key in names or _group(pod) in groups] if names else []


def _rest(running: RunningPod, now: float, durations: Durations, rng: np.random.Generator) -> Duration:
    rest = durations.draw(running.pod, now - running.placed, rng)
    if running.pod.deleting and running.pod.ends_by is not None:
        return Duration(max(running.pod.ends_by - now, 0.0), None)
    return rest


def _run_events(placed: float, pod: Pod, seconds: float) -> list[HistoryEvent]:
    """Return the events that give a pod its duration once it is placed."""
    departs = [] if seconds == inf else [Departed(placed + seconds, pod.uid)]
    return [Decided(placed, pod.uid, _SOMEWHERE), *departs]


def beside_past(drawn: Sequence[float], past: WorkloadHistory, waited: float) -> list[float]:
    """Return simulated waits mixed with observed ones, which make up a quarter of the sample, sorted.

    The observed waits are the further waits of pods that had waited as long; if these are too few, only simulated waits
    are returned. Simulations use the present queue and cards, while observations include what is not modelled, such as
    pods that arrive together and end together. Ranges from either alone hold less often than their probability.

    Parameters
    ----------
    drawn
        The simulated waits in seconds, sorted.
    waited
        The seconds that the pod has waited.
    """
    return sorted([*drawn, *past.rest_of_waits(waited, max(round(len(drawn) / 3), 1))])


def _answer(
    pod: Pod,
    ranges: Mapping[str, tuple[float, float]],
    present: CurrentCluster,
    simulated: SimulatedWaits,
    past: WorkloadHistory,
) -> Forecast | NoForecast:
    """Return the forecast of a pod from the draws and the past."""
    found = simulated.waits[pod.uid]
    if interval(found)[1] == 0.0:
        if simulated.preempting[pod.uid]:
            return NoForecast("pods must end for it first, and how long that takes is not known")
        return Forecast(0.0, 0.0, draws=len(found))
    if why := _why_unknown(pod, present, simulated, past):
        return NoForecast(why)
    least, most = ranges[pod.uid]
    of_whom, pods = simulated.mostly_from
    return Forecast(least, most, draws=len(found), pods=pods, known_from=of_whom)


def _why_unknown(pod: Pod, present: CurrentCluster, simulated: SimulatedWaits, past: WorkloadHistory) -> str:
    """Say why there is no range for a pod that does not fit now; empty if there is one."""
    found, (of_whom, known) = simulated.waits[pod.uid], simulated.mostly_from
    if interval(found)[0] < inf:
        if of_whom is None or known >= _FEWEST_ENDED:
            return ""
        return f"it does not fit now, and the run time of fewer than {_FEWEST_ENDED} pods is known"
    if not past.durations:
        return "it does not fit now, and the run time of no pod is known"
    if not simulated.ended:
        return "it does not fit now, and when a running pod will end cannot be estimated"
    never = sum(wait == inf for wait in found)
    told = f"in {never} of {len(found)} simulated futures it is not placed within the simulated time"
    unknown = sum(simulated.unending[each.uid] == len(found) for each in _served_before(pod, present.waiting))
    if unknown:
        are, they = ("is", "it") if unknown == 1 else ("are", "they")
        told += f": {counted(unknown, 'pod')} {are} served before it, and how long {they} will run is not known"
    return told


def _range(pod: Pod, now: float, simulated: SimulatedWaits, past: WorkloadHistory) -> tuple[float, float]:
    """Return the range of a pod's further wait in seconds, from its own simulated and observed waits."""
    waited = 0.0 if pod.created_at is None else max(now - pod.created_at, 0.0)
    return interval(beside_past(simulated.waits[pod.uid], past, waited))


def _served_before(pod: Pod, waiting: Sequence[Pod]) -> list[Pod]:
    """Return the pods of higher priority, and those of equal priority that are as old or older.

    Pods of its own group are left out, since they are placed with it.
    """
    rank, group = _rank(pod), _group(pod)
    others = (each for each in waiting if each.uid != pod.uid and (group is None or _group(each) != group))
    return [each for each in others if _rank(each) <= rank]


def interval(found: Sequence[float], probability: float = PROBABILITY) -> tuple[float, float]:
    """Return the range that contains a further draw with a given probability.

    Parameters
    ----------
    found
        The drawn values, sorted.
    """
    place = max(int((len(found) + 1) * (1.0 - probability) / 2 + 1e-9), 1)
    return found[place - 1], found[len(found) - place]
