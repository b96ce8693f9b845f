"""Writes the scheduling condition of Kubernetes' own PodGroups; for the leader only."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import object_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.status_patches import RecentPatches, StatusPatcher, StatusWriter
from vgpu_scheduler.binding.writes import condition
from vgpu_scheduler.engine import GroupCondition
from vgpu_scheduler.kube import rfc3339

log = logging.getLogger(__name__)


_REPLACED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""The PodGroup is gone, or was replaced by another one of its name."""


class GroupStatusWriter(StatusWriter):
    """Keeps the conditions of PodGroups current.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for an answer.
    """

    what = "status of pod groups"

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._conditions = context.engine.group_conditions
        self._clock = context.clock
        self._observe = context.observe
        self._patcher = StatusPatcher(context.writer, timeout)
        self._recent = RecentPatches(context.clock)

    async def write(self) -> bool:
        """Write the condition of each PodGroup for which it has changed; see :meth:`StatusWriter.write`."""
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
        """Tell whether only the message changed, and the condition was written recently."""
        known = said.group.condition
        if known is None or said.group.uid not in self._recent:
            return False
        return (known.status, known.reason) == (said.condition.status, said.condition.reason)

    async def _write_one(self, said: GroupCondition) -> bool:
        """Write a condition, and observe the answer; return False if the write must be tried again."""
        group = said.group
        status = {"conditions": [patched_condition(said, rfc3339(self._clock.now()))]}
        path = object_path(said.kind.resource.path, group.namespace, group.name)
        response = await self._patcher.patch(path, group.uid, status)
        if response is None:
            return False
        if response.ok:
            self._recent.note(group.uid)
            self._observe(group.kind, response.body)
        elif response.status not in _REPLACED:
            log.warning("status of PodGroup %s: %s", group.key, response.message)
            return False
        return True


def patched_condition(said: GroupCondition, now: str) -> dict[str, Any]:
    """Return a condition for a strategic merge patch; with the same status, it keeps the last transition time."""
    group, new, known = said.group, said.condition, said.group.condition
    since = now if known is None or known.status != new.status else None
    # Kubernetes 1.36 has no generation for these objects, because their spec is immutable.
    return condition(said.kind.condition, new.status, new.reason, new.message, since, group.generation)
