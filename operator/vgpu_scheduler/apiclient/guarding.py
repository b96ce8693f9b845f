"""Errors that are logged and end nothing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

from vgpu_scheduler.apiclient.client import ApiUnreachableError

log = logging.getLogger(__name__)

_P = ParamSpec("_P")


@contextmanager
def errors_logged(logger: logging.Logger, what: str) -> Iterator[None]:
    """Log any error of a block instead of raising it; a cancellation passes.

    It is for periodic tasks, which must go on whatever fails once, and for hooks, which must not fail what calls them.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is logged
        _log_error(logger, what, error)


def guarded(hook: Callable[_P, None]) -> Callable[_P, None]:
    """Return a hook whose errors are logged and do not reach its caller."""

    @wraps(hook)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:  # cheaper than a context manager, because hooks are called often
            hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - it is logged
            _log_error(log, _failed(hook), error)

    return call


def guarded_async(hook: Callable[_P, Awaitable[None]]) -> Callable[_P, Awaitable[None]]:
    """Do the same as :func:`guarded` for an asynchronous hook."""

    @wraps(hook)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            await hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - it is logged
            _log_error(log, _failed(hook), error)

    return call


def _log_error(logger: logging.Logger, what: str, error: Exception) -> None:
    """Log an error with its traceback, unless it only says that the API server does not answer."""
    if isinstance(error, ApiUnreachableError):
        logger.warning("%s: %s", what, error)
    else:
        logger.error("%s", what, exc_info=error)


def _failed(hook: Callable[..., object]) -> str:
    return f"{getattr(hook, '__qualname__', hook)} failed; the operation goes on"
