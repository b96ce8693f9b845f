"""NVIDIA under HAMi: names, keys and units."""

from __future__ import annotations

from dataclasses import dataclass

VENDOR = "NVIDIA"
REGISTER_ANNOTATION = "hami.io/node-nvidia-register"
CORDON_ANNOTATION = "hami.io/device-cordon"
TO_ALLOCATE_ANNOTATION = "hami.io/vgpu-devices-to-allocate"
ALLOCATED_ANNOTATION = "hami.io/vgpu-devices-allocated"

USE_TYPE = "nvidia.com/use-gputype"
NO_USE_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "nvidia.com/use-gpuuuid"
NO_USE_UUID = "nvidia.com/nouse-gpuuuid"
MODE = "nvidia.com/vgpu-mode"
NUMA_BIND = "nvidia.com/numa-bind"

MODE_MIG = "mig"

POD_ANNOTATIONS = (USE_TYPE, NO_USE_TYPE, USE_UUID, NO_USE_UUID, MODE, NUMA_BIND)


@dataclass(frozen=True, slots=True)
class NvidiaNames:
    """Resource names and defaults, as HAMi's ``device-config.yaml`` configures them (section ``nvidia``).

    Attributes
    ----------
    memory_factor
        What one unit of the memory resource stands for, in MiB.
    default_memory
        MiB for a container that names a count only; 0 means the whole card.
    default_cores
        Percent for a container that does not name cores.
    """

    count: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    memory_percent: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"
    memory_factor: int = 1
    default_memory: int = 0
    default_cores: int = 0

    @property
    def amounts(self) -> tuple[str, ...]:
        """The resources that say how much of a card, and mean nothing without the count."""
        return (self.memory, self.memory_percent, self.cores)

    @property
    def ignored(self) -> frozenset[str]:
        """The resources that no kubelet knows and the resource filter must leave alone."""
        return frozenset({self.memory, self.memory_percent, self.cores, self.priority})
