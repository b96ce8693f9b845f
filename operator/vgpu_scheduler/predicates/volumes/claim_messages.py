"""kube-scheduler's messages about claims of a pod: written into conditions, and parsed from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.predicates.reasons import UNBOUND_IMMEDIATE

_SAID: Final = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_ABOUT: Final = 'persistentvolumeclaim "'
"""A substring of all these messages."""


@dataclass(frozen=True, slots=True)
class MissingVolumeClaim:
    """A PersistentVolumeClaim that a pod names and that does not exist."""

    name: str

    def __str__(self) -> str:
        return f'persistentvolumeclaim "{self.name}" not found'

    @staticmethod
    def found_in(message: str) -> list[MissingVolumeClaim]:
        """Return the missing claims that a message names."""
        return [MissingVolumeClaim(name) for name in _SAID.findall(message)]


def awaited_claim(name: str) -> str:
    """Return the message for an ephemeral volume whose claim is not created yet."""
    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'


def lost_claim(name: str, volume: str) -> str:
    """Return the message for a claim whose volume does not exist."""
    return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'


def deleted_claim(name: str) -> str:
    """Return the message for a claim that is being deleted."""
    return f'persistentvolumeclaim "{name}" is being deleted'


def is_about_volume_claims(message: str) -> bool:
    """Tell whether a message is about a claim of the pod: one that is missing, going, or unbound without its pod."""
    return _ABOUT in message or UNBOUND_IMMEDIATE.text in message
