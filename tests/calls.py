"""How much work something is, whatever machine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import vgpu_scheduler

_OURS = str(Path(vgpu_scheduler.__file__).parent)


def calls(action: Callable[[], object]) -> int:
    """Count the calls of this project's Python functions in an action.

    It is done once before, so that what it remembers does not count; what others call meanwhile does not either, such
    as callbacks of the garbage collector.
    """
    action()
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(_OURS)

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count
