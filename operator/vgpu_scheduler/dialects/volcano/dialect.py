"""The Volcano dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations.

It supports cards that are shared by ``hami-core``, and cards in MIG mode whose geometries are configured; other cards
in MIG mode are never given out. NUMA nodes and Koordinator's card scores are refused by name. Volcano's own scheduler
ignores the health of cards; here unhealthy cards are not given out.
"""

from __future__ import annotations

from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.volcano.allocation import VolcanoAllocation
from vgpu_scheduler.dialects.volcano.inventory import VolcanoInventory
from vgpu_scheduler.dialects.volcano.names import NAME, VolcanoRequests
from vgpu_scheduler.dialects.volcano.node_side import PluginVersion, VolcanoNodeSide
from vgpu_scheduler.dialects.volcano.pods import VolcanoClaims


def volcano_dialect(requests: VolcanoRequests | None = None, plugin: PluginVersion = PluginVersion.V1_12) -> Dialect:
    """Return Volcano's wire format.

    Parameters
    ----------
    requests
        The resource names and their units; Volcano's own by default.
    plugin
        The version of the nodes' device plugin.
    """
    requests = requests or VolcanoRequests()
    return Dialect(
        NAME,
        VolcanoInventory(requests),
        VolcanoClaims(requests),
        VolcanoAllocation(requests),
        VolcanoNodeSide(requests, plugin),
    )
