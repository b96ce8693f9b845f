"""The flags of HAMi's scheduler, so that its command line can stay as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "--node-scheduler-policy": ("node_policy",),
    "--gpu-scheduler-policy": ("device_policy",),
    "--device-config-file": ("hami_device_config",),
    "--node-label-selector": ("managed_nodes",),
    "--resource-name": ("nvidia", "resource_count_name"),
    "--resource-mem": ("nvidia", "resource_memory_name"),
    "--resource-mem-percentage": ("nvidia", "resource_memory_percentage_name"),
    "--resource-cores": ("nvidia", "resource_core_name"),
    "--resource-priority": ("nvidia", "resource_priority_name"),
    "--default-mem": ("nvidia", "default_memory"),
    "--default-cores": ("nvidia", "default_cores"),
    "--default-gpu": ("nvidia", "default_gpu_num"),
    "--overwrite-env": ("nvidia", "overwrite_env"),
    "--force-overwrite-default-scheduler": ("admission", "overwrite_default_scheduler"),
    "--cert_file": ("admission", "cert_file"),
    "--key_file": ("admission", "key_file"),
    "--cambricon-mlu-name": ("hami_devices", "cambricon", "resourceCountName"),
    "--cambricon-mlu-memory": ("hami_devices", "cambricon", "resourceMemoryName"),
    "--cambricon-mlu-cores": ("hami_devices", "cambricon", "resourceCoreName"),
    "--dcu-name": ("hami_devices", "hygon", "resourceCountName"),
    "--dcu-memory": ("hami_devices", "hygon", "resourceMemoryName"),
    "--dcu-cores": ("hami_devices", "hygon", "resourceCoreName"),
    "--mthreads-name": ("hami_devices", "mthreads", "resourceCountName"),
    "--mthreads-memory": ("hami_devices", "mthreads", "resourceMemoryName"),
    "--mthreads-cores": ("hami_devices", "mthreads", "resourceCoreName"),
}
"""The settings that flags of HAMi stand for."""

_WITHOUT_EFFECT: Mapping[str, str] = {
    "--http_bind": "there is no extender to serve",
    "--kube-qps": "binds are paced by the API server",
    "--kube-burst": "binds are paced by the API server",
    "--kube-timeout": "see the setting bind.timeout",
    "--node-lock-timeout": "a lock is taken over when its owner is done or gone, however old it is",
    "--node-lock-retry-timeout": "pods wait in line for their node's lock",
    "--leader-elect-resource-name": "see the setting lease.name",
    "--leader-elect-resource-namespace": "see the setting lease.namespace",
}
_SWITCHES_WITHOUT_EFFECT: Mapping[str, str] = {
    "--leader-elect": "a Lease is always held",
    "--legacy-metrics": "only HAMi's current metrics are served",
    "--profiling": "there is nothing to profile through HTTP",
    "--debug": "see --log-level",
    "--enable-ascend": "every maker is served",
    "--enable-iluvatar": "every maker is served",
}

_Command = Callable[..., None]


_SWITCHES = frozenset({"--overwrite-env", "--force-overwrite-default-scheduler"})
"""Those among them that may stand alone: Go's flags may be given as --flag or as --flag=true."""


def hami_flags(command: _Command) -> _Command:
    """Give a command HAMi's flags; they are left out of its help, which names the settings."""
    for flag in (*(_SETTINGS.keys() - _SWITCHES), *_WITHOUT_EFFECT, "--metrics-bind-address"):
        command = click.option(flag, _variable(flag), hidden=True)(command)
    for flag in (*_SWITCHES, *_SWITCHES_WITHOUT_EFFECT):
        command = click.option(flag, _variable(flag), hidden=True, is_flag=False, flag_value="true")(command)
    return command


def from_hami(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Split what a command line gave into settings that flags of HAMi stand for and all other flags.

    Returns
    -------
    tuple
        The settings by their names, the other flags, and warnings about flags that have no effect.

    Raises
    ------
    click.BadParameter
        If the value of one is malformed.
    """
    rest = dict(flags)
    settings: dict[str, Any] = {}
    warnings = []
    for flag, path in _SETTINGS.items():
        value = rest.pop(_variable(flag), None)
        if value is not None:
            section = settings
            for name in path[:-1]:
                section = section.setdefault(name, {})
            section[path[-1]] = value
    if {"cert_file", "key_file"} <= settings.get("admission", {}).keys():
        settings["admission"]["enabled"] = True  # HAMi's scheduler serves its webhook wherever it has a certificate
    address = rest.pop(_variable("--metrics-bind-address"), None)
    if address is not None:
        host, colon, port = address.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()):
            raise click.BadParameter(
                f"{address!r} is not an address such as :9395", param_hint="--metrics-bind-address"
            )
        settings["http_port"] = int(port)
        settings |= {"http_host": host.strip("[]")} if host else {}
    for flag, why in (*_WITHOUT_EFFECT.items(), *_SWITCHES_WITHOUT_EFFECT.items()):
        if rest.pop(_variable(flag), None) is not None:
            warnings.append(f"{flag} has no effect: {why}")
    return settings, rest, warnings


def _variable(flag: str) -> str:
    return f"hami_{flag[2:].replace('-', '_')}"
