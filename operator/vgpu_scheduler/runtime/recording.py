"""What a replica needs of a recorder of its history, and a recorder that records nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from vgpu_scheduler.model import Decision


class Recorder(Protocol):
    """Records what a leader decides."""

    def begin(self) -> None:
        """Start recording."""

    def stop(self) -> None:
        """Stop recording; what is queued is still written."""

    async def wait_until_written(self, seconds: float = ...) -> None:
        """Wait some seconds at most until everything that was recorded is written."""

    def decided(self, decisions: Sequence[Decision]) -> None:
        """Record decisions."""

    def withdrawn(self, uid: str) -> None:
        """Record that the decision about a pod is not carried out."""


class _NoRecorder:
    """Records nothing."""

    def begin(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    async def wait_until_written(self, seconds: float = 0.0) -> None:
        """Return at once, without a thread."""

    def decided(self, decisions: Sequence[Decision]) -> None:
        """Do nothing."""

    def withdrawn(self, uid: str) -> None:
        """Do nothing."""


NO_RECORDER: Final = _NoRecorder()
