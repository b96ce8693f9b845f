"""The command line flags of HAMi's scheduler, which are accepted so that existing command lines keep working."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

SETTINGS: Mapping[str, tuple[str, ...]] = {
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
"""The settings that correspond to flags of HAMi."""

_LOGS = "logs go to standard error; see --log-level"
_SHARED_GCU = "HAMi no longer allocates shares of Enflame cards"
_WRITERS = "the ClusterRole vgpu-scheduler-allocation-writer says who may write allocations"
_COUNTED_ILUVATAR = "the Iluvatar device plugins that use it are not supported"
WITHOUT_EFFECT: Mapping[str, str] = {
    "--kube-qps": "binds are paced by the API server",
    "--kube-burst": "binds are paced by the API server",
    "--kube-timeout": "see the setting bind.timeout",
    "--node-lock-timeout": "a lock is taken over when its owner no longer needs it or is gone, whatever its age",
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
SWITCHES_WITHOUT_EFFECT: Mapping[str, str] = {
    "--leader-elect": "a Lease is always held",
    "--legacy-metrics": "only HAMi's current metrics are served",
    "--profiling": "profiling through HTTP is not supported",
    "--debug": "see --log-level",
    "--enable-ascend": "every vendor is supported",
    "--enable-iluvatar": "every vendor is supported",
    "--logtostderr": _LOGS,
    "--alsologtostderr": _LOGS,
    "--one_output": _LOGS,
    "--add_dir_header": _LOGS,
    "--skip_headers": _LOGS,
    "--skip_log_headers": _LOGS,
}

_Command = Callable[..., None]


_SWITCHES = frozenset({"--overwrite-env", "--force-overwrite-default-scheduler", "--sgpu-topology-aware"})
"""Flags that may stand alone: Go accepts --flag as well as --flag=true."""


def hami_flags(command: _Command) -> _Command:
    """Add HAMi's flags to a command; its help omits them, since it documents the settings."""
    for flag in (*(SETTINGS.keys() - _SWITCHES), *WITHOUT_EFFECT, "--metrics-bind-address", "--http_bind"):
        short = ("-v",) if flag == "--v" else ()
        command = click.option(flag, *short, variable(flag), hidden=True)(command)
    for flag in (*_SWITCHES, *SWITCHES_WITHOUT_EFFECT):
        command = click.option(flag, variable(flag), hidden=True, is_flag=False, flag_value="true")(command)
    return command


def variable(flag: str) -> str:
    """Return the parameter name of a flag."""
    return f"hami_{flag[2:].replace('-', '_')}"
