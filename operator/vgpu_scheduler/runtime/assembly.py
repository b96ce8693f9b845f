"""Turns settings into the values that engines and replicas are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vgpu_scheduler.apiclient import ApiClient
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.volcano import PluginVersion, parse_binpack_arguments, volcano_dialect
from vgpu_scheduler.engine import EngineOptions, renamed_resources
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.runtime.device_config import device_config, volcano_requests
from vgpu_scheduler.settings import Settings

_LABELS_SINCE = (1, 35)
"""Kubernetes merges the labels of a Binding since this version."""
_GENERATIONS_SINCE = (1, 34)
"""Kubernetes keeps the ``observedGeneration`` of a pod's conditions since this version (1.33 drops it)."""


def make_dialects(settings: Settings) -> list[Dialect]:
    """Return the dialects in the settings' order, with the configured names.

    Raises
    ------
    SettingsError
        If the device configuration cannot be read; the message names the file and the field.
    """
    factories: Mapping[str, Callable[[], Dialect]] = {
        **DIALECTS,
        "hami": lambda: hami_dialect(device_config(settings)),
        "volcano": lambda: volcano_dialect(volcano_requests(settings), PluginVersion(settings.volcano.plugin_version)),
    }
    return [factories[name]() for name in settings.dialects]


def engine_options(settings: Settings) -> EngineOptions:
    """Return the options of an engine, for the operator and for what-if questions about it.

    Raises
    ------
    SettingsError
        If the device configuration cannot be read; the message names the file and the field.
    """
    dialects = tuple(make_dialects(settings))
    return EngineOptions(
        dialects=dialects,
        unlisted=tuple(made() for name, made in DIALECTS.items() if name not in settings.dialects),
        renamed=renamed_resources(dialects, (made() for made in DIALECTS.values())),
        defaults=replace(
            PolicyDefaults.of(settings),
            managed=settings.managed,
            device_weight=settings.scoring.device_weight,
            read_arguments=parse_binpack_arguments,
        ),
        scheduler_names=settings.scheduler_names,
        coexist_with=settings.coexist_with,
        rejected_node_wait=settings.bind.rejected_node_wait,
        bind_timeout=settings.bind.timeout,
        node_side_timeout=settings.bind.node_side_timeout,
        system_spread=settings.scoring.system_spread,
        preemption=settings.preemption,
        protected_namespaces=(settings.lease.namespace,),
        home=settings.lease.namespace,
    )


@dataclass(frozen=True, slots=True)
class Connection:
    """The API server that a replica works with.

    Attributes
    ----------
    identity
        The identity of this process; new at each start, so that a restart is not mistaken for its predecessor.
    version
        Major and minor version whose features the API server has.
    """

    api: ApiClient
    identity: str
    version: tuple[int, int]

    @property
    def label_first(self) -> bool:
        """Whether a write before the Binding has to set labels, because the API server ignores a Binding's labels."""
        return self.version < _LABELS_SINCE

    @property
    def observes_generation(self) -> bool:
        """Whether conditions of pods have an ``observedGeneration``."""
        return self.version >= _GENERATIONS_SINCE
