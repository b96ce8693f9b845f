"""Missing rights to write claims and volumes: noticed when a write is refused, polled until granted."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final, NamedTuple

from vgpu_scheduler.apiclient import end_tasks, is_allowed
from vgpu_scheduler.binding.context import BindContext

log = logging.getLogger(__name__)

_ASK_AGAIN: Final = 30.0
"""Seconds between two checks whether a missing right was granted."""
_USER = re.compile(r'User "([^"]+)" cannot ')


def refused_user(message: str) -> str:
    """Return our own user as named in a refusal; the rest of the message may name objects that others must not see."""
    found = _USER.search(message)
    return f'user "{found[1]}"' if found else "this scheduler"


class _Right(NamedTuple):
    """The right to patch a resource, in one namespace if the resource has one (a Role may grant it only there)."""

    resource: str
    namespace: str

    def __str__(self) -> str:
        place = f' in the namespace "{self.namespace}"' if self.namespace else ""
        return f'patch resource "{self.resource}"{place}'


class VolumeRights:
    """Distinguishes a missing right from the refusal of a single write.

    Policy engines also refuse writes with 403, but only for one object or namespace; other writes then continue.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for an answer.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._api = context.api
        self._storage = context.engine.storage
        self._timeout = timeout
        self._asking: dict[_Right, asyncio.Task[None]] = {}

    async def refused(self, resource: str, message: str, namespace: str = "") -> None:
        """Handle the refusal of a patch; if the right is missing, pods that need it wait until it is granted."""
        right = _Right(resource, namespace)
        if right in self._asking:
            return
        allowed = await self._allowed(right)
        if allowed or allowed is None or right in self._asking:  # unknown: treat it as the refusal of a single write
            return
        self._storage.deny(resource, f"binding volumes: {refused_user(message)} cannot {right}", namespace)
        task = asyncio.create_task(self._ask(right), name=f"right-{resource}-{namespace}")
        self._asking[right] = task
        task.add_done_callback(lambda _: self._asking.pop(right, None))

    async def stop(self) -> None:
        """Stop polling for rights."""
        await end_tasks(self._asking.values())

    async def _ask(self, right: _Right) -> None:
        """Poll until the right is granted."""
        while True:
            await asyncio.sleep(_ASK_AGAIN)
            if await self._allowed(right):
                self._storage.allow(right.resource, right.namespace)
                return

    async def _allowed(self, right: _Right) -> bool | None:
        """Ask the API server whether we have a right; None if it gives no answer."""
        place = {"namespace": right.namespace} if right.namespace else {}
        asked = {"verb": "patch", "resource": right.resource, **place}
        try:
            return await is_allowed(self._api, asked, timeout=self._timeout)
        except Exception as error:  # noqa: BLE001 - without an answer, pods wait for the next question
            log.warning("it is not known whether the scheduler may %s: %s", right, error)
            return None
