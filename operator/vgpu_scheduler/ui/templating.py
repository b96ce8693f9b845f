"""HTML templates, which escape every value."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup

from vgpu_scheduler.kube import parse_time
from vgpu_scheduler.ui.name_redaction import NameRedactor
from vgpu_scheduler.ui.query import RequestText

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS: Final = 20


def _age(created: str, now: datetime | None) -> str:
    """Return an age as kubectl writes it."""
    came = parse_time(created)  # files may contain anything
    if came is None or now is None:
        return "-"
    seconds = max(int((now - came).total_seconds()), 0)
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE}m"
    return f"{seconds // _HOUR}h" if seconds < 2 * _DAY else f"{seconds // _DAY}d"


def _step(percent: int) -> int:
    """Return a percentage rounded to steps of five, as the width of a bar."""
    return 5 * min(max(round(percent * _STEPS / 100), 0), _STEPS)


def _part(text: str) -> str:
    """Quote a text as one segment of a path."""
    return quote(text, safe="")


_REDACTOR: ContextVar[NameRedactor | None] = ContextVar("redactor", default=None)


def _redacted(value: Any) -> Any:
    """Redact a value that a template inserts; the output of macros is redacted already."""
    redactor = _REDACTOR.get()
    if redactor is None or isinstance(value, int | float | Markup | Undefined | RequestText):
        return value
    return redactor.text(str(value))


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("vgpu_scheduler.ui"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_redacted,
)
_ENVIRONMENT.filters |= {"age": _age, "step": _step, "part": _part}


def render(template: str, values: Mapping[str, Any], redactor: NameRedactor | None = None) -> str:
    """Render a template.

    Parameters
    ----------
    redactor
        Redacts every value; None if the visitor sees everything.
    """
    before = _REDACTOR.set(redactor)
    try:
        return _ENVIRONMENT.get_template(template).render(values)
    finally:
        _REDACTOR.reset(before)
