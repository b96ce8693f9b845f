"""The annotations that are this scheduler's own."""

from __future__ import annotations

DECISION = "vgpu-scheduler.io/decision"
"""On a pod: the short record of the decision that its Binding carried out."""
LAST_ALLOCATED = "vgpu-scheduler.io/last-allocated"
"""On a node: the token that fences a second leader; see :func:`allocation_token`."""


def allocation_token(uid: str, version: int) -> str:
    """Return what a node says of the pod that was last allocated there: ``UID/version``.

    No token comes a second time after another leader has taken over: that one gives the pod a new version before it
    replaces the token. A leader that was frozen meanwhile expects the old token, and its write fails.

    Parameters
    ----------
    version
        That of the pod when it was allocated.
    """
    return f"{uid}/{version}"


def allocated_pod(token: str) -> str:
    """Return the UID of the pod that a token names; the first releases wrote the UID alone."""
    return token.partition("/")[0]
