"""Engine options for use without a scheduler's settings."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.dialects.hami import NvidiaRequests, hami_dialect, vendors
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.model.policy_settings import PolicySettings
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError


def make_dialect(name: str, *, whole_is_exclusive: bool = False) -> Dialect:
    """Return a dialect with its default names.

    Parameters
    ----------
    whole_is_exclusive
        Whether a claim of a whole NVIDIA card also takes all of its compute, under HAMi.

    Raises
    ------
    InvalidObjectsError
        If there is none of that name.
    """
    if name not in DIALECTS:
        raise InvalidObjectsError(f"dialect: {name!r} is not one of {', '.join(DIALECTS)}")
    if whole_is_exclusive and name == "hami":
        return hami_dialect(vendors(NvidiaRequests(whole_is_exclusive=True)))
    return DIALECTS[name]()


def plain_options(dialect: str, settings: PolicySettings | None = None) -> EngineOptions:
    """Return engine options for a dialect, with defaults for everything else.

    Parameters
    ----------
    dialect
        The dialect to serve, with its default resource names.
    settings
        The settings of what holds where no policy says otherwise.

    Raises
    ------
    InvalidObjectsError
        If there is no such dialect.
    """
    settings = settings or PolicySettings()
    defaults = replace(PolicyDefaults.of(settings), read_arguments=parse_binpack_arguments)
    return EngineOptions((make_dialect(dialect, whole_is_exclusive=settings.whole_is_exclusive),), defaults)
