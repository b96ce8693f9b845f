"""The rights that preemption needs, and how to recognise a refusal because of a missing right.

Refusals name the victims, but every pod that waits for a missing right reports it. So the text is built here; only the
name of our own user is taken from the API server's message.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, NamedTuple

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding.rights import refused_user

_NO_RIGHT: Final = re.compile(r"cannot (create|delete|patch) resource")
"""Matches the messages for a missing right; other refusals with the same status concern one pod."""
_NARROWED: Final = re.compile(
    r"^([a-z]+ \"[^\"]*\" is forbidden: )?ValidatingAdmissionPolicy 'vgpu-scheduler-conditions'"
)
"""Matches refusals by the admission policy that limits our patches, if no component extends it for preemption."""


class EvictionRight(NamedTuple):
    """A right that preemption needs.

    Attributes
    ----------
    verb, resource
        The verb and resource of the request.
    field
        The field that the request changes, if only some fields may be changed.
    exceeding
        Whether the right is needed only to exceed disruption budgets.
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
    """Return a text that names the missing right, if the answer means that; else empty."""
    said = response.message
    lacks = response.status == HTTPStatus.FORBIDDEN and _NO_RIGHT.search(said)
    if not lacks and not (
        response.status in {HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY} and _NARROWED.match(said)
    ):
        return ""
    return f"{refused_user(said)} cannot {right.verb} {right.resource}{f' ({right.field})' if right.field else ''}"
