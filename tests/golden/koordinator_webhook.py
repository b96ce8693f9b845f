"""Golden cases of Koordinator's webhook: what it makes of a pod's resources, which here no webhook does.

A pod that went through it, as in a cluster where koord-manager runs, asks for the same as one that did not. Where it
does not, the twin of the webhook says why: with the quirk switched off, it does.
"""

from __future__ import annotations

from typing import Any

from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.koordinator_quirks import KOORDINATOR
from tests.naive.koordinator_webhook import mutated

from vgpu_scheduler.dialects import ClaimError
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import PodClaims

_DIALECT = koordinator_dialect()


def run_case(case: Case) -> Outcome:
    """Hold the twin against the webhook, and what a pod asks for against what it asked for before."""
    given = [container["resources"] for container in case["pod"]["spec"]["containers"]]
    on, off = Switches(KOORDINATOR), Switches(NONE)
    theirs = mutated(given, on)
    expected = case["expect"]
    found = [
        *differences("twin.containers", expected["containers"], theirs),
        *differences("twin.mutated", expected["mutated"], theirs != given),
    ]
    asked, left = _asks(case, given), _asks(case, mutated(given, off))
    if asked != left:
        found.append(f"product: asked for {asked}, and after the webhook for {left}")
    if found:
        return Outcome("failed", "; ".join(found))
    quirks = responsible(
        _asks(case, theirs), asked, lambda some: _asks(case, mutated(given, Switches(some))), on.asked, KOORDINATOR
    )
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _asks(case: Case, resources: list[dict[str, Any]]) -> PodClaims | None:
    """Return what a pod asks for; None for one that is refused."""
    pod = case["pod"]
    containers = [
        {**container, "resources": each} for container, each in zip(pod["spec"]["containers"], resources, strict=True)
    ]
    metadata = {**pod["metadata"], "uid": "uid"}
    try:
        return _DIALECT.claims.read(decode_pod({**pod, "metadata": metadata, "spec": {"containers": containers}}))
    except ClaimError:
        return None
