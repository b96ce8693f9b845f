"""The sections of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from vgpu_scheduler.kube import is_extended_resource
from vgpu_scheduler.model import nvidia_resources, quoted

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
MOST_PORT = 65535


def _is_a_resource(name: str) -> str:
    """Refuse a name that is not a valid extended resource."""
    if not is_extended_resource(name):
        raise ValueError(f"{quoted(name)} is not a resource name, such as example.com/gpu")
    return name


ResourceName = Annotated[str, AfterValidator(_is_a_resource)]


class SettingsSection(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class NvidiaSettings(SettingsSection):
    """Resource names and defaults of NVIDIA cards, as in section ``nvidia`` of HAMi's device configuration."""

    resource_count_name: ResourceName = nvidia_resources.COUNT
    """The resource for the number of cards; manifests/admission.yaml names it, too."""
    resource_memory_name: ResourceName = nvidia_resources.MEMORY
    """The resource for the memory of each card, in units of memory_factor MiB."""
    resource_memory_percentage_name: ResourceName = nvidia_resources.MEMORY_PERCENTAGE
    """The resource for the memory of each card, in percent."""
    resource_core_name: ResourceName = nvidia_resources.CORES
    """The resource for the compute of each card, in percent."""
    resource_priority_name: ResourceName = nvidia_resources.PRIORITY
    """The resource that sets the priority between tenants of a card."""
    memory_factor: Annotated[int, Field(ge=1, le=1024 * 1024)] = 1
    """MiB per unit of the memory resource."""
    default_memory: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Memory in MiB for containers that only name a number of cards; 0 gives the whole card."""
    default_cores: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent of compute for containers that name none."""
    default_gpu_num: Annotated[int, Field(ge=0, le=1024)] = 1
    """Cards that the admission webhook writes into containers that name memory or compute only; 0 for none."""
    overwrite_env: bool = False
    """Whether the admission webhook hides all cards from containers that ask for none (NVIDIA_VISIBLE_DEVICES)."""

    @model_validator(mode="after")
    def _names_differ(self) -> NvidiaSettings:
        names = [
            self.resource_count_name,
            self.resource_memory_name,
            self.resource_memory_percentage_name,
            self.resource_core_name,
            self.resource_priority_name,
        ]
        if len(set(names)) != len(names):
            raise ValueError("two resources have the same name")
        return self


class VolcanoSettings(SettingsSection):
    """Properties of the nodes of Volcano's ecosystem, used if ``dialects`` lists volcano."""

    plugin_version: Literal["v1.10", "v1.11", "v1.12"] = "v1.12"
    """Version of the device plugin, volcano-vgpu-device-plugin; v1.10 also stands for older ones, and v1.12 for newer
    ones. Only v1.11 serves pods that claim cards in several containers. Up to v1.11 the plugin takes the oldest pod of
    its node, since v1.12 the oldest pod that claims the requested number of cards."""


class LeaseSettings(SettingsSection):
    """The Lease of the leader, the only operator that binds."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)] = "vgpu-scheduler"
    """Name of the Lease."""
    namespace: Annotated[str, Field(pattern=NAME_PATTERN)] = "vgpu-system"
    """Namespace of the Lease."""
    duration: Annotated[float, Field(gt=0, le=300)] = 8.0
    """Seconds without renewal after which another operator may take over; API server answers may take 2 s each."""
    renew_interval: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Seconds between renewals."""

    @model_validator(mode="after")
    def _renews_in_time(self) -> LeaseSettings:
        if self.renew_interval * 3 > self.duration:
            raise ValueError("renew_interval must be at most a third of duration")
        return self


