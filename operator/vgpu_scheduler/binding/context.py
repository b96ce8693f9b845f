"""What all parts of binding work with, and tasks that end with the part that has started them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from vgpu_scheduler.apiclient import ApiClient, ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding.clock import Clock
from vgpu_scheduler.binding.reporter import Reporter
from vgpu_scheduler.engine import Engine, EventPort
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
    port
        Tells what was observed, and is told when pods are to be decided again.
    """

    api: ApiClient
    engine: Engine
    reporter: Reporter
    clock: Clock
    may_write: Callable[[float], bool]
    observe: Callable[[str, Encoded], None]
    port: EventPort = field(default_factory=EventPort)

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
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
