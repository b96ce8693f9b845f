"""Writes the status of policy resources: conditions, how many pods, and the summaries of the printer columns."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiClient, Clock, object_path
from vgpu_scheduler.binding.context import errors_logged
from vgpu_scheduler.binding.writes import CONDITION_LIMIT, condition
from vgpu_scheduler.engine import PolicyReport
from vgpu_scheduler.kube import rfc3339
from vgpu_scheduler.model import cut
from vgpu_scheduler.policy import GROUP, PLURALS, VERSION, PolicyKey, PolicyResource, key_of, read_evictions, title

log = logging.getLogger(__name__)


_PACE = 1.0
"""Seconds between two questions whether a policy changed."""
_COUNT_PACE = 60.0
"""Seconds between two writes of a status in which only the number of pods changed."""

Status = Mapping[str, Any]

_OURS = frozenset({"observedGeneration", "conditions", "pods", "nodes", "devices", "preemption"})
"""The fields of a status that are written here."""


class PolicyStatusWriter:
    """Keeps the status of every policy current; for the leader only.

    Parameters
    ----------
    api, clock
        The API server, and the time for the conditions' transitions.
    report
        Says what is to be said now.
    generation
        Changes when a policy does: its status then follows within a second.
    interval
        Seconds between two looks at what changes without a policy: counts of pods, models of cards.
    """

    def __init__(
        self,
        api: ApiClient,
        clock: Clock,
        report: Callable[[], Sequence[PolicyReport]],
        generation: Callable[[], int],
        interval: float,
    ) -> None:
        self._api = api
        self._clock = clock
        self._report = report
        self._generation = generation
        self._interval = interval
        self._written: dict[PolicyKey, tuple[str, Status]] = {}
        self._counted: dict[str, float] = {}
        self.writes = 0

    async def run(self) -> None:
        """Write what changed, again and again, until cancelled."""
        seen, looked = -1, 0.0
        while True:
            now = self._clock.monotonic()
            if self._generation() != seen or now - looked >= self._interval:
                seen, looked = self._generation(), now
                with errors_logged(log, "policy status"):
                    await self.write()
            await asyncio.sleep(_PACE)

    async def write(self) -> None:
        """Write the status of each policy for which it changed."""
        reports = self._report()
        current = {key_of(report.policy) for report in reports}
        self._written = {key: status for key, status in self._written.items() if key in current}
        uids = {report.policy.uid for report in reports}
        self._counted = {uid: when for uid, when in self._counted.items() if uid in uids}
        for report in reports:
            await self._write_one(report)

    async def _write_one(self, report: PolicyReport) -> None:
        policy = report.policy
        known = await self._known(policy)
        if known is None:
            return
        status = status_body(report, known, rfc3339(self._clock.now()))
        if status == known or self._may_wait(policy, status, known):
            return
        # The UID makes a policy of the same name that came later refuse the patch.
        body = {"metadata": {"uid": policy.uid}, "status": status}
        response = await self._api.request(
            "PATCH", f"{policy_path(*key_of(policy))}/status", body=body, content_type=MERGE_PATCH
        )
        if response.ok:
            self.writes += 1
            self._written[key_of(policy)] = (policy.uid, status)
            self._counted[policy.uid] = self._clock.monotonic()
        elif response.status != HTTPStatus.NOT_FOUND:  # deleted meanwhile, perhaps with its definition
            self._written.pop(key_of(policy), None)
            log.warning("policy status of %s: %s", policy.name, response.message)

    def _may_wait(self, policy: PolicyResource, status: Status, known: Status) -> bool:
        """Tell whether nothing but the count of pods changed, and that was written not long ago."""
        counted = self._counted.get(policy.uid)
        if counted is None or self._clock.monotonic() - counted >= _COUNT_PACE:
            return False
        return {**status, "pods": 0} == {**known, "pods": 0}

    async def _known(self, policy: PolicyResource) -> Status | None:
        """Return the status that the policy has; it is read once, for a former leader may have written it."""
        written = self._written.get(key_of(policy))
        if written is not None and written[0] == policy.uid:
            return written[1]
        response = await self._api.request("GET", policy_path(*key_of(policy)))
        if not response.ok:
            if response.status != HTTPStatus.NOT_FOUND:
                log.warning("policy status of %s cannot be read: %s", policy.name, response.message)
            return None
        found = response.json()
        if found["metadata"].get("uid") != policy.uid:
            return None
        # Of the rest, which is another's, nothing is written: a merge patch leaves it as it is.
        status: Status = {name: value for name, value in (found.get("status") or {}).items() if name in _OURS}
        _tell_of_evictions(policy, found.get("status"))
        self._written[key_of(policy)] = (policy.uid, status)
        return status


def status_body(report: PolicyReport, known: Status, now: str) -> dict[str, Any]:
    """Return the whole status; a condition whose status stays keeps the time of its last transition."""
    before = {}
    with contextlib.suppress(TypeError, KeyError):  # whatever wrote it, it is replaced
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
    """Name the records of evictions that cannot be read: they do not count towards the limit per hour."""
    for problem in read_evictions(status)[1]:
        log.warning("%s: %s, and does not count", title(policy), problem)


def policy_path(kind: str, namespace: str, name: str) -> str:
    """Return the path of a policy."""
    return object_path(f"/apis/{GROUP}/{VERSION}/{PLURALS[kind]}", namespace, name)
