"""The pods of a group as they are probably meant, where one of them is refused for how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.whatif.advice.corrections import corrected, refusal_of
from vgpu_scheduler.whatif.advice.remedy import say
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

__all__ = ["members_corrected"]


@contextmanager
def members_corrected(world: World, members: Sequence[Pod]) -> Iterator[str]:
    """Have those pods be written as they are meant that are refused, and yield in one sentence what that takes.

    The sentence is empty, and all stays as it is, where none is refused, or nobody knows what is meant.
    """
    by_text: dict[str, list[str]] = {}
    with ExitStack() as stack:
        for member in members:
            written = world.written(member)
            meant = corrected(world, written) if refusal_of(world, written) else None
            if meant is not None and meant.changes:
                by_text.setdefault(say(meant.and_then()), []).append(member.name)
                stack.callback(world.replace_pod, member, written)
                _rewrite(world, member, meant.written)
        yield " and ".join(
            f"{text} ({'pod' if len(names) == 1 else 'pods'} {few(names, 'of its group')})"
            for text, names in by_text.items()
        )


def _rewrite(world: World, member: Pod, written: Object) -> None:
    read = world.pod(written, again=True)
    world.replace_pod(msgspec.structs.replace(read, uid=member.uid), written)
