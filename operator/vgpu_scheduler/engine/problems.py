"""What could not be understood."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.model import EventReason


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in an observed object that could not be understood or went wrong, for an event and a metric.

    Attributes
    ----------
    each_time
        Whether it is told each time that it happens, and not once per text.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    reason: EventReason
    message: str
    each_time: bool = False
