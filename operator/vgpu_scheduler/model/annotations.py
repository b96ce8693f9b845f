"""The annotations that are this scheduler's own."""

from __future__ import annotations

DECISION = "vgpu-scheduler.io/decision"
"""On a pod: the short record of the decision that its Binding carried out."""
LAST_ALLOCATED = "vgpu-scheduler.io/last-allocated"
"""On a node: the token that fences a second leader; see :func:`allocation_token`."""


def allocation_token(uid: str, leader: str) -> str:
    """Return what a node says of the pod that was last allocated there, and by whom: ``UID/leader``.

    Another leader never writes the same: one that was frozen meanwhile expects the old token, and its write fails.

    Parameters
    ----------
    leader
        A text that no other process has.
    """
    return f"{uid}/{leader}"


def allocated_pod(token: str) -> str:
    """Return the UID of the pod that a token names; the first releases wrote the UID alone."""
    return token.partition("/")[0]
