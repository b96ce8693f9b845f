"""Which writes to claims and volumes we have no right to: found out when one is refused, asked until it is there."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import NamedTuple

from vgpu_scheduler.apiclient import end_tasks, is_allowed
from vgpu_scheduler.binding.context import BindContext

log = logging.getLogger(__name__)

_USER = re.compile(r'User "([^"]+)" cannot ')


def refused_user(message: str) -> str:
    """Name our own user as a refusal does: nothing else of it is for everybody to read, for it is about somebody's."""
    found = _USER.search(message)
    return f'user "{found[1]}"' if found else "this scheduler"


class _Right(NamedTuple):
    """To patch a resource; where it has namespaces, in one of these, because a Role may grant it there alone."""

    resource: str
    namespace: str

    def __str__(self) -> str:
        place = f' in the namespace "{self.namespace}"' if self.namespace else ""
        return f'patch resource "{self.resource}"{place}'


class VolumeRights:
    """Tells a right that is missing from a single write that is refused.

    Policy engines refuse writes with 403, too, and mean one object or namespace by that; all others go on.

    Parameters
    ----------
    context
        What all parts of binding work with.
    timeout
        Seconds that the API server may take for an answer.
    ask_again
        Seconds between two questions whether a right that was missing is there now.
    """

    def __init__(self, context: BindContext, timeout: float, ask_again: float) -> None:
        self._api = context.api
        self._storage = context.engine.storage
        self._timeout = timeout
        self._ask_again = ask_again
        self._asking: dict[_Right, asyncio.Task[None]] = {}

    async def refused(self, resource: str, message: str, namespace: str = "") -> None:
        """Take in that a patch was refused, and why; if the right to it is missing, pods that need it wait for it."""
        right = _Right(resource, namespace)
        if right in self._asking:
            return
        try:
            allowed = await self._allowed(right)
        except Exception as error:  # noqa: BLE001 - nobody knows: the refusal is this one write's
            log.warning("whether we may %s is not known: %s", right, error)
            return
        if allowed or right in self._asking:
            return
        self._storage.deny(resource, f"binding volumes: {refused_user(message)} cannot {right}", namespace)
        task = asyncio.create_task(self._ask(right), name=f"right-{resource}-{namespace}")
        self._asking[right] = task
        task.add_done_callback(lambda _: self._asking.pop(right, None))

    async def stop(self) -> None:
        """Ask no more."""
        await end_tasks(self._asking.values())

    async def _ask(self, right: _Right) -> None:
        """Ask until the right is there."""
        while True:
            await asyncio.sleep(self._ask_again)
            try:
                if await self._allowed(right):
                    self._storage.allow(right.resource, right.namespace)
                    return
            except Exception as error:  # noqa: BLE001 - whatever it is, pods wait for the answer
                log.warning("whether we may %s is not known: %s", right, error)

    async def _allowed(self, right: _Right) -> bool:
        """Ask the API server.

        Raises
        ------
        ApiError, ApiUnreachableError
            If it does not say.
        """
        place = {"namespace": right.namespace} if right.namespace else {}
        return await is_allowed(
            self._api, {"verb": "patch", "resource": right.resource, **place}, timeout=self._timeout
        )
