"""Command-line flags of programs written in Go, read from the workloads that run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from vgpu_scheduler.doctor.objects import ContainerSpec, Workload
from vgpu_scheduler.kube import go_bool

_REFERENCE = re.compile(r"\$\((\w+)\)")
_ALL_ALPHA = "AllAlpha"


class UnknownFlagError(Exception):
    """A flag's value is not in the workload; the message says what is needed to know it."""


def flag_values(workload: Workload, name: str) -> list[str]:
    """Return all values of a flag in order; one dash and two are equivalent.

    Raises
    ------
    UnknownFlagError
        If a value comes from elsewhere.
    """
    return [value for container in workload.containers for value in _values(container, name)]


def flag_is_on(workload: Workload, name: str) -> bool:
    """Tell whether a boolean flag is on; the default is off, and a value must be joined by ``=``.

    Raises
    ------
    UnknownFlagError
        If its value comes from elsewhere.
    """
    given = [joined for container in workload.containers for joined, _ in _given(container, name)]
    return bool(given) and (given[-1] is None or go_bool(given[-1]) is True)


def gate_is_on(workload: Workload, gate: str) -> bool:
    """Tell whether a feature gate of an alpha feature, which is off by default, is on.

    Raises
    ------
    UnknownFlagError
        If the value of the flag comes from elsewhere.
    """
    given: dict[str, bool] = {}
    for value in flag_values(workload, "feature-gates"):
        for part in value.split(","):
            key, _, state = part.partition("=")
            given[key.strip()] = go_bool(state.strip()) is True
    return given.get(gate, given.get(_ALL_ALPHA, False))


def listed(values: list[str]) -> list[str]:
    """Return the items of comma-separated values."""
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _values(container: ContainerSpec, name: str) -> Iterator[str]:
    for joined, after in _given(container, name):
        yield after if joined is None else joined


def _given(container: ContainerSpec, name: str) -> Iterator[tuple[str | None, str]]:
    """Yield the value joined to a flag by ``=``, None without one, and the following word."""
    known = {variable.name: variable.value for variable in container.env if variable.value}
    texts = (*container.command, *container.args)
    texts = tuple(_REFERENCE.sub(lambda found: known.get(found[1], found[0]), text) for text in texts)
    words = [word for text in texts for word in ([text] if text.startswith("-") else _of_script(text))]
    for word, after in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        joined = value if equals else None
        named = flag in (f"-{name}", f"--{name}")
        if word.startswith("$") or (named and "$" in (joined or after)):
            raise UnknownFlagError(f"the flag --{name} of {container.name}, which is set elsewhere")
        if named:
            yield joined, after


def _of_script(text: str) -> list[str]:
    """Split a text that may be a shell script into words."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
