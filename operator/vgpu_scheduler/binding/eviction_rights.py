"""The rights that preemption needs, and how a refusal that says that one is missing is told from any other.

Refusals name the pods that they are about, and what is said of a missing right everybody reads who waits for it: so
that is put together here and never taken from the API server but for the name of our own user.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, NamedTuple

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding.rights import refused_user

__all__ = ["DELETE", "EVICT", "MARK", "NOMINATE", "EvictionRight", "missing_right"]

_NO_RIGHT: Final = re.compile(r"cannot (create|delete|patch) resource")
"""What API servers say where a right is missing; other refusals with the same status are about one pod."""
_NARROWED: Final = re.compile(
    r"^([a-z]+ \"[^\"]*\" is forbidden: )?ValidatingAdmissionPolicy 'vgpu-scheduler-conditions'"
)
"""What they say where the policy that narrows our own patches is not widened by a component."""


class EvictionRight(NamedTuple):
    """Something that has to be allowed.

    Attributes
    ----------
    verb, resource
        The request.
    field
        What of the resource it changes, where not all may be changed.
    exceeding
        Whether only those pods need it that may exceed disruption budgets.
    """

    verb: str
    resource: str
    field: str = ""
    exceeding: bool = False


NOMINATE: Final = EvictionRight("patch", "pods/status", "nominatedNodeName")
EVICT: Final = EvictionRight("create", "pods/eviction")
MARK: Final = EvictionRight("patch", "pods/status", "the condition DisruptionTarget", exceeding=True)
DELETE: Final = EvictionRight("delete", "pods", exceeding=True)


def missing_right(right: EvictionRight, response: ApiResponse) -> str:
    """Say which right is missing, if that is what an answer means; empty if it is not."""
    said = response.message
    lacks = response.status == HTTPStatus.FORBIDDEN and _NO_RIGHT.search(said)
    if not lacks and not (
        response.status in {HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY} and _NARROWED.match(said)
    ):
        return ""
    return f"{refused_user(said)} cannot {right.verb} {right.resource}{f' ({right.field})' if right.field else ''}"
