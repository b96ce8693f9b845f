"""Checks of node locks: who holds each lock, and whether that pod still needs it."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.engine import FoundLock, LockStatus, find_lock, owner_of
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import measured_duration

MALFORMED = Diagnosis(
    "lock-malformed",
    Severity.ERROR,
    "The annotation that locks the node says neither when it was taken nor by which pod. Its owner is not "
    "known, so no scheduler replaces it, and no pod that needs the lock is placed on the node.",
    "Find out who wrote the annotation, and remove it from the node.",
)
UNANSWERED = Diagnosis(
    "lock-unanswered",
    Severity.ERROR,
    "A pod is bound to the node and holds its lock, and the device plugin has not allocated its cards, long after it"
    " should have. The plugin has ended, cannot write its answer, or the kubelet has not asked it. Until it answers,"
    " the node takes no other pod that needs the lock.",
    "Look at the device plugin's log on that node; deleting the pod releases the lock.",
)
STALE = Diagnosis(
    "lock-stale",
    Severity.WARNING,
    "The pod that holds the lock of the node has no use for it: it is gone, has ended, runs elsewhere or already has"
    " its cards, or was never bound. This scheduler replaces such a lock when it next needs the node; HAMi's waits for"
    " five minutes.",
    "Remove the annotation from the node, unless the scheduler is about to do it.",
)


def locks(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find locks that keep pods off nodes for no good reason."""
    engine = doctor_input.cluster_engine.engine
    judge, side = engine.closed_nodes.judge, engine.dialects.node_side
    for node in doctor_input.nodes:
        for kind in side.locks:
            lock = find_lock(node, kind, side)
            if lock is None:
                continue
            ref = ObjectRef("Node", node.name)
            if lock.parsed is None:
                yield MALFORMED.of(
                    ref, f"lock {kind.annotation} is {lock.value!r}, which names no time or no pod", kind.annotation
                )
                continue
            age = doctor_input.age(lock.parsed.taken_at)
            if age <= doctor_input.expected.options.node_side_timeout:
                continue
            owner = owner_of(engine, doctor_input.pods_by_key, lock)
            status = judge.status(lock, owner, doctor_input.server.now)
            said = f"lock {kind.annotation} was taken {measured_duration(age)} ago{_by(lock, owner)}"
            if status is LockStatus.ORPHANED:
                yield STALE.of(ref, f"{said}, and no pod needs it any more", kind.annotation)
            elif judge.is_silent(lock, owner, doctor_input.server.now):
                yield UNANSWERED.of(
                    ref, f"{said}, which is bound here and has not been served by the device plugin", kind.annotation
                )


def _by(lock: FoundLock, owner: Pod | None) -> str:
    if lock.parsed is None or not lock.parsed.owner:
        return f" by pod {owner.key}, which it does not name" if owner else " by an owner that it does not name"
    return f" by pod {lock.parsed.owner}" + ("" if owner else " (which does not exist)")


CHECKS = (Check("locks", ("Node", "Pod"), (MALFORMED, UNANSWERED, STALE), locks),)
