"""Durations in options."""

from __future__ import annotations

import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_MOST_SECONDS = 400 * 86400


class Duration(click.ParamType[int]):
    """A number with a unit, converted to seconds."""

    name = "DURATION"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([1-9][0-9]{0,7})([smhdw])", value)
        if found is None:
            self.fail(f"{value!r} is not a duration: write 12h, 1d or 4w", param, ctx)
        seconds = int(found[1]) * _SECONDS[found[2]]
        if seconds > _MOST_SECONDS:
            self.fail(f"{value!r} is more than 400d", param, ctx)
        return seconds
