"""Pods that left their selection and hold something still, of which the stream of bound pods tells nothing for long."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError
from vgpu_scheduler.intake.kinds import PODS
from vgpu_scheduler.intake.lister import read_one
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.kube import DecodeError

__all__ = ["FinalStateReader"]

log = logging.getLogger(__name__)

_EVERY: Final = 1.0
"""Seconds between two looks."""
_GRACE: Final = 2.0
"""Seconds that the stream of bound pods has: on a busy cluster it tells at once, on an idle one within a minute."""


class FinalStateReader:
    """Reads the pods that left their selection and hold something, where no stream says what became of them.

    Parameters
    ----------
    api, observer
        Where they are read, and where they go.
    every, grace
        Seconds between two looks, and that a stream has to tell of a pod.
    """

    def __init__(self, api: ApiClient, observer: Observer, every: float = _EVERY, grace: float = _GRACE) -> None:
        self._api = api
        self._observer = observer
        self._every = every
        self._grace = grace

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except ApiUnreachableError as error:
                log.warning("pods that were bound or deleted: %s", error)

    async def look(self) -> None:
        """Read the pods of which nothing was told in time; what one holds that cannot be read stays charged.

        Raises
        ------
        ApiUnreachableError
            If there is no answer.
        """
        for pod in self._observer.engine.unresolved(self._observer.monotonic() - self._grace):
            try:
                found = await read_one(self._api, PODS, pod.namespace, pod.name)
            except (ApiError, DecodeError) as error:
                log.warning("pod %s was bound or deleted, and cannot be read: %s", pod.key, error)
                continue
            if found is None or found.uid != pod.uid:
                self._observer.absent_in_read(pod)
            else:
                self._observer.observe(PODS, found)
