"""The fields of written pods that list containers, and what these ask for."""

from __future__ import annotations

from typing import Final

CONTAINER_FIELDS: Final = ("initContainers", "containers")
"""The fields of a pod's spec that list containers which may ask for resources, in the order in which they start."""
AMOUNT_FIELDS: Final = ("limits", "requests")
"""The fields of a container's resources that list amounts."""
