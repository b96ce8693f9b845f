"""NVIDIA under HAMi: names, keys and units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_scheduler.dialects.hami.templates import MigGeometry, Template, templates_of
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.model import nvidia_resources

VENDOR = "NVIDIA"
REGISTER_ANNOTATION = "hami.io/node-nvidia-register"
PAIR_SCORES_ANNOTATION = "hami.io/node-nvidia-score"
CORDON_ANNOTATION = "hami.io/device-cordon"
TO_ALLOCATE_ANNOTATION = "hami.io/vgpu-devices-to-allocate"
ALLOCATED_ANNOTATION = "hami.io/vgpu-devices-allocated"
MIG_ANNOTATION = "hami.io/vgpu-mig-allocations"

USE_TYPE = "nvidia.com/use-gputype"
NO_USE_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "nvidia.com/use-gpuuuid"
NO_USE_UUID = "nvidia.com/nouse-gpuuuid"
MODE = "nvidia.com/vgpu-mode"
NUMA_BIND = "nvidia.com/numa-bind"

MODE_MIG = "mig"
MODES = ("hami-core", MODE_MIG, "mps")


@dataclass(frozen=True, slots=True)
class MigAllowance:
    """The MIG profiles that may be used on cards of some models.

    Attributes
    ----------
    models
        Substrings of model names.
    profiles
        Names of profiles.
    """

    models: tuple[str, ...]
    profiles: tuple[str, ...]

    def __post_init__(self) -> None:
        if not all(self.models) or not all(self.profiles) or not self.models or not self.profiles:
            raise ValueError(f"{self}: models and profiles must be named")


KNOWN_GEOMETRIES = (
    MigGeometry(("A30",), ((("1g.6gb", 6144, 4),), (("2g.12gb", 12288, 2),), (("4g.24gb", 24576, 1),))),
    MigGeometry(
        ("A100-SXM4-40GB", "A100-40GB-PCIe", "A100-PCIE-40GB"),
        (
            (("1g.5gb", 5120, 7),),
            (("2g.10gb", 10240, 3), ("1g.5gb", 5120, 1)),
            (("3g.20gb", 20480, 2),),
            (("7g.40gb", 40960, 1),),
        ),
    ),
    MigGeometry(
        ("A100-SXM4-80GB", "A100-80GB-PCIe", "A100-PCIE-80GB"),
        (
            (("1g.10gb", 10240, 7),),
            (("2g.20gb", 20480, 3), ("1g.10gb", 10240, 1)),
            (("3g.40gb", 40960, 2),),
            (("7g.79gb", 80896, 1),),
        ),
    ),
)
"""The geometries as configured in HAMi's chart (``knownMigGeometries``)."""


@dataclass(frozen=True, slots=True)
class NvidiaRequests(ShareRequests):
    """Resource names and defaults, as HAMi's ``device-config.yaml`` configures them (section ``nvidia``).

    Attributes
    ----------
    priority
        The resource for the priority between occupants of a card; only the plugin uses it.
    mig_allowances
        The allowed MIG profiles by model: the first matching entry counts; without one all are allowed. The device
        plugin has the same list (``migProfileAllowlist``) and registers no others.
    mig_geometries
        The templates of MIG cards that are registered without profiles, as by plugins of HAMi 2.5 to 2.9; the first
        matching entry counts.
    """

    count: str = nvidia_resources.COUNT
    memory: str = nvidia_resources.MEMORY
    memory_percent: str = nvidia_resources.MEMORY_PERCENTAGE
    cores: str = nvidia_resources.CORES
    priority: str = nvidia_resources.PRIORITY
    mig_allowances: tuple[MigAllowance, ...] = ()
    mig_geometries: tuple[MigGeometry, ...] = KNOWN_GEOMETRIES

    def mig_templates(self, model: str) -> tuple[Template, ...]:
        """Return the templates of cards of a model; none for unknown models."""
        return templates_of(self.mig_geometries, model)

    def mig_profiles(self, model: str) -> tuple[str, ...] | None:
        """Return the names of the MIG profiles that may be used on cards of a model; None for all."""
        found = (entry.profiles for entry in self.mig_allowances if any(part in model for part in entry.models))
        return next(found, None)

    @property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """The resource that is a choice, not an amount: the priority, which is high (0) or low (1)."""
        return {self.priority: (0, 1)} if self.priority else {}

    @property
    def unadvertised(self) -> tuple[str, ...]:
        """The resources that no kubelet knows."""
        return (*self.amounts, self.priority)
