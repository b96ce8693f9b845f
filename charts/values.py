"""The values of the chart: their names, types, defaults and meanings, in one place.

``values.yaml``, its schema and the table in the chart's README are rendered from these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from vgpu_scheduler.settings import Settings

FIXED = ("http_host", "http_port", "kubeconfig", "context", "preemption")
"""Settings that the pod's probes and ports, its service account, and the rights that it is given stand for; the chart
takes no others."""

_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"


class _Values(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True
    )


class Image(_Values):
    """The image of the scheduler."""

    repository: Annotated[str, Field(min_length=1)] = "vgpu-scheduler"
    """Where your nodes find the image, without a tag."""
    tag: str = ""
    """Its tag; the chart's appVersion if empty."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """Its digest (sha256:…), which ranks above the tag."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """When nodes pull it; Kubernetes decides if empty."""


class AdmissionWebhook(_Values):
    """The admission webhook (docs/admission.md)."""

    enabled: bool = False
    """Install the webhook."""
    cert_manager: bool = False
    """Have cert-manager make its certificate. Otherwise create the Secret vgpu-scheduler-admission."""
    ca_bundle: str = ""
    """Without cert-manager: the certificate of the authority that signed it, in base64."""


class HamiConfig(_Values):
    """HAMi's device configuration (docs/coming-from-hami.md)."""

    enabled: bool = False
    """Mount it, choose cards as HAMi 2.10 does (profile HAMi210), and serve HAMi's metrics."""
    config_map: Annotated[str, Field(pattern=_NAME)] = "hami-scheduler-device"
    """The ConfigMap with device-config.yaml, in the namespace of the release."""


class VolcanoConfig(_Values):
    """The device configuration of Volcano's plugin (docs/coming-from-volcano.md)."""

    enabled: bool = False
    """Mount it."""
    config_map: Annotated[str, Field(pattern=_NAME)] = "volcano-vgpu-device-config"
    """The ConfigMap with device-config.yaml, in the namespace of the release."""


class History(_Values):
    """The history log, for back-tests (docs/backtest.md)."""

    enabled: bool = False
    """Have the leader write it."""
    claim: Annotated[str, Field(pattern=_NAME)] = "vgpu-scheduler-history"
    """The PersistentVolumeClaim that it is written to, in the namespace of the release; ReadWriteMany where there are
    several replicas."""


class Enabled(_Values):
    """Something that is installed, or not."""

    enabled: bool = False
    """Install it."""


class ClusterPolicyReaders(Enabled):
    """Who may read the policies of the cluster."""

    group: Annotated[str, Field(min_length=1)] = "system:authenticated"
    """The group that may read them: everybody who is logged in, unless you name another one."""


