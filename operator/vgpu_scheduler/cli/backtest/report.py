"""The result of a back-test, as values for several output formats."""

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


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The result for the policies of one file.

    Attributes
    ----------
    name
        The name of the file.
    policies
        The names of its policies in messages.
    result
        The result of the replay.
    compared
        The comparison with the replay under the policies of the history.
    """

    name: str
    policies: Sequence[str]
    result: ReplayResult
    compared: Sequence[MeasureComparison]


@dataclass(frozen=True, slots=True)
class BacktestDocument:
    """The result of a back-test.

    Attributes
    ----------
    found
        The history.
    agreement
        How far the engine's decisions agree with the history's; None if the history has no decisions.
    before
        The replay under the policies of the history.
    under
        The results under other policies.
    resamples
        The number of resampled histories behind the intervals; 0 if they come from blocks of one replay.
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
        """When the history ends."""
        return datetime.fromtimestamp(self.found.history.ended, UTC)

    @property
    def is_empty(self) -> bool:
        """Whether the history spans no time, so that there are no means over time."""
        return self.found.history.ended <= self.found.history.began

    @property
    def arrived(self) -> int:
        """How many pods arrived, or were waiting at the beginning."""
        history = self.found.history
        return sum(isinstance(each, Arrived) for each in (*history.first, *history.events))

    @property
    def placed(self) -> tuple[int, int]:
        """How many pods the history placed: among those that arrived, and among those there from the beginning."""
        history = self.found.history
        arrived = {each.pod.uid for each in (*history.first, *history.events) if isinstance(each, Arrived)}
        placed = [uid for uid, lifetime in history.pod_lifetimes().items() if lifetime.placed is not None]
        of_arrived = sum(uid in arrived for uid in placed)
        return of_arrived, len(placed) - of_arrived

    @property
    def lacked(self) -> Mapping[str, int]:
        """What replays lacked, with the largest count of any replay."""
        every = [self.before.lacked, *(each.result.lacked for each in self.under)]
        every += [] if self.agreement is None else [self.agreement.lacked]
        return {text: max(each.get(text, 0) for each in every) for text in sorted({t for each in every for t in each})}

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
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
