"""What a pod's condition and event tell of its group, for readers who may not read the PodGroup object."""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.engine import counted_at_once
from vgpu_scheduler.engine.group_attempts import is_placed_as_group, needed_pods_in
from vgpu_scheduler.groups import GROUP_SOURCES, membership
from vgpu_scheduler.kube import Pod, PodGroup
from vgpu_scheduler.whatif.world.world import World

_KINDS: Final = {source.name: source.kinds for source in GROUP_SOURCES}


def note_group(world: World, pod: Pod, message: str, event: str) -> None:
    """Have the world know what a pod's condition and event tell of its group, if the kind of its object was refused.

    A pod waits for others, or for the object, only if the API server serves that kind. How many pods the group needs
    is taken for the minimum of an object that was not read.

    Parameters
    ----------
    message, event
        The messages of the condition and the event; empty if there is none.
    """
    member, groups = membership(pod), world.engine.groups
    if member is None or member.problem or member.minimum is not None or groups.key_of(pod.uid) != member.key:
        return
    kinds = [kind.name for kind in _KINDS[member.key.source] if kind.name in groups.refused]
    incomplete, at_once = needed_pods_in(message), counted_at_once(event)
    if not kinds or not (at_once or is_placed_as_group(message)):
        return
    for kind in kinds:
        groups.cannot_list(kind)
    status = groups.status(member.key)
    minimum = incomplete[1] if incomplete else status.placed + at_once if at_once else 0
    if minimum and groups.object_of(member.key) is None:
        namespace, name = member.key.namespace, member.key.name
        unread = PodGroup(kind=kinds[0], uid="", namespace=namespace, name=name, resource_version=0, minimum=minimum)
        groups.observe_object(unread)
