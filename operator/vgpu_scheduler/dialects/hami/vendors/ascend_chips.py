"""Huawei's chips as configured: their resource names, and the sizes in which they are given out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.dialects.values import whole_amount
from vgpu_scheduler.kube import Container
from vgpu_scheduler.model import NO_DEFAULTS, WHOLE, Claim, ClaimDefaults

SOFT_POD, SOFT = "huawei.com/vnpu-mode", "hami-core"
"""The annotation of pods that share chips softly, and its value."""
MODULE = 2
"""Number of chips of a module."""


@dataclass(frozen=True, slots=True)
class NpuTemplate:
    """One way in which a chip can be cut: its name, and MiB of memory."""

    name: str
    memory: int


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of chip, as section ``vnpus`` of HAMi's ``device-config.yaml`` configures it.

    Attributes
    ----------
    key
        HAMi's name (``commonWord``).
    templates
        Its templates, the smallest first.
    allocatable
        MiB that a pod gets of a whole chip (``memoryAllocatable``).
    capacity
        MiB of the chip (``memoryCapacity``).
    memory_factor
        MiB per unit of the memory resource.
    count, memory, cores
        Resource names; if empty, those of ``huawei.com``.
    networks
        Whether its plugin registers the network of each chip.
    modules
        Whether several chips are given out by modules of two.
    overwrite_env
        Whether admission hides chips from containers that request none (``overwriteEnv``).
    runtime_class
        The runtime class that admission writes for pods with chips (``runtimeClassName``).
    """

    key: str
    templates: tuple[NpuTemplate, ...]
    allocatable: int
    capacity: int
    memory_factor: int = 1
    count: str = ""
    memory: str = ""
    cores: str = ""
    networks: bool = True
    modules: bool = False
    overwrite_env: bool = False
    runtime_class: str = ""

    @property
    def assigned(self) -> str:
        """The annotation that the plugin's own runtime reads; it has the chip's name, not that of its resource."""
        return f"huawei.com/{self.key}"

    @property
    def names(self) -> NpuRequests:
        """Its resource names."""
        count = self.count or f"huawei.com/{self.key}"
        return NpuRequests(
            count,
            self.memory or f"{count}-memory",
            cores=self.cores or f"{count}-core",
            memory_factor=self.memory_factor,
            chip=self,
        )

    def cut(self, memory: int) -> int:
        """Return the memory of the smallest sufficient template, or of a whole chip.

        More than a whole chip has is returned unchanged, so that no chip fits.
        """
        fitting = (template.memory for template in self.templates if template.memory >= memory)
        whole = self.allocatable if self.allocatable and memory <= max(self.allocatable, self.capacity) else memory
        return next(fitting, whole)

    def template(self, memory: int) -> str:
        """Return the name of the template for an amount of memory; empty for a whole chip."""
        fitting = (template.name for template in self.templates if template.memory >= memory)
        return next(fitting, "")


@dataclass(frozen=True, slots=True)
class NpuRequests(ShareRequests):
    """Resource names of a chip. Claims are rounded up to a template, unless the pod shares softly."""

    chip: Chip | None = None

    def read(
        self, vendor: str, container: Container, defaults: ClaimDefaults = NO_DEFAULTS, mode: str = ""
    ) -> Claim | None:
        """Return the container's claim, if any; see :class:`ShareRequests`."""
        exclusive = defaults.exclusive
        if mode != SOFT:
            defaults = self._hard(container, defaults)
        claim = ShareRequests.read(self, vendor, container, defaults)
        if claim is None or self.chip is None:
            return claim
        if self.chip.modules and claim.count > 1 and claim.count % MODULE:
            raise ClaimError(
                f'container "{container.name}": {self.count}: {claim.count}: chips of {vendor} come in modules of '
                f"{MODULE}: write {claim.count + 1}"
            )
        slots, memory, *rest = claim.amounts
        if mode == SOFT or not memory:
            return claim
        if exclusive:  # all memory of a chip, so that no other pod fits
            return Claim(vendor, claim.count, (slots, 0, 0), (0, WHOLE, 0))
        return replace(claim, amounts=(slots, self.chip.cut(memory), *rest))

    def takes_whole(self, claim: Claim) -> bool:
        """Tell whether a claim takes its chips whole, also by an amount of memory."""
        whole = self.chip is not None and 0 < self.chip.allocatable <= claim.amounts[1]
        return whole or ShareRequests.takes_whole(self, claim)

    def _hard(self, container: Container, defaults: ClaimDefaults) -> ClaimDefaults:
        """Return the defaults that apply to chips that are cut by templates.

        Compute comes with the memory, and the runtime does not support parts of several chips.
        """
        several = (whole_amount(container, self.count) or 0) > 1
        return ClaimDefaults(None if several else defaults.memory)
