"""Pods that left their selection, still hold something, and have not shown up in the stream of bound pods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from vgpu_scheduler.apiclient import ApiClient, ApiError, errors_logged, wait_for_event
from vgpu_scheduler.intake.kinds import PODS
from vgpu_scheduler.intake.listing import get_one
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.kube import DecodeError

log = logging.getLogger(__name__)

_EVERY: Final = 1.0
"""Seconds between two looks."""
_GRACE: Final = 2.0
"""Seconds to wait for the stream of bound pods: it tells at once on a busy cluster, within a minute on an idle one."""


class FinalStateReader:
    """Reads pods that left their selection and hold something, if no stream tells what became of them.

    Parameters
    ----------
    api, observer
        Where pods are read from, and where observations go.
    every, grace
        Seconds between two looks, and seconds to wait for a stream before reading a pod.
    is_unsent
        Tells whether a pod (by UID) holds a placement whose Binding was not sent. Such a pod was most likely deleted,
        so it is read at once.
    """

    def __init__(
        self,
        api: ApiClient,
        observer: Observer,
        every: float = _EVERY,
        grace: float = _GRACE,
        is_unsent: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._api = api
        self._observer = observer
        self._every = every
        self._grace = grace
        self._is_unsent = is_unsent
        self._wake = asyncio.Event()

    def selection_left(self, uid: str) -> None:
        """Look at once if a pod that left its selection holds a placement whose Binding was not sent."""
        if self._is_unsent(uid):
            self._wake.set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await wait_for_event(self._wake, self._every)
            self._wake.clear()
            with errors_logged(log, "pods that were bound or deleted"):
                await self.reconcile()

    async def reconcile(self) -> None:
        """Read the pods that no stream has resolved in time; a pod that cannot be read keeps its reservation.

        Raises
        ------
        ApiUnreachableError
            If the API server does not answer.
        """
        engine, now = self._observer.engine, self._observer.monotonic()
        due = {pod.uid: pod for pod in engine.unbound_pods.unresolved(now - self._grace)}
        due |= {pod.uid: pod for pod in engine.unbound_pods.unresolved(now) if self._is_unsent(pod.uid)}
        for pod in due.values():
            try:
                found = await get_one(self._api, PODS, pod.namespace, pod.name)
            except (ApiError, DecodeError) as error:
                log.warning("pod %s was bound or deleted, and cannot be read: %s", pod.key, error)
                continue
            if found is None or found.uid != pod.uid:
                self._observer.absent_in_read(pod)
            else:
                self._observer.observe(PODS, found)
