"""How often the ranges hold that are forecast for waiting pods, and how wide they are.

The pods of the trace openb, with the times at which they came and as long as they ran, are played on a fleet so small
that they have to wait. Now and then it is asked how long pods will wait, from what was known then, and the ranges are
compared with what came. What is chosen is chosen in the first part of the time, what is told is of the last part. The
trace is not part of this repository: ``OPENB_DATA``, or ``--data``, names the folder with its lists; see
``benchmarks.packing``.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from benchmarks.packing import DATA
from benchmarks.page import publish
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.forecast import CurrentCluster, WorkloadHistory, present_of
from vgpu_scheduler.forecast.survival import Survival
from vgpu_scheduler.forecast.waiting import beside_past, interval, replay_waits
from vgpu_scheduler.history import (
    Arrived,
    Changed,
    Decided,
    Departed,
    History,
    HistoryEvent,
    ReplayedPod,
    ReplayResult,
    as_bound,
    replay,
)
from vgpu_scheduler.history.virtual import POD
from vgpu_scheduler.kube import Pod, decode_node, rfc3339
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.traces import Fleet, TraceNode, parse_pods
from vgpu_scheduler.whatif.traces.placing import node_object, pod_object
from vgpu_scheduler.whatif.world.options import plain_options

MARK: Final = "<!-- forecast -->"
LIST: Final = "openb_pod_list_default.csv"
CARDS: Final = (8, 8, 8, 8, 8)
"""Those of the nodes of the fleet."""
DAY: Final = 86400.0
EPOCH: Final = 1_600_000_000.0
"""When the times of the trace begin."""
RECORDED: Final = 115.9 * DAY
"""From when on the trace has the pods that ended: of those that came before, it has only those that still ran then."""
LEARNS: Final = (122 * DAY, 139 * DAY)
"""From when to when what is chosen is chosen: three quarters of the pods have come by its end."""
TOLD: Final = (139 * DAY, 148.5 * DAY)
"""From when to when it is asked for the table; after that the trace ends, and too few come."""
TARGET: Final = 0.8
"""How many ranges are to hold."""
CAME, WAITS = "has just come", "has waited"
"""Which pods are asked about: those that came a moment ago, or one of those that wait at a time that was drawn."""
OPTIONS: Final = plain_options("hami")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: how much longer a pod waits.

    Attributes
    ----------
    when
        ``came``: it has just come; ``waits``: it is one that waits at a time that was drawn.
    at
        Seconds since the epoch.
    waited, wait
        How long it has waited, and will; infinity where it waited still when the trace ended.
    drawn
        What is forecast: the waits in all draws, sorted.
    """

    when: str
    at: float
    pod: Pod
    waited: float
    wait: float
    drawn: Sequence[float] = ()


def trace_of(folder: Path) -> tuple[World, History]:
    """Return the pods of the trace that ask for cards, as they came and went, on a fleet."""
    text = (folder / LIST).read_text()
    rows = list(csv.DictReader(text.splitlines()))
    last = max(int(row["deletion_time"]) for row in rows)
    world, events = World(OPTIONS), list[HistoryEvent]()
    for asks, row in zip(parse_pods(text, LIST), rows, strict=True):
        if not asks.cards:
            continue
        came, went = EPOCH + int(row["creation_time"]), EPOCH + int(row["deletion_time"])
        written = world.pod(pod_object(replace(asks, models=())))
        created = rfc3339(datetime.fromtimestamp(came, UTC))
        pod = msgspec.structs.replace(
            written, uid=row["name"], name=row["name"], namespace=row["qos"].lower(), creation_timestamp=created
        )
        events += [Arrived(came, pod), Decided(came, pod.uid, "-")]
        if int(row["deletion_time"]) < last:  # else it still ran when the trace was taken
            events.append(Departed(max(went, came + 1), pod.uid))
    fleet = Fleet([TraceNode(f"node-{n}", 16_000 * n_, 98_304 * n_, ("G2",) * n_) for n, n_ in enumerate(CARDS)])
    nodes = [decode_node(node_object(world.cards, number, node)) for number, node in enumerate(fleet.nodes)]
    events.sort(key=lambda event: event.at)
    first = tuple(Changed(EPOCH, "Node", node) for node in nodes)
    return world, History(EPOCH, EPOCH + 200 * DAY, first, tuple(events))


def happened(result: ReplayResult, trace: History) -> list[HistoryEvent]:
    """Return what a leader would have written down, in the order of time."""
    pods = {event.pod.uid: event.pod for event in trace.arrived}
    events: list[HistoryEvent] = []
    for each in result.pods:
        events.append(Arrived(each.arrived, pods[each.uid]))
        events += [] if each.started is None else [Decided(each.started, each.uid, each.node)]
        events += [] if each.departed is None else [Departed(each.departed, each.uid)]
    return sorted(events, key=lambda event: event.at)


