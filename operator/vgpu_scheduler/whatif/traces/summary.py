"""Several replays of one policy, of one seed each, as one line of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any, Final

from vgpu_scheduler.whatif.traces.arrivals import Run
from vgpu_scheduler.whatif.traces.measures import Course

_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Summary:
    """What one policy came to on one workload.

    Attributes
    ----------
    runs
        One for each seed.
    courses
        What became of each.
    """

    workload: str
    policy: str
    runs: Sequence[Run]
    courses: Sequence[Course]

    def mean(self, point: int, measure: str) -> float:
        """Return the mean of a measure of :class:`Point` over the seeds, at the point of this number."""
        return fmean(self._values(point, measure))

    def deviation(self, point: int, measure: str) -> float:
        """Return the standard deviation over the seeds; see :meth:`mean`."""
        return pstdev(self._values(point, measure))

    def _values(self, point: int, measure: str) -> list[float]:
        return [float(getattr(course.points[point], measure)) for course in self.courses]

    @property
    def curve(self) -> list[float]:
        """The mean allocation at each percent of demand."""
        return [fmean(values) for values in zip(*(course.curve for course in self.courses), strict=True)]

    @property
    def withheld(self) -> int:
        """Pods of all seeds that were rejected although a node had room."""
        return sum(course.withheld for course in self.courses)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values: the mean of each point, and what each seed came to."""
        fleet, load = self.runs[0].fleet, self.runs[0].load
        measures = ("allocation", "fragmentation", "rejected", "idle_nodes", "idle_cards")
        points = [
            {"demand": point.demand, **{name: round(self.mean(number, name), _DIGITS) for name in measures}}
            for number, point in enumerate(self.courses[0].points)
        ]
        return {
            "workload": self.workload,
            "policy": self.policy,
            "nodes": len(fleet.nodes),
            "cards": sum(len(node.models) for node in fleet.nodes),
            **({} if load is None else {"load": load}),
            "points": points,
            "curve": [round(value, _DIGITS) for value in self.curve],
            "runs": [
                {
                    "seed": run.seed,
                    "arrived": course.arrived,
                    "withheld": course.withheld,
                    "points": [point.as_json() for point in course.points],
                }
                for run, course in zip(self.runs, self.courses, strict=True)
            ],
        }
