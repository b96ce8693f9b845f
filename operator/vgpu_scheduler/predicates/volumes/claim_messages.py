"""What is wrong with claims of a pod, as kube-scheduler words it: said in conditions, and read out of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["MissingClaim", "awaited_claim", "deleted_claim", "is_about_claims", "lost_claim"]

_SAID: Final = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_ABOUT: Final = 'persistentvolumeclaim "'
"""What all of them have."""


@dataclass(frozen=True, slots=True)
class MissingClaim:
    """A PersistentVolumeClaim that a pod names and that is not there."""

    name: str

    def __str__(self) -> str:
        return f'persistentvolumeclaim "{self.name}" not found'

    @staticmethod
    def found_in(message: str) -> list[MissingClaim]:
        """Return the claims of which a message says that they are not there."""
        return [MissingClaim(name) for name in _SAID.findall(message)]


def awaited_claim(name: str) -> str:
    """Say that the claim of an ephemeral volume is not made yet."""
    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'


def lost_claim(name: str, volume: str) -> str:
    """Say that the volume of a claim is gone."""
    return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'


def deleted_claim(name: str) -> str:
    """Say that a claim is being deleted."""
    return f'persistentvolumeclaim "{name}" is being deleted'


def is_about_claims(message: str) -> bool:
    """Tell whether a message says of a claim of the pod what is wrong with it."""
    return _ABOUT in message
