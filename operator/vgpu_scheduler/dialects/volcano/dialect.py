"""The Volcano dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations.

It supports cards that are shared by ``hami-core``, and cards in MIG mode whose geometries are configured; other cards
in MIG mode are never given out. NUMA nodes and Koordinator's card scores are refused by name. Volcano's own scheduler
ignores the health of cards; here unhealthy cards are not given out.
"""

from __future__ import annotations

from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.volcano.allocation import VolcanoAllocation
from vgpu_scheduler.dialects.volcano.inventory import VolcanoInventory
from vgpu_scheduler.dialects.volcano.names import NAME, VolcanoNames
from vgpu_scheduler.dialects.volcano.node_side import PluginVersion, VolcanoNodeSide
from vgpu_scheduler.dialects.volcano.pods import VolcanoClaims


def volcano_dialect(names: VolcanoNames | None = None, plugin: PluginVersion = PluginVersion.V1_12) -> Dialect:
    """Return Volcano's wire format.

    Parameters
    ----------
    names
        Resource names; Volcano's own by default.
    plugin
        The version of the nodes' device plugin.
    """
    names = names or VolcanoNames()
    return Dialect(
        NAME,
        VolcanoInventory(names),
        VolcanoClaims(names),
        VolcanoAllocation(names),
        VolcanoNodeSide(names, plugin),
    )
