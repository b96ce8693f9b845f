"""The forecast of a pod's wait: a range with its probability, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from vgpu_scheduler.forecast.durations import DurationClass
from vgpu_scheduler.model import counted, duration_unit, rounded_duration

PROBABILITY: Final = 0.8
"""The probability with which a range holds."""
_TENTHS: Final = 10


@dataclass(frozen=True, slots=True)
class Forecast:
    """How much longer a pod waits until it is placed.

    Attributes
    ----------
    least, most
        The range in seconds; infinity for an unknown end.
    probability
        The probability of the range, from 0 to 1.
    draws
        The number of draws.
    pods
        The number of ended pods from which the relevant durations are known.
    known_from
        The class of pods from which durations of running pods were mostly drawn; None if durations do not matter.
    """

    least: float
    most: float
    probability: float = PROBABILITY
    draws: int = 0
    pods: int = 0
    known_from: DurationClass | None = None

    def text(self) -> str:
        """Format a sentence for people."""
        if self.most == 0.0:
            return "It fits now and is placed when its turn comes."
        unbounded = self.most == inf
        tenths = round(self._shown_probability * _TENTHS)
        rests = (
            ""
            if self.known_from is None
            else f" (run times are those of {counted(self.pods, 'pod')} {self.known_from.value})"
        )
        waits = f"at least {rounded_duration(self.least)}" if unbounded else _range(self.least, self.most)
        return f"It waits {waits} more, in {tenths} of {_TENTHS} cases{rests}."

    @property
    def _shown_probability(self) -> float:
        return self.probability if self.most < inf else (1.0 + self.probability) / 2

    def as_json(self) -> dict[str, Any]:
        """Return the forecast as plain values."""
        known = None if self.known_from is None else {"class": self.known_from.name.lower(), "pods": self.pods}
        return {
            "leastSeconds": round(self.least),
            "mostSeconds": None if self.most == inf else round(self.most),
            "probability": round(self._shown_probability, 3),
            "draws": self.draws,
            "durations": known,
        }


@dataclass(frozen=True, slots=True)
class NoForecast:
    """The answer if a pod's wait cannot be forecast.

    Attributes
    ----------
    why
        The reason, as part of a sentence.
    """

    why: str

    def text(self) -> str:
        """Format a sentence for people."""
        return f"How long it will wait cannot be estimated: {self.why}."

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        return {"unknown": self.why}


def forecast_of_json(plain: Mapping[str, Any]) -> Forecast | NoForecast:
    """Parse the plain values of a forecast.

    Raises
    ------
    ValueError
        If they are malformed.
    """
    try:
        if "unknown" in plain:
            return NoForecast(str(plain["unknown"]))
        told, most, known = float(plain["probability"]), plain["mostSeconds"], plain["durations"]
        return Forecast(
            float(plain["leastSeconds"]),
            inf if most is None else float(most),
            2 * told - 1.0 if most is None else told,
            int(plain["draws"]),
            0 if known is None else int(known["pods"]),
            None if known is None else DurationClass[known["class"].upper()],
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no forecast: {error}") from None


def _range(least: float, most: float) -> str:
    size, unit = duration_unit(most)
    low, high = round(least / size), round(most / size)
    if duration_unit(least)[0] != size and least > 0:
        return f"{rounded_duration(least)} to {rounded_duration(most)}"
    return f"{low} to {counted(high, unit)}" if low != high else f"about {counted(high, unit)}"
