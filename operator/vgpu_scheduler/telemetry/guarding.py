"""Keeps those who are only told of something from changing what becomes of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec

log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_FAILED: Final = "%s failed; what it was told of goes on"


def guarded(hook: Callable[_P, None]) -> Callable[_P, None]:
    """Return a hook that fails in the log, and never its caller; what is no failure, such as a cancellation, passes."""

    @wraps(hook)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            hook(*args, **kwargs)
        except Exception:
            log.exception(_FAILED, getattr(hook, "__qualname__", hook))

    return call


def guarded_async(hook: Callable[_P, Awaitable[None]]) -> Callable[_P, Awaitable[None]]:
    """Do what :func:`guarded` does for a hook that is awaited."""

    @wraps(hook)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            await hook(*args, **kwargs)
        except Exception:
            log.exception(_FAILED, getattr(hook, "__qualname__", hook))

    return call
