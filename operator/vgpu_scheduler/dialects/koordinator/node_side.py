"""Koordinator's node side: koordlet, which reads the allocation from the pod that it starts."""

from __future__ import annotations

from vgpu_scheduler.dialects.node_side import LocklessNodeSide, version_of_image

_OLDEST = (1, 6)
"""The first version of koordlet that enforces shares by HAMi-core and sets up RDMA devices."""


class KoordinatorNodeSide(LocklessNodeSide):
    """koordlet: it has no lock, no plugin keys and no answer."""

    def version_problem(self, image: str) -> str | None:
        """Return a message if koordlet is too old to enforce shares and to set up RDMA devices."""
        version = version_of_image(image, "koordlet")
        if version is None:
            return None
        if version >= _OLDEST:
            return ""
        return (
            f"koordlet is v{version[0]}.{version[1]}, which limits no share and sets up no RDMA device: "
            f"v{_OLDEST[0]}.{_OLDEST[1]} and newer ones do"
        )
