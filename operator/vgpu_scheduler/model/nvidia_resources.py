"""The names of the resources of NVIDIA cards under HAMi, where none are configured."""

from __future__ import annotations

from typing import Final

COUNT: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
MEMORY_PERCENTAGE: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"
PRIORITY: Final = "nvidia.com/priority"
