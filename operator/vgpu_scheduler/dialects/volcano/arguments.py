"""Volcano's arguments for its binpack plugin: names and parsing rules.

They are the ``arguments`` in ``volcano-scheduler.conf``; a policy accepts them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.kube import CPU, MEMORY
from vgpu_scheduler.scorers import BinpackArguments

WEIGHT = "binpack.weight"
CPU_WEIGHT = "binpack.cpu"
MEMORY_WEIGHT = "binpack.memory"
RESOURCES = "binpack.resources"
_OF_RESOURCE = f"{RESOURCES}."

_DEFAULT = 1
_INT64 = 2**63 - 1


def parse_binpack_arguments(arguments: Mapping[str, object]) -> BinpackArguments:
    """Parse the arguments like Volcano, which ignores invalid values.

    Only 64-bit integers are valid: for quoted numbers, floats and booleans the default is used.

    Parameters
    ----------
    arguments
        The decoded document; unknown keys are ignored.
    """
    reader = _Reader(arguments)
    weight = reader.integer(WEIGHT)
    cpu = reader.not_negative(CPU_WEIGHT)
    memory = reader.not_negative(MEMORY_WEIGHT)
    listed = [name for name in (part.strip() for part in reader.text(RESOURCES).split(",")) if name]
    weights = {name: reader.not_negative(_OF_RESOURCE + name) for name in listed}
    unlisted = [
        key for key in arguments if key.startswith(_OF_RESOURCE) and key.removeprefix(_OF_RESOURCE) not in weights
    ]
    reader.warnings += [f"{key}: the resource is not listed in {RESOURCES} and is ignored" for key in sorted(unlisted)]
    weights |= {CPU: cpu, MEMORY: memory}  # last, because entries for these in the list have no effect
    return BinpackArguments(weight, tuple(sorted(weights.items())), tuple(reader.warnings))


class _Reader:
    """Reads single arguments and collects warnings."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._arguments = arguments
        self.warnings: list[str] = []

    def integer(self, key: str) -> int:
        value = self._arguments.get(key, _DEFAULT)
        # In Python a boolean is an int, in Go it is not.
        if isinstance(value, int) and not isinstance(value, bool) and -_INT64 - 1 <= value <= _INT64:
            return value
        self.warnings.append(f"{key}: {value!r:.64} is not an integer, {_DEFAULT} is used")
        return _DEFAULT

    def not_negative(self, key: str) -> int:
        value = self.integer(key)
        if value >= 0:
            return value
        self.warnings.append(f"{key}: {value} is negative, {_DEFAULT} is used")
        return _DEFAULT

    def text(self, key: str) -> str:
        value = self._arguments.get(key, "")
        if isinstance(value, str):
            return value
        self.warnings.append(f"{key}: {value!r:.64} is not a text, no further resource is weighed")
        return ""
