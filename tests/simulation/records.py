"""What must hold of the evictions that policies record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tests.simulation.evictions import policy_of, recorded
from tests.simulation.things import SimThing
from tests.simulation.world import REACHED

from vgpu_scheduler.intake import POLICIES

if TYPE_CHECKING:
    from tests.simulation.evictor import Request
    from tests.simulation.preemption import PreemptionMachine

COUNTS_FOR: Final = 3600.0 - 90.0
"""Seconds for which an eviction counts for sure: so many may pass between its record and its request."""
_TRIES: Final = 4
"""How often a record is tried to be written."""


def note_records(machine: PreemptionMachine, request: Request, policy: SimThing, before: Mapping[str, str]) -> None:
    """Check that a leader takes no record back of a pod that was evicted within the hour.

    What a former leader has sent comes whenever it comes: it could not know of that, and evicts nobody any more.
    """
    REACHED["recorded in the policy of a namespace"] += policy.kind is POLICIES
    if not request.leader.leads:
        machine.excused.update(recorded(policy).keys() - before.keys())
        return
    for uid in before.keys() - recorded(policy).keys():
        sent = [at for at, victim, of in machine.evicted if (victim, of) == (uid, policy.uid)]
        REACHED["record taken back"] += 1
        if sent and machine.now - max(sent) < COUNTS_FOR:
            machine.wrong.append(AssertionError(f"{uid} was evicted, and {policy.key} does not record it any more"))


def note_failure(machine: PreemptionMachine, request: Request) -> None:
    """Note of which records nobody can tell any more whether they are right."""
    policy = policy_of(machine, request)
    if policy is not None:
        machine.excused.add(policy.uid)
    elif request.path.endswith("/eviction") or request.method == "DELETE":
        machine.excused.add((request.body.get("deleteOptions") or request.body)["preconditions"]["uid"])


def note_conflict(machine: PreemptionMachine, policy: str) -> None:
    """Note that somebody else wrote a policy first: after a few times a record is not written at all."""
    machine.conflicts[policy] += 1
    if machine.conflicts[policy] >= _TRIES:
        machine.excused.add(policy)


def check_records(machine: PreemptionMachine) -> None:
    """Check, once nothing is under way, that policies record nobody who was not evicted.

    Where a request failed, others wrote again and again, or a leader did not live to see the answer, a record may stay:
    it counts for an hour. So it does where a policy limits no more when the pod is evicted that was to count in it.
    """
    if machine.under_way() or machine.requests():
        return
    evicted = machine.victims
    for policy in machine.policies():
        for uid in () if policy.uid in machine.excused else recorded(policy):
            assert uid in machine.excused | evicted, f"{policy.key} records {uid}, who was not evicted"
