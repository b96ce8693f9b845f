"""The Volcano dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations.

It covers cards that are shared by ``hami-core``, and those in MIG mode of models whose geometries are configured; other
cards in MIG mode are kept and never given out. NUMA nodes and Koordinator's card scores are refused by name. Volcano's
own scheduler does not look at a card's health; here an unhealthy card is given to nobody.
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
        Resource names; Volcano's own unless given.
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
