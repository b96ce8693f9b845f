"""Summarise replays of one policy with several seeds as one row of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any, Final

from vgpu_scheduler.whatif.traces.arrivals import Run
from vgpu_scheduler.whatif.traces.measures import RunResult

_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of one policy on one workload.

    Attributes
    ----------
    runs
        One run for each seed.
    results
        The result of each run.
    """

    workload: str
    policy: str
    runs: Sequence[Run]
    results: Sequence[RunResult]

    def mean(self, point: int, measure: str) -> float:
        """Return the mean of a measure of :class:`Point` over the seeds, at the point of an index."""
        return fmean(self._values(point, measure))

    def deviation(self, point: int, measure: str) -> float:
        """Return the standard deviation over the seeds; see :meth:`mean`."""
        return pstdev(self._values(point, measure))

    def _values(self, point: int, measure: str) -> list[float]:
        return [float(getattr(result.points[point], measure)) for result in self.results]

    @property
    def curve(self) -> list[float]:
        """The mean allocation at each percent of demand."""
        return [fmean(values) for values in zip(*(result.curve for result in self.results), strict=True)]

    @property
    def withheld(self) -> int:
        """Pods, over all seeds, that were rejected although a node had room."""
        return sum(result.withheld for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain values: the mean of each point, and the result of each seed."""
        fleet, load = self.runs[0].fleet, self.runs[0].load
        measures = ("allocation", "fragmentation", "rejected", "idle_nodes", "idle_cards")
        points = [
            {"demand": point.demand, **{name: round(self.mean(number, name), _DIGITS) for name in measures}}
            for number, point in enumerate(self.results[0].points)
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
                    "arrived": result.arrived,
                    "withheld": result.withheld,
                    "points": [point.as_json() for point in result.points],
                }
                for run, result in zip(self.runs, self.results, strict=True)
            ],
        }