def running_then(events: Sequence[HistoryEvent]) -> tuple[Changed, ...]:
    """Return the pods that run when the log begins."""
    began, pods, found = EPOCH + RECORDED, dict[str, Pod](), dict[str, Changed]()
    for event in events:
        if event.at >= began:
            break
        if isinstance(event, Arrived):
            pods[event.pod.uid] = event.pod
        elif isinstance(event, Decided):
            found[event.uid] = Changed(began, POD, as_bound(pods[event.uid], event))
        elif isinstance(event, Departed):
            found.pop(event.uid, None)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Moment:
    """A time at which is asked how long pods wait.

    Attributes
    ----------
    asked
        The UIDs of the pods, with why.
    """

    present: CurrentCluster
    asked: Sequence[tuple[str, str]]


class Watching:
    """Looks on while the trace is played, and keeps the cluster of each time at which is asked.

    Parameters
    ----------
    times
        When it is asked about a pod that waits, one drawn among those that were not asked about so yet.
    every
        Of pods that have just come and wait, it is asked about each so many-th.
    """

    def __init__(self, times: Iterable[float], every: int, seed: int) -> None:
        self.moments: list[Moment] = []
        self._times = sorted(times, reverse=True)
        self._every = every
        self._came: set[str] = set()
        self._waits: set[str] = set()
        self._number = 0
        self._rng = np.random.default_rng(seed)

    def __call__(self, at: float, engine: Engine) -> None:
        """Look at the cluster after something happened."""
        asked = []
        waiting = [uid for uid, _ in engine.queue.waiting_since()]
        others = [uid for uid in waiting if uid not in self._waits]
        if others and self._times and self._times[-1] <= at:
            asked.append((others[int(self._rng.integers(len(others)))], WAITS))
            self._waits.add(asked[-1][0])
        while self._times and self._times[-1] <= at and (others or self._times[-1] < at - DAY / 24):
            self._times.pop()  # where nobody waits it is asked as soon as somebody does, within an hour
        for uid in waiting:
            if uid not in self._came:
                self._came.add(uid)
                self._number += 1
                if self._number % self._every == 0:
                    asked.append((uid, CAME))
        if asked and LEARNS[0] <= at - EPOCH < TOLD[1]:
            self.moments.append(Moment(present_of(engine, at), asked))


class Asking:
    """Answers what was asked, from what was known then.

    Parameters
    ----------
    events
        All that happened.
    """

    def __init__(self, moments: Sequence[Moment], events: Sequence[HistoryEvent], result: ReplayResult) -> None:
        self.moments = moments
        self._first = running_then(events)
        self._events = [event for event in events if event.at >= EPOCH + RECORDED]
        self._times = [event.at for event in self._events]
        self._pods = {each.uid: each for each in result.pods}

    def answers(self, number: int) -> list[Asked]:
        """Return what is forecast at a moment, and what came."""
        moment = self.moments[number]
        at = moment.present.at
        known = History(EPOCH + RECORDED, at, self._first, tuple(self._events[: bisect_right(self._times, at)]))
        uids = list(dict.fromkeys(uid for uid, _ in moment.asked))
        past = WorkloadHistory(known)
        found = replay_waits(moment.present, past, OPTIONS, uids, number)
        pods = {pod.uid: pod for pod in moment.present.waiting}
        answers = []
        for uid, when in moment.asked:
            result = self._pods[uid]
            waited, wait = at - result.arrived, (inf if result.started is None else result.started) - at
            answers.append(Asked(when, at, pods[uid], waited, wait, beside_past(found.waits[uid], past, waited)))
        return answers


class PlainHistory:
    """What the plain history of waiting times says: how long pods waited that had waited as long.

    Parameters
    ----------
    result
        What became of all pods.
    days
        Of how many days the waiting times count.
    by_request
        Whether those of the same namespace and request count alone, where 20 are known.
    """

    def __init__(self, result: ReplayResult, trace: History, days: float, *, by_request: bool) -> None:
        self._pods = result.pods
        self._days = days
        self._by_request = by_request
        self._key = {event.pod.uid: (event.pod.namespace, event.pod.spec.fingerprint) for event in trace.arrived}

    def drawn(self, asked: Asked, draws: int = 199) -> list[float]:
        """Return the waits that it expects, as a forecast does."""
        since = asked.at - self._days * DAY
        known = [each for each in self._pods if since <= each.arrived < asked.at and each.uid != asked.pod.uid]
        own = self._key[asked.pod.uid]
        survival = self._survival(known, asked.at)
        if self._by_request:
            alike = self._survival([each for each in known if self._key[each.uid] == own], asked.at)
            survival = alike if alike.outlived(asked.waited) >= 20 else survival
        return sorted(survival.rest(asked.waited, 1.0 - (n + 1) / (draws + 1)) for n in range(draws))

    @staticmethod
    def _survival(known: Sequence[ReplayedPod], at: float) -> Survival:
        until = [min(at if each.started is None else each.started, at) - each.arrived for each in known]
        ended = [each.started is not None and each.started <= at for each in known]
        return Survival([wait for wait in until if wait > 0], [e for e, w in zip(ended, until, strict=True) if w > 0])


