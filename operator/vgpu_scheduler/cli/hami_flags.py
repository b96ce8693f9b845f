"""The flags of HAMi's scheduler, so that its command line can stay as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from vgpu_scheduler.settings import parse_address

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
    "--metax-name": ("hami_devices", "metax", "resourceCountName"),
    "--metax-vcount": ("hami_devices", "metax", "resourceVCountName"),
    "--metax-vmemory": ("hami_devices", "metax", "resourceVMemoryName"),
    "--metax-vcore": ("hami_devices", "metax", "resourceVCoreName"),
    "--sgpu-topology-aware": ("hami_devices", "metax", "sgpuTopologyAware"),
    "--enflame-gcu-resource-name": ("hami_devices", "enflame", "resourceNameGCU"),
    "--enflame-drs-gcu-resource-name": ("hami_devices", "enflame", "resourceNameDRSGCU"),
    "--enflame-gcu-memory-resource-name": ("hami_devices", "enflame", "resourceNameGCUMemory"),
    "--enflame-gcu-core-resource-name": ("hami_devices", "enflame", "resourceNameGCUCore"),
    "--kunlun-name": ("hami_devices", "kunlun", "resourceCountName"),
    "--kunlun-vcount": ("hami_devices", "kunlun", "resourceVCountName"),
    "--kunlun-vmemory": ("hami_devices", "kunlun", "resourceVMemoryName"),
}
"""The settings that flags of HAMi stand for."""

_LOGS = "logs go to standard error; see --log-level"
_SHARED_GCU = "HAMi gives out no shares of Enflame cards any more"
_WRITERS = "who may write allocations is the ClusterRole vgpu-scheduler-allocation-writer"
_COUNTED_ILUVATAR = "Iluvatar's plugins of that time are not served"
_WITHOUT_EFFECT: Mapping[str, str] = {
    "--kube-qps": "binds are paced by the API server",
    "--kube-burst": "binds are paced by the API server",
    "--kube-timeout": "see the setting bind.timeout",
    "--node-lock-timeout": "a lock is taken over when its owner is done or gone, however old it is",
    "--node-lock-retry-timeout": "pods wait in line for their node's lock",
    "--leader-elect-resource-name": "see the setting lease.name",
    "--leader-elect-resource-namespace": "see the setting lease.namespace",
    "--enflame-vgcu-resource-name": _SHARED_GCU,
    "--enflame-vgcu-percentage-resource-name": _SHARED_GCU,
    "--iluvatar-name": _COUNTED_ILUVATAR,
    "--iluvatar-memory": _COUNTED_ILUVATAR,
    "--iluvatar-cores": _COUNTED_ILUVATAR,
    "--device-plugin-namespace": _WRITERS,
    "--device-plugin-service-account": _WRITERS,
    "--v": "see --log-level",
    "--vmodule": "see --log-level",
    "--stderrthreshold": "see --log-level",
    "--log_dir": _LOGS,
    "--log_file": _LOGS,
    "--log_file_max_size": _LOGS,
    "--log_backtrace_at": _LOGS,
}
_SWITCHES_WITHOUT_EFFECT: Mapping[str, str] = {
    "--leader-elect": "a Lease is always held",
    "--legacy-metrics": "only HAMi's current metrics are served",
    "--profiling": "there is nothing to profile through HTTP",
    "--debug": "see --log-level",
    "--enable-ascend": "every maker is served",
    "--enable-iluvatar": "every maker is served",
    "--logtostderr": _LOGS,
    "--alsologtostderr": _LOGS,
    "--one_output": _LOGS,
    "--add_dir_header": _LOGS,
    "--skip_headers": _LOGS,
    "--skip_log_headers": _LOGS,
}

_Command = Callable[..., None]


_SWITCHES = frozenset({"--overwrite-env", "--force-overwrite-default-scheduler", "--sgpu-topology-aware"})
"""Those among them that may stand alone: Go's flags may be given as --flag or as --flag=true."""


def hami_flags(command: _Command) -> _Command:
    """Give a command HAMi's flags; they are left out of its help, which names the settings."""
    for flag in (*(_SETTINGS.keys() - _SWITCHES), *_WITHOUT_EFFECT, "--metrics-bind-address", "--http_bind"):
        short = ("-v",) if flag == "--v" else ()
        command = click.option(flag, *short, _variable(flag), hidden=True)(command)
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
    metax = settings.get("hami_devices", {}).get("metax", {})
    if "sgpuTopologyAware" in metax:
        metax["sgpuTopologyAware"] = _switch(metax["sgpuTopologyAware"], "--sgpu-topology-aware")
    webhook = _address(rest, "--http_bind")
    if {"cert_file", "key_file"} <= settings.get("admission", {}).keys():
        # HAMi's scheduler serves its webhook wherever it has a certificate.
        settings["admission"] |= {"enabled": True} | ({"port": parse_address(webhook)[1]} if webhook else {})
    elif webhook:
        warnings.append("--http_bind has no effect: without a certificate there is nothing to serve")
    if metrics := _address(rest, "--metrics-bind-address"):
        settings |= {"metrics_address": metrics, "hami_metrics": True}  # probes go on where they are
    for flag, why in (*_WITHOUT_EFFECT.items(), *_SWITCHES_WITHOUT_EFFECT.items()):
        if rest.pop(_variable(flag), None) is not None:
            warnings.append(f"{flag} has no effect: {why}")
    return settings, rest, warnings


def _address(flags: dict[str, Any], flag: str) -> str:
    """Take an address such as ``:9395`` from the flags; it is empty where none is given."""
    address: str = flags.pop(_variable(flag), None) or ""
    try:
        if address:
            parse_address(address)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=flag) from error
    return address


def _switch(text: str, flag: str) -> bool:
    """Read a truth value as Go does."""
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise click.BadParameter(f"{text!r} is neither true nor false", param_hint=flag)


def _variable(flag: str) -> str:
    return f"hami_{flag[2:].replace('-', '_')}"
