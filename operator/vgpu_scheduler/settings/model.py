"""The settings as a model: their names, types, defaults and what each is for."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from vgpu_scheduler.kube import LabelSelector, parse_label_selector
from vgpu_scheduler.model import OrderKind, Profile, check_device_policy
from vgpu_scheduler.settings.addresses import ANY_HOST, parse_address, share_a_port
from vgpu_scheduler.settings.sections import (
    MOST_PORT,
    NAME_PATTERN,
    AdmissionSettings,
    BindSettings,
    HistorySettings,
    LeaseSettings,
    NvidiaSettings,
    ScoringSettings,
    TracingSettings,
    VolcanoSettings,
)


class Settings(BaseSettings):
    """The settings."""

    model_config = SettingsConfigDict(
        env_prefix="VGPU_",
        env_nested_delimiter="__",
        extra="forbid",
        use_attribute_docstrings=True,
        frozen=True,
    )

    scheduler_names: Annotated[tuple[str, ...], Field(min_length=1), NoDecode] = ("vgpu-scheduler",)
    """Pods that name one of these in spec.schedulerName are placed by this operator."""
    dialects: Annotated[tuple[Literal["hami", "volcano", "koordinator"], ...], Field(min_length=1), NoDecode] = (
        "hami",
    )
    """The ecosystems whose node sides are served; if two define a resource, the first listed wins."""
    profile: Profile = Profile.DOCUMENTED
    """The set of defaults for what is not set."""
    node_policy: Literal["binpack", "spread"] = "binpack"
    """Which node is preferred where a pod does not say: the fullest or the emptiest."""
    device_policy: str = "spread"
    """Which card is preferred where a pod does not say, in HAMi's words."""
    device_order: OrderKind | None = None
    """Cards by NUMA node first or by score first; the profile decides if it is not set."""
    strict_annotations: bool = False
    """Refuse pods with odd values in their annotations or odd amounts of devices, such as an unknown policy word or a
    percentage of 0, instead of placing them as HAMi does, with a warning."""
    exclusive_when_unspecified: bool | None = None
    """Give containers that ask for whole NVIDIA cards and say nothing of compute all of it, so that nobody joins them;
    the profile decides if it is not set (HAMi's webhook does so)."""
    nvidia: NvidiaSettings = NvidiaSettings()
    """NVIDIA resource names and defaults; they rank above those of HAMi's device configuration."""
    hami_device_config: Path | None = None
    """HAMi's device-config.yaml, as it is or in its ConfigMap: resource names, units and templates of all vendors."""
    hami_devices: dict[str, Any] = {}
    """Sections of HAMi's device-config.yaml whose fields rank above those of the file."""
    volcano_device_config: Path | None = None
    """Volcano's device-config.yaml, as it is or in its ConfigMap: names, the unit of memory, MIG geometries."""
    volcano_devices: dict[str, Any] = {}
    """Sections of Volcano's device-config.yaml whose fields rank above those of the file."""
    volcano: VolcanoSettings = VolcanoSettings()
    """What the nodes of Volcano's ecosystem have."""
    scoring: ScoringSettings = ScoringSettings()
    """How nodes are ranked."""
    preemption: bool = False
    """Evict pods for those of higher priority: the scheduler has the rights in manifests/preemption, and which pods may
    evict which others is what the section preemption of policies says (docs/preemption.md)."""
    managed_nodes: str = ""
    """Place pods only on nodes with these labels (a label selector such as pool=shared); empty for all nodes."""
    coexist_with: Annotated[tuple[str, ...], NoDecode] = ()
    """Other schedulers that speak HAMi's format: what they write on a pod counts before they have bound it."""
    admission: AdmissionSettings = AdmissionSettings()
    """The admission webhook."""
    lease: LeaseSettings = LeaseSettings()
    """Leader election."""
    bind: BindSettings = BindSettings()
    """Binding."""
    http_host: str = ANY_HOST
    """Address that the health and metrics endpoints listen on."""
    http_port: Annotated[int, Field(ge=0, le=MOST_PORT)] = 8080
    """Port of the health and metrics endpoints; 0 takes any free one."""
    metrics_address: str = ""
    """One more address for the same endpoints, such as :9395; empty for none."""
    hami_metrics: bool = False
    """Serve HAMi's scheduler metrics, too, under HAMi's names: a few lines per card and per pod, for its dashboards."""
    metrics_label_values: Annotated[int, Field(ge=0, le=10_000)] = 100
    """How many models, and how many namespaces, have series of their own in the metrics: those with the most cards, and
    those that hold the most; all others are summed under other."""
    debug_endpoints: bool = False
    """Serve /debug/ledger, to the same machine only (kubectl port-forward): what every device is used for, and how that
    compares with a rebuild."""
    policy_status_interval: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """Seconds between two looks at what the status of policies should say where no policy changed (counts of pods)."""
    sweep_interval: Annotated[float, Field(gt=0)] = 300.0
    """Seconds between comparisons of what is known with a full list."""
    kubeconfig: Path | None = None
    """A kubeconfig file; the service account is used inside a cluster."""
    context: str | None = None
    """A context of the kubeconfig."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """How much is logged; DEBUG explains each decision, which costs time."""
    log_format: Literal["text", "json"] = "text"
    """Lines of text, or a JSON object per line."""
    tracing: TracingSettings = TracingSettings()
    """Traces of pods."""
    history: HistorySettings = HistorySettings()
    """The log of what happens, which back-tests replay."""
    runbook_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """Where docs/runbook.md is served, such as https://docs.example.com/runbook.html: warning events then end with a
    link to the section of their reason, where there is room, and the chart's alerts link theirs. Empty for none."""

    @field_validator("scheduler_names", "coexist_with", "dialects", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        """Split a text at its commas: that is how an environment variable names several."""
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("scheduler_names", "coexist_with")
    @classmethod
    def _check_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in names if not re.fullmatch(NAME_PATTERN, name)]
        if wrong:
            raise ValueError(f"{', '.join(map(repr, wrong))} is no name of a scheduler")
        if len(set(names)) != len(names):
            raise ValueError("a name is given twice")
        return names

    @field_validator("dialects")
    @classmethod
    def _check_dialects(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError("a dialect is listed twice")
        return names

    @field_validator("coexist_with")
    @classmethod
    def _check_rivals(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        own = set(names).intersection(info.data.get("scheduler_names", ()))
        if own:
            raise ValueError(f"{min(own)} is one of scheduler_names: this scheduler is no rival of itself")
        return names

    @model_validator(mode="after")
    def _listens_once(self) -> Settings:
        for (one, here), (other, there) in combinations(self.addresses.items(), 2):
            if share_a_port(here, there):
                raise ValueError(f"{other} is taken by {one}: both listen on port {there[1]}, give them different ones")
        return self

    @field_validator("managed_nodes")
    @classmethod
    def _check_managed_nodes(cls, text: str) -> str:
        parse_label_selector(text)
        return text

    @field_validator("metrics_address")
    @classmethod
    def _check_metrics_address(cls, text: str) -> str:
        if text:
            parse_address(text)
        return text

    @field_validator("device_policy")
    @classmethod
    def _check_device_policy(cls, policy: str) -> str:
        check_device_policy(policy)
        return policy

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of everything that is listened on, by the setting that says the port."""
        found = {"http_port": (self.http_host, self.http_port)}
        if self.metrics_address:
            found["metrics_address"] = parse_address(self.metrics_address)
        if self.admission.enabled:
            found["admission.port"] = (ANY_HOST, self.admission.port)
        return found

    @property
    def managed(self) -> LabelSelector | None:
        """The nodes that pods are placed on; None for all."""
        return parse_label_selector(self.managed_nodes)

    @property
    def whole_is_exclusive(self) -> bool:
        """Whether a claim of a whole card (HAMi: wholeIsExclusive) takes all of its compute, too."""
        if self.exclusive_when_unspecified is not None:
            return self.exclusive_when_unspecified
        return self.profile is Profile.HAMI210

    @property
    def order(self) -> OrderKind:
        """The card order in force."""
        return self.device_order or self.profile.order
