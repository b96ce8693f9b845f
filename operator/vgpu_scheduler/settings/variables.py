"""How the environment variable of a setting is spelt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VARIABLE_PREFIX: Final = "VGPU_"
"""What the environment variables of all settings begin with."""
BETWEEN_LEVELS: Final = "__"
"""What separates a section from its settings in the name of an environment variable."""


def variable_of(path: Iterable[str]) -> str:
    """Return the environment variable of a section or setting.

    Parameters
    ----------
    path
        Its sections and its name.
    """
    return VARIABLE_PREFIX + BETWEEN_LEVELS.join(path).upper()
