"""Make a world, about which the engine can be asked, from what was read of a cluster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from vgpu_scheduler.groups import GROUP_SOURCES, POD_GROUP_KINDS
from vgpu_scheduler.reading.view import REQUIRED_KINDS, ClusterView
from vgpu_scheduler.whatif import InvalidObjectsError, World, take_up_preemptions

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
"""The time of reading if it is unknown, so that nothing has an age."""


class MissingRightsError(Exception):
    """The user may not read objects on which the answer depends.

    Attributes
    ----------
    scheduler
        The settings, as far as they could be read.
    is_forbidden
        Whether a right is missing; otherwise the lists failed for other reasons.
    """

    def __init__(self, view: ClusterView) -> None:
        self.scheduler = view.scheduler
        missing = [view.missing[kind] for kind in sorted(view.missing) if kind in REQUIRED_KINDS]
        self.is_forbidden = any(each.is_forbidden for each in missing)
        super().__init__(f"you may not {', '.join(map(str, missing))}")


_OFTEN_LEFT_OUT: Final = ("PersistentVolumeClaim",)
"""Kinds that files often lack, without which pods are understood all the same."""


def make_world(
    view: ClusterView, required: Collection[str] = REQUIRED_KINDS, *, preemption: bool | None = None
) -> World:
    """Make a world from what was read.

    Parameters
    ----------
    required
        The kinds without which nothing can be said.
    preemption
        Overrides the setting.

    Raises
    ------
    InvalidObjectsError
        If an object cannot be understood.
    MissingRightsError
        If the user may not list objects of a required kind.
    """
    if set(required) & view.missing.keys():
        raise MissingRightsError(view)
    options = view.scheduler.options
    world = World(options if preemption is None else replace(options, preemption=preemption))
    world.engine.groups.served |= view.kinds.intersection(kind.name for kind in POD_GROUP_KINDS)
    world.engine.groups.refused |= view.refused | view.missing.keys()
    for source in GROUP_SOURCES if view.live else ():
        if source.needs_object and not any(kind.name in view.kinds for kind in source.kinds):
            world.engine.groups.cannot_list(source.kinds[0].name)  # the kind may not exist, or may not be listed
    world.unread = frozenset({*view.missing, *(kind for kind in _OFTEN_LEFT_OUT if not view.has_read(kind))})
    world.creation.knows_classes = view.has_read("PriorityClass")
    world.add(view.objects)
    if view.has_read("Pod"):  # otherwise the owners of locks are unknown
        world.review_locks(view.read_at or _LONG_AGO)
    if not world.nodes and not view.live:
        raise InvalidObjectsError(f"{view.origin}: there is no Node among the objects of the cluster")
    return world


def keep_room(world: World, view: ClusterView) -> None:
    """Restore the room that the scheduler has reserved for pods after preemptions."""
    take_up_preemptions(world, view.read_at or _LONG_AGO)
