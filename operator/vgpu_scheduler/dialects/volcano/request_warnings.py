"""Warnings about requests for Volcano's cards that have an unexpected effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_scheduler.dialects.fixes import AnnotationFix, RequestWarning
from vgpu_scheduler.dialects.values import no_card, no_such_mode, number_of
from vgpu_scheduler.dialects.volcano import names as keys
from vgpu_scheduler.dialects.volcano.names import VolcanoRequests
from vgpu_scheduler.kube import Container
from vgpu_scheduler.model import quoted


def suspicious_annotations(annotations: Mapping[str, str]) -> Iterator[RequestWarning]:
    """Yield warnings about the values of annotations.

    Raises
    ------
    ClaimError
        If one names an unknown sharing mode, because no node would ever match.
    """
    mode = annotations.get(keys.MODE)
    if mode is not None and mode not in keys.MODES:
        raise no_such_mode(keys.MODE, mode, keys.MODES)
    spread = annotations.get(keys.PODGROUP_POLICY, keys.SPREAD_IN_GROUP)
    if spread != keys.SPREAD_IN_GROUP:
        yield RequestWarning(
            f"annotation {keys.PODGROUP_POLICY}: {quoted(spread)} has no effect: write {keys.SPREAD_IN_GROUP}",
            fix=AnnotationFix(keys.PODGROUP_POLICY, keys.SPREAD_IN_GROUP),
        )
    for name in (keys.USE_TYPE, keys.NO_USE_TYPE):
        value = annotations.get(name)
        if value is not None and any(part != part.strip() or not part for part in value.split(",")):
            said = f"annotation {name}: {quoted(value)} is compared including its spaces: write only names and commas"
            meant = ",".join(filter(None, map(str.strip, value.split(","))))
            yield RequestWarning(said, fix=AnnotationFix(name, meant))
    if keys.USE_TYPE in annotations and keys.NO_USE_TYPE in annotations:
        text = f"annotation {keys.NO_USE_TYPE} has no effect beside {keys.USE_TYPE}"
        yield RequestWarning(text, fix=AnnotationFix(keys.NO_USE_TYPE))


def suspicious_amounts(container: Container, requests: VolcanoRequests) -> Iterator[RequestWarning]:
    """Yield warnings about the amounts that a container requests."""
    asked = {**container.requests, **container.limits}
    amounts = {name: number_of(asked[name]) for name in (requests.count, *requests.amounts) if name in asked}
    given = [name for name in requests.amounts if amounts.get(name)]
    if amounts.get(requests.count) == 0:
        if given:
            yield no_card(container, requests.count, given)
    elif amounts.get(requests.memory) == 0 and requests.memory_percent not in given:
        what = f"{requests.memory}: 0 is not an amount"
        text = f"{what}, so it gets a whole card, unless a policy has a default"
        yield RequestWarning(text, f"{what}: write how much, or leave it out")
    elif requests.memory_percent in given and requests.memory in given:
        yield RequestWarning(f"{requests.memory} has no effect beside {requests.memory_percent}")
