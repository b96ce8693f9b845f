"""That a claim which a pod names is not there: said in its condition, and read out of it again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["MissingClaim"]

_SAID: Final = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


@dataclass(frozen=True, slots=True)
class MissingClaim:
    """A PersistentVolumeClaim that a pod names and that is not there, as kube-scheduler words it."""

    name: str

    def __str__(self) -> str:
        return f'persistentvolumeclaim "{self.name}" not found'

    @staticmethod
    def found_in(message: str) -> list[MissingClaim]:
        """Return the claims of which a message says that they are not there."""
        return [MissingClaim(name) for name in _SAID.findall(message)]
