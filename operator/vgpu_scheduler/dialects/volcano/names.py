"""Names and keys of Volcano's vGPU device plugin."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.dialects.hami.templates import MigGeometry

NAME = "volcano"
VENDOR = "NVIDIA"

REGISTER_ANNOTATION = "volcano.sh/node-vgpu-register"
NODE_ANNOTATION = "volcano.sh/vgpu-node"
TIME_ANNOTATION = "volcano.sh/vgpu-time"
ALLOCATED_ANNOTATION = "volcano.sh/vgpu-ids-new"
TO_ALLOCATE_ANNOTATION = "volcano.sh/devices-to-allocate"
BIND_PHASE_ANNOTATION = "volcano.sh/bind-phase"
BIND_TIME_ANNOTATION = "volcano.sh/bind-time"
PHASE_ALLOCATING = "allocating"
PHASE_SUCCESS = "success"
PHASE_FAILED = "failed"

USE_UUID = "volcano.sh/vgpu-use-gpuuuid"
NO_USE_UUID = "volcano.sh/vgpu-nouse-gpuuuid"
USE_TYPE = "nvidia.com/use-gputype"
NO_USE_TYPE = "nvidia.com/nouse-gputype"
MODE = "volcano.sh/vgpu-mode"
PODGROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
SPREAD_IN_GROUP = "spread"

POD_ANNOTATIONS = (USE_UUID, NO_USE_UUID, USE_TYPE, NO_USE_TYPE, MODE, PODGROUP_POLICY)

MODE_MIG = "mig"
MODE_CORE = "hami-core"
MODES = (MODE_CORE, MODE_MIG)


@dataclass(frozen=True, slots=True)
class VolcanoRequests:
    """Resource names, as the ``nvidia`` section of Volcano's ``device-config.yaml`` configures them.

    Attributes
    ----------
    count
        Cards per container.
    memory
        Memory per card, in units of ``memory_factor`` MiB.
    memory_percent
        Percent of a card's memory; empty, as in Volcano's own default, for no such resource.
    cores
        Percent of a card's compute.
    memory_factor
        The MiB per unit of memory, in claims and in the plugin's registration (``gpuMemoryFactor``).
    mig_geometries
        The templates for cards in MIG mode; none by default.
    """

    count: str = "volcano.sh/vgpu-number"
    memory: str = "volcano.sh/vgpu-memory"
    memory_percent: str = ""
    cores: str = "volcano.sh/vgpu-cores"
    memory_factor: int = 1
    mig_geometries: tuple[MigGeometry, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The distinct names of groups of instances; the position of a name is its number for all models."""
        return tuple(dict.fromkeys(name for geometry in self.mig_geometries for name in geometry.names))

    @property
    def amounts(self) -> tuple[str, ...]:
        """The resources for amounts of a card."""
        return tuple(name for name in (self.memory, self.memory_percent, self.cores) if name)
