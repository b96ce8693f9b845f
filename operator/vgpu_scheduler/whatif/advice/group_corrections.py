"""Correct the pods of a group, if one of them is refused because of how it is written, or misspells a resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.whatif.advice.corrections import corrected, refusal_of, respelt
from vgpu_scheduler.whatif.advice.joining import join_needed
from vgpu_scheduler.whatif.advice.remedy import say
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World


@contextmanager
def members_corrected(world: World, members: Sequence[Pod]) -> Iterator[str]:
    """Replace mistaken pods by corrected ones for the time of a question, and yield a sentence with the corrections.

    These are pods that are refused, and pods that misspell the name of a resource. If there are none, or no correction
    is known, the sentence is empty and nothing is replaced.
    """
    by_text: dict[str, list[str]] = {}
    with ExitStack() as stack:
        for member in members:
            written = world.written(member)
            meant = (corrected if refusal_of(world, written) else respelt)(world, written)
            if meant.changes:
                by_text.setdefault(say(meant.and_then()), []).append(member.name)
                stack.callback(world.replace_pod, member, written)
                _rewrite(world, member, meant.written)
        yield join_needed(
            [
                f"{text} ({'pod' if len(names) == 1 else 'pods'} {few(names, 'of its group')})"
                for text, names in by_text.items()
            ]
        )


def _rewrite(world: World, member: Pod, written: Object) -> None:
    read = world.pod(written, again=True)
    world.replace_pod(msgspec.structs.replace(read, uid=member.uid), written)
