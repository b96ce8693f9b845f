"""Faults in the allocations and locks of another scheduler: the doctor's findings, followed over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from vgpu_scheduler.doctor import CHECKS, DoctorInput, ExpectedSettings, Finding, Server
from vgpu_scheduler.shadow.records import Fault
from vgpu_scheduler.whatif import World

_UNBOUND: Final = "allocation-unbound"
OVER: Final = frozenset({"card-over-capacity"})
"""More of a card is allocated than it has."""
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
"""Cards are reserved without being used, or it is unknown which pod uses which card."""
STALLED: Final = frozenset({"lock-stale", "lock-unanswered", "lock-malformed"})
"""The lock of a node keeps pods away without a reason."""
_CHECKS: Final = tuple(
    check for check in CHECKS if {diagnosis.id for diagnosis in check.diagnoses} <= OVER | LEAKED | STALLED
)


def find(world: World, now: float, min_duration: float) -> list[Finding]:
    """Return the present findings.

    They include every allocation announced and not bound yet; only time tells which of these leak.

    Parameters
    ----------
    min_duration
        The seconds for which a lock may be held.
    """
    engine, time = world.engine, datetime.fromtimestamp(now, UTC)
    seen = DoctorInput(
        expected=ExpectedSettings(options=replace(engine.options, coexist_with=(), node_side_timeout=min_duration)),
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
    """Update the list of faults with new findings; drop faults that are over and were too short to report.

    Parameters
    ----------
    was_bound
        Tells whether the pod of a fault has been bound since the fault began, so that its allocation was no leak.
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
    """Return the faults that lasted long enough to report."""
    return [fault for fault in faults if _is_reported(fault, min_duration)]


def _is_reported(fault: Fault, min_duration: float) -> bool:
    """Tell whether a fault lasted long enough; faults of locks did, since the doctor waits before it reports them."""
    return fault.id in STALLED or fault.seen - fault.since >= min_duration