class Ui(_Values):
    """The page of `vgpu-scheduler ui` in the cluster (docs/ui.md)."""

    enabled: bool = False
    """Install it: users who log in there see what they may list."""
    certificate: Annotated[str, Field(pattern=_NAME)] = "vgpu-scheduler-ui"
    """The Secret with its certificate (tls.crt, tls.key), in the namespace of the release."""
    hosts: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+(:[0-9]+)?$")]] = []
    """The names under which browsers ask for it, beside that of its Service and localhost; with the port where
    addresses have one."""
    prometheus: Annotated[str, Field(pattern=r"^(https?://[A-Za-z0-9._:/-]+)?$")] = ""
    """Where Prometheus answers, as http://HOST:PORT: what namespaces have held over time (docs/showback.md)."""
    prometheus_labels: list[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*=.+$")]] = []
    """The labels of this cluster's series there, as NAME=VALUE, if it stores those of several clusters."""
    resources: dict[str, Any] = {}
    """What it requests, and its limits."""


class Shadow(_Values):
    """`vgpu-scheduler shadow` in the cluster (docs/shadow.md)."""

    enabled: bool = False
    """Install it: it watches another scheduler, and writes nothing but its own files."""
    beside: Annotated[str, Field(pattern=_NAME)] = "hami-scheduler"
    """The scheduler that is watched, as pods name it."""
    storage_class: Annotated[str, Field(pattern=f"^({_NAME.strip('^$')})?$")] = ""
    """The class of the volume with what was seen; the cluster's default unless you name one."""
    resources: dict[str, Any] = {}
    """What it requests, and its limits."""


class Preemption(_Values):
    """Preemption; policies say which pods may evict which others (docs/preemption.md)."""

    enabled: bool = False
    """Give the scheduler the rights to evict pods and to read disruption budgets, and set preemption."""
    beyond_budgets: bool = False
    """With it, where policies say `budgets: Exceed`: give it the right to delete pods whatever their budgets say."""


class Account(_Values):
    """A service account."""

    name: Annotated[str, Field(pattern=_NAME)]
    """Its name."""
    namespace: Annotated[str, Field(pattern=_NAME)]
    """Its namespace."""


class SchedulerPolicy(_Values):
    """HAMi's defaultSchedulerPolicy."""

    node_scheduler_policy: Literal["", "binpack", "spread"] = ""
    """The setting node_policy."""
    gpu_scheduler_policy: str = ""
    """The setting device_policy."""


class HamiScheduler(_Values):
    """What HAMi's chart has under ``scheduler``, as far as it stands for a setting. The settings rank above these."""

    default_scheduler_policy: SchedulerPolicy = SchedulerPolicy()
    """Which node, and which card, where a pod does not say."""
    node_label_selector: dict[str, str] = {}
    """The setting managed_nodes: pods are placed on nodes with these labels only."""
    overwrite_env: bool | Literal["", "true", "false"] = ""
    """The setting nvidia.overwrite_env."""
    force_overwrite_default_scheduler: bool = True
    """The setting admission.overwrite_default_scheduler."""


class Values(_Values):
    """The values; those without a default here have that of the manifests."""

    image: Image = Image()
    """The image of the scheduler."""
    image_pull_secrets: list[dict[str, str]] = []
    """Secrets with which nodes pull it, as [{name: registry}]."""
    replicas: Annotated[int, Field(ge=0, le=100)]
    """How many replicas run; one binds at a time, the others are ready to go on."""
    resources: dict[str, Any]
    """What each of them requests, and its limits (docs/operations.md has sizes)."""
    node_selector: dict[str, str] = {}
    """The nodes that they run on."""
    tolerations: list[dict[str, Any]] = []
    """The taints that they tolerate."""
    affinity: dict[str, Any] = {}
    """Affinity of their pods."""
    pod_annotations: dict[str, str] = {}
    """More annotations of their pods."""
    pod_labels: dict[str, str] = {}
    """More labels of their pods."""
    settings: dict[str, Any] = {}
    """Settings of the scheduler, by the names that `vgpu-scheduler settings` explains; replicas restart when they
    change. The dialects and scoring.system_spread bring the rights that they need. The chart sets http_host, http_port,
    kubeconfig, context and preemption itself."""
    guard: Literal["deny", "audit"] = "deny"
    """What the guard of allocations does with writers that are not allowed: deny, or only warn and audit."""
    allocation_writers: list[Account]
    """Service accounts of device plugins and of other schedulers that may write allocations."""
    admission_webhook: AdmissionWebhook = AdmissionWebhook()
    """The admission webhook (docs/admission.md)."""
    admission_policy: Enabled = Enabled()
    """A MutatingAdmissionPolicy that does without a webhook what it can (docs/admission.md). Kubernetes serves it as
    v1beta1 since 1.34 and as v1 since 1.36."""
    hami_config: HamiConfig = HamiConfig()
    """HAMi's device configuration (docs/coming-from-hami.md)."""
    volcano_config: VolcanoConfig = VolcanoConfig()
    """The device configuration of Volcano's plugin (docs/coming-from-volcano.md)."""
    volume_binding: Enabled = Enabled(enabled=True)
    """The right to bind volumes that wait for their first consumer."""
    tenant_policies: Enabled = Enabled(enabled=True)
    """Whether the roles edit and admin of a namespace may write its policies; else those that are bound to
    vgpu-scheduler-policy-editor (docs/policies.md)."""
    cluster_policy_readers: ClusterPolicyReaders = ClusterPolicyReaders()
    """Whether a group may read the policies of the cluster, which bind its pods, and no policy of a namespace
    (docs/policies.md)."""
    preemption: Preemption = Preemption()
    """Preemption: the rights that it needs, and its setting."""
    history: History = History()
    """The history log, for back-tests (docs/backtest.md)."""
    doctor_role: Enabled = Enabled()
    """A ClusterRole for those who run `vgpu-scheduler doctor` (docs/doctor.md)."""
    monitoring: Enabled = Enabled()
    """A ServiceMonitor, alerts, and a Grafana dashboard; the Prometheus operator's definitions have to be there."""
    ui: Ui = Ui()
    """The page of `vgpu-scheduler ui` in the cluster (docs/ui.md)."""
    shadow: Shadow = Shadow()
    """`vgpu-scheduler shadow` in the cluster (docs/shadow.md)."""
    crds: Enabled = Enabled(enabled=True)
    """The definitions of the policies. They are upgraded with the release, and stay when it is uninstalled."""
    scheduler_name: str = ""
    """As in HAMi's chart: one more name by which pods ask for this scheduler, such as hami-scheduler."""
    resource_name: str = ""
    """As in HAMi's chart: the setting nvidia.resource_count_name."""
    resource_mem: str = ""
    """As in HAMi's chart: the setting nvidia.resource_memory_name."""
    resource_mem_percentage: str = ""
    """As in HAMi's chart: the setting nvidia.resource_memory_percentage_name."""
    resource_cores: str = ""
    """As in HAMi's chart: the setting nvidia.resource_core_name."""
    resource_priority: str = ""
    """As in HAMi's chart: the setting nvidia.resource_priority_name."""
    scheduler: HamiScheduler = HamiScheduler()
    """As in HAMi's chart: what of `scheduler` stands for a setting. What `settings` says ranks above it."""


HAMI: dict[str, str] = {
    "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy": "node_policy",
    "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy": "device_policy",
    "resourceName": "nvidia.resource_count_name",
    "resourceMem": "nvidia.resource_memory_name",
    "resourceMemPercentage": "nvidia.resource_memory_percentage_name",
    "resourceCores": "nvidia.resource_core_name",
    "resourcePriority": "nvidia.resource_priority_name",
}
"""The values of HAMi's chart whose text is that of a setting; empty ones say nothing."""


def schema() -> dict[str, Any]:
    """Return the JSON schema of the values, in which ``settings`` are those of the scheduler but FIXED."""
    settings = Settings.model_json_schema()
    for name in FIXED:
        del settings["properties"][name]
    whole = Values.model_json_schema()
    whole["$defs"] |= settings.pop("$defs")
    whole["properties"]["settings"] |= {"properties": settings["properties"], "additionalProperties": False}
    whole["properties"]["global"] = {"type": "object", "description": "What Helm hands to charts of a chart; not used."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}
