"""What an engine is made from where no settings of a scheduler are at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments, volcano_dialect
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif.objects import WorldError

_DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    "hami": hami_dialect,
    "volcano": volcano_dialect,
    "koordinator": koordinator_dialect,
}


def make_dialect(name: str) -> Dialect:
    """Return a dialect with its default names.

    Raises
    ------
    WorldError
        If there is none of that name.
    """
    if name not in _DIALECTS:
        raise WorldError(f"dialect: {name!r} is none of {', '.join(_DIALECTS)}")
    return _DIALECTS[name]()


def plain_options(dialect: str, defaults: PolicyDefaults | None = None) -> EngineOptions:
    """Return what the engine of a scheduler is made from of which only this is known.

    Parameters
    ----------
    dialect
        The one that it serves, with its default names.
    defaults
        What holds where no policy says otherwise.

    Raises
    ------
    WorldError
        If there is no such dialect.
    """
    understood = replace(defaults or PolicyDefaults(), read_arguments=parse_binpack_arguments)
    return EngineOptions((make_dialect(dialect),), understood)
