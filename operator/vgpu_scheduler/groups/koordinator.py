"""Koordinator's gangs, as annotations of pods say them without any object.

See https://koordinator.sh/docs/user-manuals/gang-scheduling (v1.6). Its ``total-number``, ``mode`` and ``waiting-time``
are about pods that keep room while they wait for others: here none is kept, and a gang that is incomplete waits.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.groups.source import GroupKey, GroupSource, Membership, read_minimum
from vgpu_scheduler.kube import Pod

__all__ = ["KOORDINATOR"]

_SOURCE: Final = "koordinator"
_NAME: Final = "gang.scheduling.koordinator.sh/name"
_MINIMUM: Final = "gang.scheduling.koordinator.sh/min-available"


def _membership(pod: Pod) -> Membership | None:
    name = pod.annotations.get(_NAME)
    if not name:
        return None
    minimum, problem = read_minimum(pod.annotations.get(_MINIMUM, ""), f"annotation {_MINIMUM}")
    return Membership(GroupKey(_SOURCE, pod.namespace, name), f"annotation {_NAME}", minimum, problem)


KOORDINATOR: Final = GroupSource(_SOURCE, _membership)
