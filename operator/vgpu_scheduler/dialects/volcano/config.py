"""Section ``nvidia`` of Volcano's ``device-config.yaml``: names, unit of memory, and geometries of MIG cards."""

from __future__ import annotations

from collections import Counter

# The file has a common origin with HAMi's, so it is read by the same class.
from vgpu_scheduler.dialects.hami import ConfigError, VendorSection
from vgpu_scheduler.dialects.hami.templates import MOST_TEMPLATES, MigGeometry, Template
from vgpu_scheduler.dialects.volcano.names import VolcanoRequests

_OF_THE_PLUGIN = (
    "deviceSplitCount", "deviceMemoryScaling", "deviceCoreScaling", "disableCoreLimit", "overwriteEnv",
    "defaultMemory", "defaultCores", "defaultGPUNum", "resourcePriorityName", "gpuCorePolicy",
)  # fmt: skip
"""Fields that Volcano's scheduler ignores too, the defaults included."""


def configured_requests(config: VendorSection) -> VolcanoRequests:
    """Return the names that the file configures; Volcano's own by default.

    Parameters
    ----------
    config
        The whole file.

    Raises
    ------
    ConfigError
        If a field is invalid, or two resources have the same name.
    """
    section, known = config.section("nvidia"), VolcanoRequests()
    config.ignore("vnpus")  # another vendor's cards, which this dialect does not support
    section.ignore(*_OF_THE_PLUGIN)
    requests = VolcanoRequests(
        count=section.text("resourceCountName", known.count),
        memory=section.text("resourceMemoryName", known.memory),
        memory_percent=section.text("resourceMemoryPercentageName"),
        cores=section.text("resourceCoreName", known.cores),
        memory_factor=section.factor("gpuMemoryFactor"),
        mig_geometries=tuple(map(_mig_geometry, section.sections("knownMigGeometries"))),
    )
    if len(requests.groups) > MOST_TEMPLATES:
        raise ConfigError(
            f"{section.where('knownMigGeometries')}: {', '.join(requests.groups)} are more names of groups than "
            f"{MOST_TEMPLATES}: give groups of different models the same names"
        )
    instances = (each for geometry in requests.mig_geometries for template in geometry.templates for each in template)
    small = next(((name, memory) for name, memory, _ in instances if memory < requests.memory_factor), None)
    if small is not None:
        raise ConfigError(
            f"{section.where('knownMigGeometries')}: instance {small[0]} has {small[1]} MiB, which is less than one"
            f" block of gpuMemoryFactor ({requests.memory_factor} MiB)"
        )
    for name, times in Counter((requests.count, *requests.amounts)).items():
        if times > 1:
            raise ConfigError(f"{', '.join(section.fields_with_text(name))}: resource {name} stands for {times} things")
    return requests


def _mig_geometry(section: VendorSection) -> MigGeometry:
    groups = section.sections("allowedGeometries")
    names = tuple(group.required("group") for group in groups)
    odd = next((name for name in names if set("[],:;").intersection(name)), None)
    if odd is not None:
        raise ConfigError(f"{section.path}: group {odd!r} has a separator of the assignment format in it")
    try:
        return MigGeometry(section.texts("models"), tuple(map(_template, groups)), names)
    except ValueError as error:
        raise ConfigError(f"{section.path}: {error}") from None


def _template(section: VendorSection) -> Template:
    return tuple(
        (kind.required("name"), kind.integer("memory", least=1), kind.integer("count", least=1))
        for kind in section.sections("geometries")
    )
