"""How long a pod will wait: a range with its probability, or why nobody can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from vgpu_scheduler.forecast.durations import DurationClass
from vgpu_scheduler.model import counted, duration_unit, rounded_duration

__all__ = ["PROBABILITY", "Forecast", "NoForecast", "forecast_of_json"]

PROBABILITY: Final = 0.8
"""Of how many forecasts the range holds."""
_TENTHS: Final = 10


@dataclass(frozen=True, slots=True)
class Forecast:
    """How much longer a pod waits.

    Attributes
    ----------
    least, most
        Seconds between which it is placed, with a probability; infinity where no end can be named.
    probability
        From 0 to 1.
    draws
        Of how many possible courses that is the range.
    pods
        Of how many pods whose durations count it is known how long they ran.
    known_from
        Whose these are, mostly, of the pods that run; None where nothing depends on durations.
    """

    least: float
    most: float
    probability: float = PROBABILITY
    draws: int = 0
    pods: int = 0
    known_from: DurationClass | None = None

    def text(self) -> str:
        """Say it to people, in a sentence."""
        if self.most == 0.0:
            return "It fits now: its turn comes."
        unbounded = self.most == inf
        tenths = round(self._told_probability * _TENTHS)
        rests = (
            ""
            if self.known_from is None
            else f" (how long others run: from {counted(self.pods, 'pod')} {self.known_from.value})"
        )
        waits = f"at least {rounded_duration(self.least)}" if unbounded else _range(self.least, self.most)
        return f"It waits {waits} more, {tenths} of {_TENTHS}{rests}."

    @property
    def _told_probability(self) -> float:
        return self.probability if self.most < inf else (1.0 + self.probability) / 2

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        known = None if self.known_from is None else {"class": self.known_from.name.lower(), "pods": self.pods}
        return {
            "leastSeconds": round(self.least),
            "mostSeconds": None if self.most == inf else round(self.most),
            "probability": round(self._told_probability, 3),
            "draws": self.draws,
            "durations": known,
        }


@dataclass(frozen=True, slots=True)
class NoForecast:
    """That nobody can say how long a pod waits.

    Attributes
    ----------
    why
        A part of a sentence.
    """

    why: str

    def text(self) -> str:
        """Say it to people, in a sentence."""
        return f"How long it waits cannot be known: {self.why}."

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"unknown": self.why}


def forecast_of_json(plain: Mapping[str, Any]) -> Forecast | NoForecast:
    """Return what plain values say of how long a pod waits.

    Raises
    ------
    ValueError
        If they are not those of such an answer.
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
