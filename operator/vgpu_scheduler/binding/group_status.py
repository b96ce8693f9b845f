"""Writes the condition of Kubernetes' own PodGroups that tells whether they are scheduled; for the leader only."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, object_path
from vgpu_scheduler.binding.context import BindContext, errors_logged
from vgpu_scheduler.binding.writes import condition
from vgpu_scheduler.engine import GroupCondition
from vgpu_scheduler.kube import rfc3339
from vgpu_scheduler.model import BoundedCache

log = logging.getLogger(__name__)


_PACE = 1.0
"""Seconds between two looks at what has changed."""
_AGAIN = 10.0
"""Seconds until what could not be written is tried again."""
_SAME_PACE = 60.0
"""Seconds between two writes of a condition of which only the message has changed."""
_MOST_BYTES = 2**20
"""What is remembered of the times of the last writes may take; a time that is forgotten makes one write too many."""
_TIME = 200
"""Bytes of one."""
_REPLACED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""It is gone meanwhile, or another one of its name is there."""


class GroupStatusWriter:
    """Keeps the conditions of PodGroups current.

    Parameters
    ----------
    context
        What all parts of binding work with.
    timeout
        Seconds that the API server may take for an answer.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._api = context.api
        self._conditions = context.engine.group_conditions
        self._clock = context.clock
        self._may_write = context.may_write
        self._observe = context.observe
        self._timeout = timeout
        self._written: BoundedCache[str, float] = BoundedCache(_MOST_BYTES)

    async def run(self) -> None:
        """Write what has changed, again and again, until cancelled."""
        while True:
            complete = False
            with errors_logged(log, "status of pod groups"):
                complete = await self.write()
            await asyncio.sleep(_PACE if complete else _AGAIN)

    async def write(self) -> bool:
        """Write the condition of each PodGroup for which it has changed; return whether none is left that is due.

        Raises
        ------
        ApiUnreachableError
            If the API server does not answer.
        """
        complete = True
        due = {said.key: said for said in self._conditions.take()}
        try:
            for said in list(due.values()):
                if self._may_wait(said):
                    continue
                if await self._write_one(said):
                    del due[said.key]
                else:
                    complete = False
        finally:
            for key in due:
                self._conditions.not_written(key)
        return complete

    def _may_wait(self, said: GroupCondition) -> bool:
        """Tell whether nothing but the message changed, and that was written not long ago."""
        known, written = said.group.condition, self._written.get(said.group.uid)
        if known is None or written is None or self._clock.monotonic() - written >= _SAME_PACE:
            return False
        return (known.status, known.reason) == (said.condition.status, said.condition.reason)

    async def _write_one(self, said: GroupCondition) -> bool:
        """Write a condition, and take in what the object says then; return whether there is nothing left to write."""
        if not self._may_write(self._timeout):
            return False
        group = said.group
        body = condition_patch(said, rfc3339(self._clock.now()))
        response = await self._api.request(
            "PATCH",
            f"{object_path(said.kind.path, group.namespace, group.name)}/status",
            body,
            content_type=STRATEGIC_PATCH,
            timeout=self._timeout,
        )
        if response.ok:
            self._written.put(group.uid, self._clock.monotonic(), _TIME)
            self._observe(group.kind, response.body)
        elif response.status not in _REPLACED:
            log.warning("status of PodGroup %s: %s", group.key, response.message)
            return False
        return True


def condition_patch(said: GroupCondition, now: str) -> dict[str, Any]:
    """Return the strategic merge patch of a condition; one whose status stays keeps the time of its last transition."""
    group, new, known = said.group, said.condition, said.group.condition
    since = now if known is None or known.status != new.status else None
    # Kubernetes 1.36 does not count the changes of these objects, which cannot be changed.
    body = condition(said.kind.condition, new.status, new.reason, new.message, since, group.generation)
    # The UID makes a PodGroup of the same name that came later refuse the patch.
    return {"metadata": {"uid": group.uid}, "status": {"conditions": [body]}}
