"""Which writes to claims and volumes we have no right to: found out when one is refused, asked until it is there."""

from __future__ import annotations

import asyncio
import logging
import re

from vgpu_scheduler.apiclient import ApiError
from vgpu_scheduler.binding.context import BindContext

log = logging.getLogger(__name__)

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_USER = re.compile(r'User "([^"]+)" cannot ')


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
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def refused(self, resource: str, message: str) -> None:
        """Take in that a patch was refused, and why; if the right to it is missing, pods that need it wait for it."""
        if resource in self._asking:
            return
        try:
            allowed = await self._allowed(resource)
        except Exception as error:  # noqa: BLE001 - nobody knows: the refusal is this one write's
            log.warning("whether %s may be patched is not known: %s", resource, error)
            return
        if allowed or resource in self._asking:
            return
        # What was refused is somebody's; what all may read names only us and what we lack.
        found = _USER.search(message)
        user = f'user "{found[1]}"' if found else "this scheduler"
        self._storage.deny(resource, f'binding volumes: {user} cannot patch resource "{resource}"')
        task = asyncio.create_task(self._ask(resource), name=f"right-{resource}")
        self._asking[resource] = task
        task.add_done_callback(lambda _: self._asking.pop(resource, None))

    async def stop(self) -> None:
        """Ask no more."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, resource: str) -> None:
        """Ask until the right is there."""
        while True:
            await asyncio.sleep(self._ask_again)
            try:
                if await self._allowed(resource):
                    self._storage.allow(resource)
                    return
            except Exception as error:  # noqa: BLE001 - whatever it is, pods wait for the answer
                log.warning("whether %s may be patched is not known: %s", resource, error)

    async def _allowed(self, resource: str) -> bool:
        """Ask the API server.

        Raises
        ------
        ApiError, ApiUnreachableError
            If it does not say.
        """
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "patch", "resource": resource}},
        }
        response = await self._api.request("POST", _REVIEWS, body, timeout=self._timeout)
        if not response.ok:
            raise ApiError(response)
        return bool(response.json()["status"]["allowed"])