@dataclass(frozen=True, slots=True)
class Held:
    """How some ranges did.

    Attributes
    ----------
    asked
        How many were asked for.
    unknown
        The part of them to which no range was told.
    unbounded
        The part that has no end.
    held
        The part of all ranges, those without an end included, that held.
    hours
        The mean width of those with an end, in hours.
    """

    asked: int
    unknown: float
    unbounded: float
    held: float
    hours: float


def held(asked: Sequence[Asked], drawn: Sequence[Sequence[float]], probability: float = TARGET) -> Held:
    """Return how ranges did that hold what was drawn with a probability."""
    ranges = [(*interval(each, probability), one.wait) for one, each in zip(asked, drawn, strict=True)]
    told = [each for each in ranges if each[0] < inf]
    widths = [most - least for least, most, _ in told if most < inf]
    return Held(
        len(ranges),
        1.0 - len(told) / max(len(ranges), 1),
        (len(told) - len(widths)) / max(len(ranges), 1),
        float(np.mean([least <= wait <= most for least, most, wait in told])) if told else 0.0,
        float(np.mean(widths)) / 3600.0 if widths else inf,
    )


def at_the_same_coverage(asked: Sequence[Asked], drawn: Sequence[Sequence[float]], wanted: float) -> Held:
    """Return how the narrowest ranges of the plain history did of which as many held: it is given what came."""
    found = [held(asked, drawn, level / 100) for level in range(50, 100)]
    return next((each for each in found if each.held >= wanted), found[-1])


def text(asked: Sequence[Asked], result: ReplayResult, trace: History) -> str:
    """Return the table in Markdown, of the last part of the time; the plain history is chosen in the first."""
    first = [each for each in asked if each.at - EPOCH < LEARNS[1]]
    last = [each for each in asked if TOLD[0] <= each.at - EPOCH]
    plain = [PlainHistory(result, trace, days, by_request=narrow) for days in (7.0, 200.0) for narrow in (False, True)]
    best = min(plain, key=lambda one: at_the_same_coverage(first, [one.drawn(a) for a in first], TARGET).hours)
    ours = held(last, [each.drawn for each in last])
    theirs = at_the_same_coverage(last, [best.drawn(each) for each in last], ours.held)
    head = (f"{sum(CARDS)} cards, ranges for 8 of 10", "asked", "unknown", "no end", "held", "mean width")
    rows = [head, ("---",) * len(head)]
    for name, each in (("forecast", ours), ("plain history of waiting times, as many held", theirs)):
        parts = [f"{100 * part:.0f} %" for part in (each.unknown, each.unbounded, each.held)]
        rows.append((name, str(each.asked), *parts, f"{each.hours:.1f} h"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


_here: dict[str, Asking] = {}
"""What other processes answer from: they are forks of this one."""


def _answers(number: int) -> list[Asked]:
    return _here["asking"].answers(number)


def measured(folder: Path, times: int, every: int) -> str:
    """Play the trace, ask, and return the table."""
    _, trace = trace_of(folder)
    rng = np.random.default_rng(1)
    span = TOLD[1] - LEARNS[0]
    watching = Watching((EPOCH + LEARNS[0] + rng.random(times) * span).tolist(), every, seed=2)
    result = replay(trace, OPTIONS, on_step=watching)
    asking = _here["asking"] = Asking(watching.moments, happened(result, trace), result)
    numbers = range(len(asking.moments))
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        asked = [each for answers in pool.map(_answers, numbers) for each in answers]
    return text(asked, result, trace)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecast", description=__doc__)
    parser.add_argument("--data", default=os.environ.get(DATA, ""), help="the folder of the trace openb")
    parser.add_argument("--times", type=int, default=100, help="at how many times it is asked about a pod that waits")
    parser.add_argument("--every", type=int, default=8, help="it is asked of each so many-th pod that comes and waits")
    options = parser.parse_args()
    if not options.data:
        print(f"skipped: neither {DATA} nor --data names the folder of the trace openb")
        return
    publish(MARK, measured(Path(options.data), options.times, options.every))


if __name__ == "__main__":
    main()
