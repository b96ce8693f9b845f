"""Engine options for use without a scheduler's settings."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError


def make_dialect(name: str) -> Dialect:
    """Return a dialect with its default names.

    Raises
    ------
    InvalidObjectsError
        If there is none of that name.
    """
    if name not in DIALECTS:
        raise InvalidObjectsError(f"dialect: {name!r} is not one of {', '.join(DIALECTS)}")
    return DIALECTS[name]()


def plain_options(dialect: str, defaults: PolicyDefaults | None = None) -> EngineOptions:
    """Return engine options for a dialect, with defaults for everything else.

    Parameters
    ----------
    dialect
        The dialect to serve, with its default resource names.
    defaults
        What applies where no policy says otherwise.

    Raises
    ------
    InvalidObjectsError
        If there is no such dialect.
    """
    understood = replace(defaults or PolicyDefaults(), read_arguments=parse_binpack_arguments)
    return EngineOptions((make_dialect(dialect),), understood)