class BindSettings(SettingsSection):
    """How pods are bound."""

    timeout: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds that the API server may take for one Binding."""
    node_side_timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Seconds that a pod waits at its node: in the node's queue, for its lock, and for its device plugin's answer. Then
    a pod that is not bound yet is decided anew, and a node whose lock is still held or whose plugin has not answered is
    closed. The doctor reports locks held for longer. A pod group lets other pods pass for at most half of this time."""
    poll_interval: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds between polls of a node while no watch event arrives."""
    max_unlocked_binds: Annotated[int, Field(ge=1, le=1024)] = 64
    """Most concurrent binds that need no node lock."""
    rejected_node_wait: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """Seconds that replacements of a pod are kept off the node whose kubelet rejected it; 0 for none."""
    volume_wait: Annotated[float, Field(gt=0, le=86400)] = 600.0
    """Seconds that a pod's volumes may take to be provisioned and bound, while its cards stay reserved."""


class ScoringSettings(SettingsSection):
    """How nodes are ranked where pods, taints or existing pods prefer some nodes."""

    device_weight: Annotated[int, Field(ge=0, le=1000)] = 2
    """Weight of the score of the policy's node scorers, of 0 to 100 points, beside kube-scheduler's plugins:
    TaintToleration has weight 3, NodeAffinity, PodTopologySpread and InterPodAffinity 2 each. Where these plugins
    prefer no node, the score decides alone; with 0 it only breaks ties."""
    system_spread: bool = False
    """Rank nodes for pods without topology spread constraints by kube-scheduler's: hostnames with a skew of 3, zones
    with a skew of 5. The Services, ReplicationControllers, ReplicaSets and StatefulSets that select a pod say
    which pods belong together; watching them needs the rights in manifests/system-spread."""


class AdmissionSettings(SettingsSection):
    """The admission webhook; HAMi's device configuration says what it does beside naming the scheduler."""

    enabled: bool = False
    """Serve the webhook; docs/admission.md says how to register it with the API server."""
    port: Annotated[int, Field(ge=1, le=MOST_PORT)] = 9443
    """Port of the webhook, on all interfaces."""
    cert_file: Path | None = None
    """Path to the webhook's certificate with its intermediate certificates; reloaded on change."""
    key_file: Path | None = None
    """Path to the webhook's private key; reloaded on change."""
    ca_file: Path | None = None
    """Path to the CA of clients: API servers without a certificate of it are refused; if not set, all may call."""
    reload_interval: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds between checks of these files for changes."""
    overwrite_default_scheduler: bool = True
    """Take pods that name default-scheduler, which the API server writes into pods that name no scheduler."""

    @model_validator(mode="after")
    def _has_files(self) -> AdmissionSettings:
        if self.enabled and (self.cert_file is None or self.key_file is None):
            raise ValueError("the webhook needs cert_file and key_file")
        return self


class HistorySettings(SettingsSection):
    """The history log, for back-tests; it needs the extra vgpu-scheduler[history], which the image has."""

    directory: Path | None = None
    """Path to the folder that the leader writes to, which must outlive the pod; if not set, nothing is written."""
    file_megabytes: Annotated[int, Field(ge=1, le=4096)] = 64
    """Megabytes after which a file is closed and the next one begun, which starts with all existing objects."""
    file_hours: Annotated[float, Field(gt=0, le=8760)] = 24.0
    """Hours after which a file is closed and the next one begun."""
    keep_files: Annotated[int, Field(ge=1, le=100_000)] = 30
    """Number of closed files kept in the folder, the newest ones; a file that a restart ended early counts in part, by
    its hours or megabytes."""
    hash_names: bool = False
    """Write hashes instead of the names of namespaces and pods."""
    hash_key_file: Path | None = None
    """Path to the key of the hashes, a file of any bytes, so that a name keeps its hash; if not set, each process has
    its own key."""


class TracingSettings(SettingsSection):
    """Traces of pods in OpenTelemetry's format; they need the extra vgpu-scheduler[tracing], which the image has."""

    endpoint: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """Address of a collector of OTLP over HTTP, such as http://otel-collector.monitoring:4318; empty for no traces."""
    sampling_rate_per_million: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000_000
    """Number of pods traced per million, as in kube-apiserver's TracingConfiguration."""
