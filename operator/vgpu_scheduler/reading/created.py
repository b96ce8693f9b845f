"""New pods and claims as the API server's admission creates them, or refuses to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.kube import Object, Pod, QuantityError, claim_refusals
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.reading.admitted_form import as_admitted
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.objects.limited import LimitedPod, as_limited, limit_refusals
from vgpu_scheduler.whatif.objects.objects import namespace_of

_REFUSED: Final = "the API server refuses to create it: {}"


def as_created(
    world: World, settings: Settings, pods: Sequence[Mapping[str, Any]], namespace: str
) -> tuple[Sequence[Mapping[str, Any]], list[str], str]:
    """Return pods as they are stored, notes about what admission changes, and why it refuses them, if it does.

    The order is that of the API server: LimitRanges and the priority class, webhooks, and then what is checked.

    Parameters
    ----------
    pods
        The pods of one template, as written and well-formed; at least one. They differ in names alone.
    """
    creation = world.creation
    ranges, notes = creation.limit_ranges(namespace), list[str]()
    limited, completed = LimitedPod(pods[0], ()), pods
    if ranges:
        found = [as_limited(pod, ranges) for pod in pods]
        limited = found[0]
        if limited.taken:
            completed = [each.pod for each in found]
            notes += limited.notes
    if creation.with_class(pods[0]) is not pods[0]:
        completed = [creation.with_class(pod) for pod in completed]
    stored, note = as_admitted(world, settings, completed, namespace)
    notes += [note] if note else []
    refusals = list(limit_refusals(limited._replace(pod=stored[0]), ranges))
    if missing := creation.class_refusal(pods[0]):
        refusals.insert(0, missing)
    return stored, notes, _REFUSED.format("; ".join(refusals)) if refusals else ""


def refuse(world: World, pods: Sequence[Pod], why: str) -> None:
    """Have pods count as refused by the API server; an empty reason changes nothing."""
    world.creation.refused |= {pod.uid: why for pod in pods if why}


def claim_problems(world: World, claims: Sequence[Object]) -> Iterator[tuple[Object, str]]:
    """Yield the volume claims that LimitRanges refuse, with the reason."""
    for claim in claims:
        for each in world.creation.limit_ranges(namespace_of(mapping_of(claim.get("metadata")))):
            try:
                for refusal in claim_refusals(claim, each):
                    yield claim, f"the API server refuses it: {each.title}: {refusal}"
            except QuantityError:
                continue  # said where the claim is read
