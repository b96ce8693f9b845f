"""Writes the status of policy resources: conditions, how many pods, and the summaries of the printer columns."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiUnreachableError, object_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.status_patches import RecentPatches, StatusPatcher, StatusWriter
from vgpu_scheduler.binding.writes import CONDITION_LIMIT, condition
from vgpu_scheduler.engine import PolicyReport
from vgpu_scheduler.kube import rfc3339
from vgpu_scheduler.model import cut
from vgpu_scheduler.policy import POLICY_KINDS, PolicyKey, PolicyResource, key_of, read_evictions, title

log = logging.getLogger(__name__)


Status = Mapping[str, Any]

_OURS = frozenset({"observedGeneration", "conditions", "pods", "nodes", "devices", "preemption"})
"""The fields of a status that are written here."""


class PolicyStatusWriter(StatusWriter):
    """Keeps the status of every policy current; for the leader only.

    Parameters
    ----------
    context
        The shared context of binding.
    report
        Returns the current reports.
    generation
        Returns a number that changes when a policy does; the status then follows within a second.
    interval
        Seconds between two checks of values that change without a policy: counts of pods, models of cards.
    timeout
        Seconds that the API server may take for an answer.
    """

    what = "policy status"

    def __init__(
        self,
        context: BindContext,
        report: Callable[[], Sequence[PolicyReport]],
        generation: Callable[[], int],
        interval: float,
        timeout: float,
    ) -> None:
        self._api = context.api
        self._clock = context.clock
        self._report = report
        self._generation = generation
        self._interval = interval
        self._timeout = timeout
        self._written: dict[PolicyKey, tuple[str, Status]] = {}
        self._patcher = StatusPatcher(context.writer, timeout)
        self._recent = RecentPatches(context.clock)
        self._seen, self._looked = -1, 0.0
        self.writes = 0

    def is_due(self) -> bool:
        """Tell whether a policy has changed, or the interval is over."""
        now, generation = self._clock.monotonic(), self._generation()
        if generation == self._seen and now - self._looked < self._interval:
            return False
        self._seen, self._looked = generation, now
        return True

    async def write(self) -> bool:
        """Write the status of each policy for which it changed; return whether all due writes are done."""
        reports = self._report()
        current = {key_of(report.policy) for report in reports}
        self._written = {key: status for key, status in self._written.items() if key in current}
        complete, problem = True, ""
        for report in reports:
            try:
                written = await self._write_one(report)
            except ApiUnreachableError as error:  # requests for other policies may succeed
                written, problem = False, problem or str(error)
            complete = complete and written
        if problem:
            log.warning("policy status: %s", problem)
        return complete

    async def _write_one(self, report: PolicyReport) -> bool:
        """Write the status of a policy if it changed; return False if that has to be tried again."""
        policy = report.policy
        known = await self._known(policy)
        if known is None:
            return True
        status = status_body(report, known, rfc3339(self._clock.now()))
        if status == known or self._may_wait(policy, status, known):
            return True
        response = await self._patcher.patch(policy_path(*key_of(policy)), policy.uid, status, MERGE_PATCH)
        if response is None:
            return False
        if response.ok:
            self._recent.note(policy.uid)
            self.writes += 1
            self._written[key_of(policy)] = (policy.uid, status)
        elif response.status != HTTPStatus.NOT_FOUND:  # deleted meanwhile, perhaps with its definition
            self._written.pop(key_of(policy), None)
            log.warning("policy status of %s: %s", policy.name, response.message)
        return True

    def _may_wait(self, policy: PolicyResource, status: Status, known: Status) -> bool:
        """Tell whether only the count of pods changed, and the status was written recently."""
        return policy.uid in self._recent and {**status, "pods": 0} == {**known, "pods": 0}

    async def _known(self, policy: PolicyResource) -> Status | None:
        """Return the current status of a policy; it is read once, because an earlier leader may have written it."""
        written = self._written.get(key_of(policy))
        if written is not None and written[0] == policy.uid:
            return written[1]
        response = await self._api.request("GET", policy_path(*key_of(policy)), timeout=self._timeout)
        if not response.ok:
            if response.status != HTTPStatus.NOT_FOUND:
                log.warning("policy status of %s cannot be read: %s", policy.name, response.message)
            return None
        found = response.json()
        if found["metadata"].get("uid") != policy.uid:
            return None
        # Fields of other writers are ignored: a merge patch leaves them unchanged.
        status: Status = {name: value for name, value in (found.get("status") or {}).items() if name in _OURS}
        _tell_of_evictions(policy, found.get("status"))
        self._written[key_of(policy)] = (policy.uid, status)
        return status


def status_body(report: PolicyReport, known: Status, now: str) -> dict[str, Any]:
    """Return the whole status; a condition whose status stays keeps the time of its last transition."""
    before = {}
    with contextlib.suppress(TypeError, KeyError):  # malformed conditions are replaced
        before = {each["type"]: each for each in known.get("conditions") or ()}
    generation = report.policy.generation
    conditions = []
    for said in report.conditions:
        status, message = "True" if said.status else "False", cut(said.message, CONDITION_LIMIT)
        old = before.get(said.type) or {}
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        conditions.append(condition(said.type, status, said.reason, message, since or now, generation))
    return {
        "observedGeneration": generation,
        "conditions": conditions,
        "pods": report.pods,
        "nodes": report.nodes,
        "devices": report.devices,
        "preemption": report.preemption,
    }


def _tell_of_evictions(policy: PolicyResource, status: object) -> None:
    """Log the records of evictions that cannot be read: they do not count towards the limit per hour."""
    for problem in read_evictions(status)[1]:
        log.warning("%s: %s, and does not count", title(policy), problem)


def policy_path(kind: str, namespace: str, name: str) -> str:
    """Return the path of a policy."""
    return object_path(POLICY_KINDS[kind].path, namespace, name)
