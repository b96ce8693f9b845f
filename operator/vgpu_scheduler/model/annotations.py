"""The annotations that are this scheduler's own."""

from __future__ import annotations

DECISION = "vgpu-scheduler.io/decision"
"""On a pod: the short record of the decision that its Binding carried out."""
LAST_ALLOCATED = "vgpu-scheduler.io/last-allocated"
"""On a node: the UID of the pod that was last allocated there, the token that fences a second leader."""
