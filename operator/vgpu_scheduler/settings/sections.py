"""The sections of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from vgpu_scheduler.kube import is_extended_resource
from vgpu_scheduler.model import quoted

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
MOST_PORT = 65535


def _is_a_resource(name: str) -> str:
    """Refuse what the API server would not take as the name of a resource."""
    if not is_extended_resource(name):
        raise ValueError(f"{quoted(name)} is no name of a resource, such as example.com/gpu")
    return name


ResourceName = Annotated[str, AfterValidator(_is_a_resource)]


class SettingsSection(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class NvidiaSettings(SettingsSection):
    """Resource names and defaults of NVIDIA cards, as in section ``nvidia`` of HAMi's device configuration."""

    resource_count_name: ResourceName = "nvidia.com/gpu"
    """The resource that says how many cards; manifests/admission.yaml names it, too."""
    resource_memory_name: ResourceName = "nvidia.com/gpumem"
    """The resource that says how much memory of each, in units of memory_factor MiB."""
    resource_memory_percentage_name: ResourceName = "nvidia.com/gpumem-percentage"
    """The resource that says how much memory of each, in percent."""
    resource_core_name: ResourceName = "nvidia.com/gpucores"
    """The resource that says how much compute of each, in percent."""
    resource_priority_name: ResourceName = "nvidia.com/priority"
    """The resource that sets the priority between tenants of a card."""
    memory_factor: Annotated[int, Field(ge=1, le=1024 * 1024)] = 1
    """MiB per unit of the memory resource."""
    default_memory: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """MiB for containers that name a count only; 0 gives the whole card."""
    default_cores: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent of compute for containers that do not say."""
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
    """What the nodes of Volcano's ecosystem have; it matters where ``dialects`` lists volcano."""

    plugin_version: Literal["v1.10", "v1.11", "v1.12"] = "v1.12"
    """Version of the device plugin, volcano-vgpu-device-plugin; v1.10 stands for older ones, too, and v1.12 for newer
    ones. Only v1.11 serves pods that claim cards in several containers. Up to v1.11 the plugin takes the oldest pod of
    its node, since v1.12 the oldest one that claims as many cards as are asked for."""


class LeaseSettings(SettingsSection):
    """The Lease that the one operator that binds holds."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)] = "vgpu-scheduler"
    """Name of the Lease."""
    namespace: Annotated[str, Field(pattern=NAME_PATTERN)] = "vgpu-system"
    """Namespace of the Lease."""
    duration: Annotated[float, Field(gt=0, le=300)] = 8.0
    """Seconds after which another operator may take it over; 2 s for each answer of the API server are survived."""
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
    """Seconds that a pod waits at its node: in its queue, for its lock, and for its device plugin's answer. After
    that a pod that is not bound yet is decided anew, and a node is closed whose lock is still held or whose plugin has
    not answered. The doctor reports locks that are held for longer. A group lets others pass for half of it at most."""
    poll_interval: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds between looks at a node of which nothing is heard."""
    max_unlocked_binds: Annotated[int, Field(ge=1, le=1024)] = 64
    """Most binds at a time that need no node lock."""
    rejected_node_wait: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """Seconds for which a node whose kubelet rejected a pod takes none that replace it; 0 for none."""
    volume_wait: Annotated[float, Field(gt=0, le=86400)] = 600.0
    """Seconds that a pod's volumes may take to be provisioned and bound, its cards being kept for it."""


class ScoringSettings(SettingsSection):
    """How nodes are ranked where a pod, a taint or the pods that are there would like some more than others."""

    device_weight: Annotated[int, Field(ge=0, le=1000)] = 2
    """How much the score of the policy's node scorers counts, in points of 0 to 100, beside kube-scheduler's plugins:
    TaintToleration counts 3, NodeAffinity, PodTopologySpread and InterPodAffinity 2 each. Where none of them has
    anything to say, that score decides alone; 0 leaves it to nodes that are otherwise equal."""
    system_spread: bool = False
    """Have pods without topology spread constraints ranked by kube-scheduler's: over hostnames with a skew of 3, over
    zones with a skew of 5. Which pods belong together say the Services, ReplicationControllers, ReplicaSets and
    StatefulSets that select a pod; to watch these the rights in manifests/system-spread are needed."""


class AdmissionSettings(SettingsSection):
    """The admission webhook; what it does beside naming the scheduler is in HAMi's device configuration."""

    enabled: bool = False
    """Serve the webhook; see docs/admission.md for how the API server is told of it."""
    port: Annotated[int, Field(ge=1, le=MOST_PORT)] = 9443
    """Port of the webhook, on all interfaces."""
    cert_file: Path | None = None
    """Its certificate, and those between it and its authority; read again when it changes."""
    key_file: Path | None = None
    """Its private key; read again when it changes."""
    ca_file: Path | None = None
    """The authority of those who may ask: API servers that present no certificate of it are refused; all may, if it is
    not set."""
    reload_interval: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds between two looks at these files."""
    overwrite_default_scheduler: bool = True
    """Take pods that name default-scheduler; that is what the API server writes into those that name none."""

    @model_validator(mode="after")
    def _has_files(self) -> AdmissionSettings:
        if self.enabled and (self.cert_file is None or self.key_file is None):
            raise ValueError("the webhook needs cert_file and key_file")
        return self


class HistorySettings(SettingsSection):
    """The log of what happens, for back-tests; it needs the extra vgpu-scheduler[history], which the image has."""

    directory: Path | None = None
    """Where the leader writes it, a folder that outlives the pod; nothing is written if it is not set."""
    file_megabytes: Annotated[int, Field(ge=1, le=4096)] = 64
    """Megabytes after which a file is closed and another one begun, which starts with all that is there."""
    file_hours: Annotated[float, Field(gt=0, le=8760)] = 24.0
    """Hours after which it is."""
    keep_files: Annotated[int, Field(ge=1, le=100_000)] = 30
    """How many closed files are kept in the folder, the newest ones; one that a restart ended early counts in part, by
    its hours or megabytes."""
    hash_names: bool = False
    """Write hashes for the names of namespaces and pods."""
    hash_key_file: Path | None = None
    """The key of these, a file of any bytes, so that a name stays the same hash; each process has its own if it is not
    set."""


class TracingSettings(SettingsSection):
    """Traces of pods in OpenTelemetry's format; they need the extra vgpu-scheduler[tracing], which the image has."""

    endpoint: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """Where a collector takes OTLP over HTTP, such as http://otel-collector.monitoring:4318; empty for no traces."""
    sampling_rate_per_million: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000_000
    """Of a million pods so many are traced, as in kube-apiserver's TracingConfiguration."""
