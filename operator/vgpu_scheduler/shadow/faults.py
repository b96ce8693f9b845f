"""What is wrong in the books of another scheduler and with its locks: the doctor's rules, followed over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from vgpu_scheduler.doctor import CHECKS, ClusterSnapshot, ExpectedSettings, Finding, Server
from vgpu_scheduler.shadow.records import Fault
from vgpu_scheduler.whatif import World

_UNBOUND: Final = "allocation-unbound"
OVER: Final = frozenset({"card-over-capacity"})
"""More of a card was given out than it has."""
LEAKED: Final = frozenset(
    {
        _UNBOUND,
        "allocation-phantom",
        "allocation-orphan",
        "allocation-elsewhere",
        "allocation-unreadable",
        "pod-unaccounted",
    }
)
"""Cards that are kept from others by somebody who does not use them, or nobody can tell who uses which."""
STALLED: Final = frozenset({"lock-stale", "lock-unanswered", "lock-malformed"})
"""The lock of a node that keeps pods away for no good reason."""
_CHECKS: Final = tuple(
    check for check in CHECKS if {diagnosis.id for diagnosis in check.diagnoses} <= OVER | LEAKED | STALLED
)


def find(world: World, now: float, min_duration: float) -> list[Finding]:
    """Return what is wrong now.

    What the other scheduler has announced and not bound is among it, be it about to be bound: only time tells.

    Parameters
    ----------
    min_duration
        Seconds for which a lock may be held.
    """
    engine, time = world.engine, datetime.fromtimestamp(now, UTC)
    seen = ClusterSnapshot(
        expected=ExpectedSettings(
            source="",
            options=replace(engine.options, coexist_with=(), node_side_timeout=min_duration),
            namespace="",
            lease_name="",
            lease_namespace="",
            lease_seconds=0.0,
        ),
        server=Server("", None, time, time),
        objects={"Node": list(engine.state.all_nodes()), "Pod": list(world.pods.values())},
        engine=engine,
    )
    return [told for check in _CHECKS for told in check.run(seen) if isinstance(told, Finding)]


def follow(
    faults: list[Fault],
    findings: Iterable[Finding],
    now: float,
    min_duration: float,
    was_bound: Callable[[Fault], bool],
) -> None:
    """Note which faults last, which are over, and which are new; forget those that are over and not worth a word.

    Parameters
    ----------
    was_bound
        Tells whether the pod of a fault was bound since the fault came: what is announced and bound later is no leak.
    """
    lasting = {(fault.id, fault.object, fault.about): fault for fault in faults if fault.lasts}
    for finding in findings:
        fault = lasting.pop((finding.diagnosis.id, str(finding.ref), finding.about), None)
        if fault is None:
            fault = Fault(finding.diagnosis.id, str(finding.ref), finding.about, finding.message, now, now)
            faults.append(fault)
        fault.message, fault.seen = finding.message, now
    for fault in lasting.values():
        fault.lasts = False
    bound = {id(fault) for fault in lasting.values() if fault.id == _UNBOUND and was_bound(fault)}
    faults[:] = [
        fault for fault in faults if fault.lasts or (id(fault) not in bound and _is_reported(fault, min_duration))
    ]


def named(faults: Iterable[Fault], min_duration: float) -> list[Fault]:
    """Return those that are worth a word."""
    return [fault for fault in faults if _is_reported(fault, min_duration)]


def _is_reported(fault: Fault, min_duration: float) -> bool:
    """Tell whether a fault has lasted, as locks had before the doctor said a word."""
    return fault.id in STALLED or fault.seen - fault.since >= min_duration
