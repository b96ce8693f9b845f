"""What could not be understood."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in an observed object that could not be understood, for an event and a metric."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    message: str
