"""What all parts of binding work with, how binds are carried out, and tasks that end with whoever has started them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vgpu_scheduler.apiclient import ApiClient, ApiResponse, ApiUnreachableError, Clock, end_tasks
from vgpu_scheduler.binding.reporter import Reporter
from vgpu_scheduler.engine import Engine, ObservationSignals
from vgpu_scheduler.kube import Encoded

log = logging.getLogger(__name__)


@dataclass(slots=True)
class BindStats:
    """What the binder has done, for metrics."""

    bound: int = 0
    failed: int = 0
    refitted: int = 0
    moved: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class BinderOptions:
    """How binds are carried out.

    Attributes
    ----------
    timeout
        Seconds that the API server may take for a Binding; shorter than the lease, so that time fences late writes.
    node_side_timeout
        Seconds that a pod waits at its node: in its lane, for its lock, and for its device plugin's answer.
    poll_interval
        Seconds between looks at a node of which nothing is heard.
    volume_wait
        Seconds that a pod's volumes may take to be bound, its cards being kept for it.
    max_unlocked_binds
        Binds at a time that need no lock.
    label_first
        Write the label before the Binding: API servers before 1.35 ignore labels on Bindings.
    slow_after
        Seconds after which a node is slow whose turn does not end: who waits there goes elsewhere, or is told why.
    ask_again
        Seconds between two questions whether a right that was missing is there now.
    """

    timeout: float
    node_side_timeout: float
    poll_interval: float
    volume_wait: float
    max_unlocked_binds: int
    label_first: bool = False
    slow_after: float = 10.0
    ask_again: float = 30.0


@dataclass(frozen=True, slots=True)
class BindContext:
    """What all parts of binding work with.

    Attributes
    ----------
    api, engine, reporter, clock
        The API server, what is known, who tells users, and the time.
    may_write
        Tells whether the lease will still be held in so many seconds; asked right before every write.
    observe
        Takes in an object of a kind that an answer of the API server shows, as it was encoded there; never raises.
    signals
        Tells what was observed, and is told when pods are to be decided again.
    withdrawn
        Told of each pod whose decision is not carried out, by UID; never raises.
    """

    api: ApiClient
    engine: Engine
    reporter: Reporter
    clock: Clock
    may_write: Callable[[float], bool]
    observe: Callable[[str, Encoded], None]
    signals: ObservationSignals = field(default_factory=ObservationSignals)
    withdrawn: Callable[[str], None] = lambda _: None

    async def request(
        self, method: str, path: str, body: object, seconds: float, content_type: str = "application/json"
    ) -> ApiResponse | None:
        """Send a request whose answer may not come, which is logged; return the answer, None if there is none.

        Parameters
        ----------
        seconds
            How long the API server may take.
        """
        try:
            return await self.api.request(method, path, body, content_type=content_type, timeout=seconds)
        except ApiUnreachableError as error:
            log.warning("%s %s: %s", method, path, error)
            return None

    async def fenced_request(
        self,
        method: str,
        path: str,
        body: object,
        seconds: float,
        content_type: str = "application/json",
        *,
        dry_run: bool = False,
    ) -> ApiResponse | None:
        """Send a write that cannot happen later than the lease is held; None, and nothing is sent, if that may end.

        Parameters
        ----------
        seconds
            How long the API server may take, which gives up by itself then.

        Raises
        ------
        ApiUnreachableError
            If no answer came.
        """
        if not self.may_write(seconds):
            return None
        params = {"timeout": f"{seconds:g}s", **({"dryRun": "All"} if dry_run else {})}
        return await self.api.request(method, path, body, content_type=content_type, params=params, timeout=seconds + 1)


@contextmanager
def errors_logged(logger: logging.Logger, what: str) -> Iterator[None]:
    """Log an error of one look at things, of which the next one is to come: pods must be placed, whatever it is."""
    try:
        yield
    except ApiUnreachableError as error:
        logger.warning("%s: %s", what, error)
    except Exception:
        logger.exception("%s", what)


class Background:
    """Tasks of one owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        """Tell whether any of them goes on."""
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        """Have something done."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, grace: float = 0.0) -> None:
        """Let them finish for at most ``grace`` seconds, and end those that have not."""
        if self._tasks and grace:
            await asyncio.wait(self._tasks, timeout=grace)
        await end_tasks(self._tasks)
