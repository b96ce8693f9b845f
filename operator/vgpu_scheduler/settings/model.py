"""The settings as a model: their names, types, defaults and what each is for."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from vgpu_scheduler.kube import LabelSelector, parse_label_selector
from vgpu_scheduler.model.policy_settings import PolicySettings
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
from vgpu_scheduler.settings.variables import BETWEEN_LEVELS, VARIABLE_PREFIX


class Settings(PolicySettings, BaseSettings):
    """The settings."""

    model_config = SettingsConfigDict(
        env_prefix=VARIABLE_PREFIX,
        env_nested_delimiter=BETWEEN_LEVELS,
        extra="forbid",
        use_attribute_docstrings=True,
        frozen=True,
    )

    scheduler_names: Annotated[tuple[str, ...], Field(min_length=1), NoDecode] = ("vgpu-scheduler",)
    """This operator places pods that have one of these names in spec.schedulerName."""
    dialects: Annotated[tuple[Literal["hami", "volcano", "koordinator"], ...], Field(min_length=1), NoDecode] = (
        "hami",
    )
    """The ecosystems whose node sides are served; if two define a resource, the first listed wins."""
    nvidia: NvidiaSettings = NvidiaSettings()
    """NVIDIA resource names and defaults; they override those of HAMi's device configuration."""
    hami_device_config: Path | None = None
    """Path to HAMi's device-config.yaml, or to its ConfigMap: resource names, units and templates of all vendors."""
    hami_devices: dict[str, Any] = {}
    """Sections of HAMi's device-config.yaml whose fields override those of the file."""
    volcano_device_config: Path | None = None
    """Path to Volcano's device-config.yaml, or to its ConfigMap: names, the unit of memory, MIG geometries."""
    volcano_devices: dict[str, Any] = {}
    """Sections of Volcano's device-config.yaml whose fields override those of the file."""
    volcano: VolcanoSettings = VolcanoSettings()
    """Properties of the nodes of Volcano's ecosystem."""
    scoring: ScoringSettings = ScoringSettings()
    """How nodes are ranked."""
    preemption: bool = False
    """Evict pods for pods of higher priority, with the rights in manifests/preemption. The section preemption of
    policies says which pods may evict which others (docs/preemption.md)."""
    managed_nodes: str = ""
    """Place pods only on nodes with these labels (a label selector such as pool=shared); empty for all nodes."""
    coexist_with: Annotated[tuple[str, ...], NoDecode] = ()
    """Other schedulers that use HAMi's format: the cards that they write on a pod count before the pod is bound."""
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
    """Additional address for the same endpoints, such as :9395; empty for none."""
    hami_metrics: bool = False
    """Also serve HAMi's scheduler metrics under HAMi's names, for its dashboards: a few lines per card and per pod."""
    metrics_label_values: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Number of models, and of namespaces, with series of their own in the metrics: the models with the most cards, and
    the namespaces that hold the most. All others are summed under other."""
    debug_endpoints: bool = False
    """Serve /debug/ledger, to the same machine only (kubectl port-forward): the allocations of each device, compared
    with those of a rebuilt ledger."""
    policy_status_interval: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """Seconds between updates of policies' status while no policy changes (counts of pods)."""
    sweep_interval: Annotated[float, Field(gt=0)] = 300.0
    """Seconds between comparisons of the known objects with a full list."""
    kubeconfig: Path | None = None
    """Path to a kubeconfig file; inside a cluster the service account is used."""
    context: str | None = None
    """Name of the kubeconfig context to use."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Log level; DEBUG explains each decision, which costs time."""
    log_format: Literal["text", "json"] = "text"
    """Log lines of text, or a JSON object per line."""
    tracing: TracingSettings = TracingSettings()
    """Traces of pods."""
    history: HistorySettings = HistorySettings()
    """The history log, which back-tests replay."""
    runbook_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """Address of docs/runbook.md, such as https://docs.example.com/runbook.html: warning events then end with a link to
    the section of their reason, where there is room, and the chart's alerts link to their sections. Empty for none."""

    @field_validator("scheduler_names", "coexist_with", "dialects", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        """Split a comma-separated text, as environment variables have it."""
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("scheduler_names", "coexist_with")
    @classmethod
    def _check_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in names if not re.fullmatch(NAME_PATTERN, name)]
        if wrong:
            raise ValueError(f"{', '.join(map(repr, wrong))} is not a scheduler name")
        if len(set(names)) != len(names):
            raise ValueError("a name is listed twice")
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
            raise ValueError(f"{min(own)} is one of scheduler_names: a scheduler cannot coexist with itself")
        return names

    @model_validator(mode="after")
    def _listens_once(self) -> Settings:
        for (one, here), (other, there) in combinations(self.addresses.items(), 2):
            if share_a_port(here, there):
                raise ValueError(
                    f"{other} is already used by {one}: both listen on port {there[1]}, give them different ones"
                )
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

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of every listener, by the setting of its port."""
        found = {"http_port": (self.http_host, self.http_port)}
        if self.metrics_address:
            found["metrics_address"] = parse_address(self.metrics_address)
        if self.admission.enabled:
            found["admission.port"] = (ANY_HOST, self.admission.port)
        return found

    @property
    def managed(self) -> LabelSelector | None:
        """The selector of the nodes that pods are placed on; None for all."""
        return parse_label_selector(self.managed_nodes)
