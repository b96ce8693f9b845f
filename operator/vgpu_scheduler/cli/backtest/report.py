"""What a back-test came to, as values that are shown in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from vgpu_scheduler.cli.backtest.sources import LoadedHistory
from vgpu_scheduler.history import Arrived, ReplayResult
from vgpu_scheduler.history.checking import Agreement
from vgpu_scheduler.history.comparing import LEVEL, MeasureComparison, measured
from vgpu_scheduler.kube import rfc3339

__all__ = ["BacktestDocument", "PolicyResult"]


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What the policies of one file would have meant.

    Attributes
    ----------
    name
        What it is called.
    policies
        Those in it, as messages call them.
    course
        What the replay came to.
    compared
        With the replay under the policies of the history.
    """

    name: str
    policies: Sequence[str]
    course: ReplayResult
    compared: Sequence[MeasureComparison]


@dataclass(frozen=True, slots=True)
class BacktestDocument:
    """What a back-test came to.

    Attributes
    ----------
    found
        The history.
    agreement
        How far the engine decides what the history says; None where it has no decisions.
    before
        The replay under the policies of the history.
    under
        Those under others.
    resamples
        How many resampled histories the intervals are over; 0 where they are over blocks of what was replayed.
    """

    found: LoadedHistory
    agreement: Agreement | None
    before: ReplayResult
    under: Sequence[PolicyResult]
    resamples: int

    @property
    def began(self) -> datetime:
        """When the history begins."""
        return datetime.fromtimestamp(self.found.history.began, UTC)

    @property
    def ended(self) -> datetime:
        """When it ends."""
        return datetime.fromtimestamp(self.found.history.ended, UTC)

    @property
    def is_empty(self) -> bool:
        """Whether it ends when it begins: a mean over no time is none."""
        return self.found.history.ended <= self.found.history.began

    @property
    def arrived(self) -> int:
        """How many pods arrived, or waited in the beginning."""
        history = self.found.history
        return sum(isinstance(each, Arrived) for each in (*history.first, *history.events))

    @property
    def placed(self) -> tuple[int, int]:
        """How many pods the history placed: of those that arrived, and of others, which were there in the beginning."""
        history = self.found.history
        arrived = {each.pod.uid for each in (*history.first, *history.events) if isinstance(each, Arrived)}
        placed = [uid for uid, stay in history.stays().items() if stay.placed is not None]
        of_arrived = sum(uid in arrived for uid in placed)
        return of_arrived, len(placed) - of_arrived

    @property
    def lacked(self) -> Mapping[str, int]:
        """What any of the replays lacked."""
        every = [self.before.lacked, *(each.course.lacked for each in self.under)]
        every += [] if self.agreement is None else [self.agreement.lacked]
        return {text: max(each.get(text, 0) for each in every) for text in sorted({t for each in every for t in each})}

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        agreement = None
        if self.agreement is not None:
            differences = [asdict(each) for each in self.agreement.differences]
            agreement = {
                "decisions": self.agreement.decisions,
                "same": self.agreement.same,
                "otherCards": self.agreement.same_node,
                "differences": differences,
            }
        return {
            "history": {
                "from": rfc3339(self.began),
                "to": rfc3339(self.ended),
                "files": self.found.files,
                "arrived": self.arrived,
                "placed": sum(self.placed),
                "problems": list(self.found.problems),
            },
            "agreement": agreement,
            "lacked": dict(self.lacked),
            "replayed": {name: round(value, 4) for name, value in measured(self.before).items()}
            if not self.is_empty
            else {},
            "level": LEVEL,
            "resamples": self.resamples,
            "policies": [
                {
                    "name": each.name,
                    "policies": list(each.policies),
                    "measures": [] if self.is_empty else [row.as_json() for row in each.compared],
                }
                for each in self.under
            ],
        }
