"""Which dialect the settings would have to list first, where two of them know a name that a pod asks for."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyKind, do

__all__ = ["list_other_dialect_first"]


def list_other_dialect_first(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Name the dialects of which nodes have cards, and which would own the names of the pod if they were listed first.

    Where the pod goes then is not known: other pods would be read otherwise, too.
    """
    world = waiting.world
    asked = waiting.ours.spec.resource_names.keys()
    dialects = list(world.engine.dialects)
    for number, dialect in enumerate(dialects):
        known = asked & set(dialect.claims.resources)
        earlier = [each for each in dialects[:number] if known & set(each.claims.resources)]
        if not earlier or not waiting.is_claim(dialect, waiting.written):
            continue
        if world.engine.state.matrix(dialect.name).live_vendors():
            first = earlier[0].name
            shared = ", ".join(sorted(known & set(earlier[0].claims.resources)))
            text = (
                f"have the setting dialects list {dialect.name} before {first}: of those that know {shared} the first"
                f" is meant, and nodes have cards of {dialect.name}"
            )
            yield Remedy(RemedyKind.CHANGE_SETTING, do(text), "")
