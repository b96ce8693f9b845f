"""When waiting pods are placed, in courses that may come: each is drawn, and replayed by an engine of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from math import inf
from typing import Final

import msgspec
import numpy as np

from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.forecast.answers import PROBABILITY, Forecast, NoForecast
from vgpu_scheduler.forecast.current_cluster import CurrentCluster, RunningPod
from vgpu_scheduler.forecast.durations import Duration, DurationClass, Durations
from vgpu_scheduler.forecast.workload_history import WorkloadHistory
from vgpu_scheduler.groups import GroupKey, membership
from vgpu_scheduler.history import Arrived, Changed, Decided, Departed, Event, History, replay
from vgpu_scheduler.history.virtual import POD, VirtualCluster
from vgpu_scheduler.kube import Pod, rfc3339
from vgpu_scheduler.model import Outcome, counted
from vgpu_scheduler.predicates import gated

__all__ = ["BUDGET", "beside_past", "forecast", "interval", "replay_waits"]

_ROUNDS: Final = (9, 10, 10, 20, 50)
"""How many courses are drawn at a time: with 10 k - 1 in all, 8 of 10 are between the k-th and the k-th last."""
BUDGET: Final = 50_000
"""How many moments, decisions and objects all courses have together: another round is drawn if what is left will do."""
_HORIZON: Final = 30 * 86400.0
"""Seconds that a course lasts at most."""
_MOST_ARRIVALS: Final = 2_000
"""Pods that arrive in a course at most: it ends earlier where more would."""
_SOMEWHERE: Final = "-"
_FEWEST_ENDED: Final = 5
"""From the lifetimes of fewer pods no range is told: the same few would be all that is drawn."""


def forecast(
    present: CurrentCluster,
    past: WorkloadHistory,
    options: EngineOptions,
    asked: Sequence[Pod],
    seed: int = 0,
    budget: int = BUDGET,
    on_course: Callable[[int], None] = lambda _: None,
) -> dict[str, Forecast | NoForecast]:
    """Return how much longer pods wait.

    Parameters
    ----------
    options
        What an engine of their scheduler is made from.
    asked
        Pods that are bound nowhere.
    seed
        What is drawn.
    budget, on_course
        See :func:`replay_waits`.

    Returns
    -------
    dict
        By UID, the same each time.
    """
    empty = _empty(present, options)
    found: dict[str, Forecast | NoForecast] = {}
    for pod in asked:
        if why := _why_not(pod, present, empty):
            found[pod.uid] = NoForecast(why)
    told = [pod for pod in asked if pod.uid not in found]
    alike = _AlikePods(present.waiting)
    courses = replay_waits(present, past, options, alike.up_to(told), seed, budget, on_course)
    ranges = alike.ranges(told, present.at, courses, past)
    return found | {pod.uid: _answer(pod, ranges, present, courses, past) for pod in told}


class _AlikePods:
    """The pods that wait, by what they ask for: of those that ask for the same none is placed before an earlier one.

    Parameters
    ----------
    waiting
        All of them; those with gates are not tried.
    """

    def __init__(self, waiting: Sequence[Pod]) -> None:
        self._pods: defaultdict[Hashable, list[Pod]] = defaultdict(list)
        for pod in waiting:
            if gated(pod) is None:
                self._pods[_request(pod)].append(pod)

    def up_to(self, asked: Sequence[Pod]) -> list[str]:
        """Return the UIDs of some pods, and of those that ask for the same and are served before."""
        last: dict[Hashable, tuple[float, float]] = {}
        for pod in asked:
            last[_request(pod)] = max(last.get(_request(pod), _rank(pod)), _rank(pod))
        before = (each.uid for key, rank in last.items() for each in self._pods[key] if _rank(each) < rank)
        return list(dict.fromkeys((*(pod.uid for pod in asked), *before)))

    def ranges(
        self, asked: Sequence[Pod], now: float, courses: SimulatedWaits, past: WorkloadHistory
    ) -> dict[str, tuple[float, float]]:
        """Return between how many seconds more pods wait: no less than those that are served before them.

        Each is looked at once, however many ask for the same.
        """
        found: dict[str, tuple[float, float]] = {}
        for key in dict.fromkeys(map(_request, asked)):
            least = most = 0.0
            followed = (pod for pod in sorted(self._pods[key], key=_rank) if pod.uid in courses.waits)
            for _, pods in groupby(followed, _rank):
                for pod in pods:
                    own = _range(pod, now, courses, past)
                    found[pod.uid] = max(own[0], least), max(own[1], most)
                    reached = own if own[0] < inf else (0.0, 0.0)
                least, most = max(least, reached[0]), max(most, reached[1])
        return found


def _request(pod: Pod) -> Hashable:
    """Return what is equal for pods that ask for the same of the same quotas and policies."""
    texts = (tuple(sorted(each.items())) for each in (pod.labels, pod.annotations))
    return (pod.spec.fingerprint, pod.namespace, pod.scheduler_name, *texts)


def _rank(pod: Pod) -> tuple[float, float]:
    """Return what pods are served by: the smallest first."""
    return -pod.priority, pod.created_at or 0.0


def _empty(present: CurrentCluster, options: EngineOptions) -> Engine:
    """Return what is known of a cluster without the pods that run there."""
    cluster = VirtualCluster(options)
    for each in present.objects:
        cluster.observe(each.kind, each.value, present.at)
    for pod in present.waiting:
        cluster.observe(POD, pod, present.at)
    return cluster.engine


def _why_not(pod: Pod, present: CurrentCluster, empty: Engine) -> str:
    """Say why it cannot be known how long a pod waits, whatever may come; empty where it may be."""
    if gated(pod) is not None:
        return "it is not tried before its scheduling gates go, and nobody knows when they do"
    if pod.scheduler_name not in empty.scheduler_names:
        return f"{pod.scheduler_name} is to place it, and what that does is not known"
    if all(pod.uid != each.uid for each in present.waiting):
        return "it does not wait to be placed"
    group = _group(pod)
    status = empty.groups.incomplete_status(pod)
    if status is not None and sum(_group(each) == group for each in present.pods()) < status.minimum:
        return f"pods of its group {group} are still to be created, and nobody knows when they are"
    if empty.groups.key_of(pod.uid) is not None or pod.spec.required_pod_affinity:
        return ""  # it may need those that run: the courses tell
    would_fit = empty.attempts.ask(pod, explain=False).outcome is Outcome.PLACED
    return "" if would_fit else "as it is, it would fit nowhere even if no pod ran"


@dataclass(slots=True)
class SimulatedWaits:
    """What came of some pods in all courses.

    Attributes
    ----------
    waits
        How much longer each waited, sorted, by UID; infinity where it had no place in time.
    known_from
        Whose lifetimes, and of how many pods, said when pods end, and how often.
    ended
        How often a pod that runs now was to end.
    unending
        How often a pod that waits now ran and was not to end, since nobody can say when, by UID.
    """

    waits: dict[str, list[float]]
    known_from: Counter[tuple[DurationClass, int]] = field(default_factory=Counter)
    ended: int = 0
    unending: Counter[str] = field(default_factory=Counter)

    @property
    def mostly_from(self) -> tuple[DurationClass | None, int]:
        """Whose lifetimes said most often when pods end, and of how many pods; None where all are being deleted."""
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
    on_course: Callable[[int], None] = lambda _: None,
) -> SimulatedWaits:
    """Replay courses that may come, and return how long pods waited in each.

    Parameters
    ----------
    budget
        See :data:`BUDGET`: in a large cluster, and where pods wait long, there are fewer courses, never less than 9.
    on_course
        Is called before each course with its number; what it raises ends all.
    """
    rate = past.per_second
    horizon = min(_HORIZON, _MOST_ARRIVALS / rate) if rate else _HORIZON
    found = SimulatedWaits({uid: [] for uid in asked})
    options = replace(options, flush_after=_HORIZON)  # no event is missed here
    objects = len(present.objects) + len(present.running) + len(present.waiting)
    drawn = spent = 0
    for size in _ROUNDS if asked else ():
        if drawn and spent + spent / drawn * size > budget:
            break
        for number in range(drawn, drawn + size):
            on_course(number)
            rng = np.random.default_rng((seed, number))
            future, unending = _drawn(present, past, horizon, rng, found)
            most = budget / _ROUNDS[0]
            course = replay(future, options, asked=asked, most_work=most)
            spent += objects + course.work
            for pod in course.pods:
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
    """Return what may happen from now on, and the UIDs of the pods that wait and would not end."""
    now, durations = present.at, past.durations
    first: list[Changed | Arrived] = list(present.objects)
    events: list[Event] = []
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
        stays = durations.draw(pod, 0.0, rng).seconds
        unending |= {pod.uid} if stays == inf else set()
        events += _stay(now, pod, stays)
    groups = {_group(pod) for pod in (*present.waiting, *(each.pod for each in present.running))} - {None}
    for coming in past.draw(horizon, rng):
        if _group(coming.pod) in groups:
            continue  # nobody comes to a group of pods that are here: that would complete it
        at = now + coming.after
        pod = msgspec.structs.replace(coming.pod, creation_timestamp=rfc3339(datetime.fromtimestamp(at, UTC)))
        events += [Arrived(at, pod), *_stay(at, pod, coming.runs)]
    events.sort(key=lambda event: event.at)
    return History(now, now + horizon, tuple(first), tuple(events)), unending


def _group(pod: Pod) -> GroupKey | None:
    """Return the group that a pod says it is of; None for one that says none."""
    said = membership(pod)
    return None if said is None else said.key


def _rest(running: RunningPod, now: float, durations: Durations, rng: np.random.Generator) -> Duration:
    rest = durations.draw(running.pod, now - running.placed, rng)
    if running.pod.deleting and running.pod.ends_by is not None:
        return Duration(max(running.pod.ends_by - now, 0.0), None)
    return rest


def _stay(placed: float, pod: Pod, seconds: float) -> list[Event]:
    """Return what makes a pod stay for so long, from when it is placed."""
    departs = [] if seconds == inf else [Departed(placed + seconds, pod.uid)]
    return [Decided(placed, pod.uid, _SOMEWHERE), *departs]


def beside_past(drawn: Sequence[float], past: WorkloadHistory, waited: float) -> list[float]:
    """Return simulated waits together with observed ones, which are a quarter of the sample, sorted.

    Observed are the remaining waits of pods that had waited for as long; where these are too few, the simulated waits
    stay alone. Simulations know the queue and the cards as they are. What they do not know, as that pods which came
    together end together, is in what was observed. Ranges of either alone hold less often than they say.

    Parameters
    ----------
    drawn
        The simulated waits, seconds, sorted.
    waited
        Seconds that the pod has waited.
    """
    return sorted([*drawn, *past.rest_of_waits(waited, max(round(len(drawn) / 3), 1))])


def _answer(
    pod: Pod,
    ranges: Mapping[str, tuple[float, float]],
    present: CurrentCluster,
    courses: SimulatedWaits,
    past: WorkloadHistory,
) -> Forecast | NoForecast:
    """Return what the courses say of a pod, and the past."""
    found = courses.waits[pod.uid]
    if interval(found)[1] == 0.0:
        return Forecast(0.0, 0.0, draws=len(found))
    if why := _why_unknown(pod, present, courses, past):
        return NoForecast(why)
    least, most = ranges[pod.uid]
    of_whom, pods = courses.mostly_from
    return Forecast(least, most, draws=len(found), pods=pods, known_from=of_whom)


def _why_unknown(pod: Pod, present: CurrentCluster, courses: SimulatedWaits, past: WorkloadHistory) -> str:
    """Say why no range can be told of a pod that does not fit now; empty where one can."""
    found, (of_whom, known) = courses.waits[pod.uid], courses.mostly_from
    if interval(found)[0] < inf:
        if of_whom is None or known >= _FEWEST_ENDED:
            return ""
        return f"it does not fit now, and of fewer than {_FEWEST_ENDED} pods is it known how long they ran"
    if not past.durations:
        return "it does not fit now, and of no pod is it known how long it ran"
    if not courses.ended:
        return "it does not fit now, and nobody can say of any pod that runs when it ends"
    never = sum(wait == inf for wait in found)
    told = f"in {never} of {len(found)} courses that may come it has no place, as far as these were followed"
    unknown = sum(courses.unending[each.uid] == len(found) for each in _served_before(pod, present.waiting))
    if unknown:
        are = "is" if unknown == 1 else "are"
        told += f": nobody can say how long {counted(unknown, 'pod')} will run that {are} served before it"
    return told


def _range(pod: Pod, now: float, courses: SimulatedWaits, past: WorkloadHistory) -> tuple[float, float]:
    """Return between how many seconds more a pod waits, as far as what was drawn and observed for itself says."""
    waited = 0.0 if pod.created_at is None else max(now - pod.created_at, 0.0)
    return interval(beside_past(courses.waits[pod.uid], past, waited))


def _served_before(pod: Pod, waiting: Sequence[Pod]) -> list[Pod]:
    """Return the pods of higher priority, and those of the same that came earlier or at the same time.

    Those of its group are placed with it.
    """
    rank, group = _rank(pod), _group(pod)
    others = (each for each in waiting if each.uid != pod.uid and (group is None or _group(each) != group))
    return [each for each in others if _rank(each) <= rank]


def interval(found: Sequence[float], probability: float = PROBABILITY) -> tuple[float, float]:
    """Return the range that holds one more of what is drawn, with a probability.

    Parameters
    ----------
    found
        What was drawn, sorted.
    """
    place = max(int((len(found) + 1) * (1.0 - probability) / 2 + 1e-9), 1)
    return found[place - 1], found[len(found) - place]
