"""Every setting of the operator.

A setting comes from, in rising rank: its default, the YAML file given by ``--config``, an environment variable
(``VGPU_`` and the upper-case name, ``__`` between levels), a command line flag. Only the command line and the runtime
import this module; everything else gets values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)
from pydantic_settings import SettingsError as SourceError

from vgpu_scheduler.kube import LabelSelector, parse_label_selector
from vgpu_scheduler.model import DEVICE_POLICIES, OrderKind, did_you_mean, policy_words

_NAME = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
_ANY_HOST = "0.0.0.0"  # noqa: S104 - probes and scrapes come from outside the pod
_MOST_PORT = 65535


class SettingsError(ValueError):
    """Settings that do not validate; the message names each field."""


class Profile(Enum):
    """A set of defaults."""

    DOCUMENTED = "Documented"
    """The documented behaviour: cards by NUMA node first."""
    HAMI210 = "HAMi210"
    """The behaviour of HAMi 2.10: cards by score first, whole cards for nobody else."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class NvidiaSettings(_Section):
    """Resource names and defaults of NVIDIA cards, as in section ``nvidia`` of HAMi's device configuration."""

    resource_count_name: str = "nvidia.com/gpu"
    """The resource that says how many cards; manifests/admission.yaml names it, too."""
    resource_memory_name: str = "nvidia.com/gpumem"
    """The resource that says how much memory of each, in units of memory_factor MiB."""
    resource_memory_percentage_name: str = "nvidia.com/gpumem-percentage"
    """The resource that says how much memory of each, in percent."""
    resource_core_name: str = "nvidia.com/gpucores"
    """The resource that says how much compute of each, in percent."""
    resource_priority_name: str = "nvidia.com/priority"
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


class LeaseSettings(_Section):
    """The Lease that the one operator that binds holds."""

    name: Annotated[str, Field(pattern=_NAME)] = "vgpu-scheduler"
    """Name of the Lease."""
    namespace: Annotated[str, Field(pattern=_NAME)] = "vgpu-system"
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


class BindSettings(_Section):
    """How pods are bound."""

    timeout: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds that the API server may take for one Binding."""
    longest_wait: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Seconds that a pod waits for its node's lock before it is decided anew."""
    patience: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds between looks at a node that does not move."""
    unlocked: Annotated[int, Field(ge=1, le=1024)] = 64
    """Binds at a time that need no node lock."""
    rejected_node_wait: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """Seconds for which a node whose kubelet rejected a pod takes none that replace it; 0 for none."""
    volume_wait: Annotated[float, Field(gt=0, le=86400)] = 600.0
    """Seconds that a pod's volumes may take to be provisioned and bound, its cards being kept for it."""


class ScoringSettings(_Section):
    """How nodes are ranked where a pod, a taint or the pods that are there would like some more than others."""

    device_weight: Annotated[int, Field(ge=0, le=1000)] = 2
    """How much the score of the policy's node scorers counts, in points of 0 to 100, beside kube-scheduler's plugins:
    TaintToleration counts 3, NodeAffinity, PodTopologySpread and InterPodAffinity 2 each. Where none of them has
    anything to say, that score decides alone; 0 leaves it to nodes that are otherwise equal."""
    system_spread: bool = False
    """Have pods without topology spread constraints ranked by kube-scheduler's: over hostnames with a skew of 3, over
    zones with a skew of 5. Which pods belong together say the Services, ReplicationControllers, ReplicaSets and
    StatefulSets that select a pod; to watch these the rights in manifests/system-spread are needed."""


class AdmissionSettings(_Section):
    """The admission webhook; what it does beside naming the scheduler is in HAMi's device configuration."""

    enabled: bool = False
    """Serve the webhook; see docs/admission.md for how the API server is told of it."""
    port: Annotated[int, Field(ge=1, le=_MOST_PORT)] = 9443
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


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as ``:9395``, which means all hosts.

    Raises
    ------
    ValueError
        If it is no address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MOST_PORT:
        raise ValueError(f"{text!r} is not an address such as :9395")
    return host.strip("[]") or _ANY_HOST, int(port)


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
    """The ecosystems whose node sides are served; a resource name belongs to the first that knows it."""
    profile: Profile = Profile.DOCUMENTED
    """The set of defaults for what is not set."""
    node_policy: Literal["binpack", "spread"] = "binpack"
    """Which node is preferred where a pod does not say: the fullest or the emptiest."""
    device_policy: str = "spread"
    """Which card is preferred where a pod does not say, in HAMi's words."""
    device_order: OrderKind | None = None
    """Cards by NUMA node first or by score first; the profile decides if it is not set."""
    strict_annotations: bool = False
    """Refuse pods with unknown policy words in their annotations instead of falling back with a warning."""
    exclusive_when_unspecified: bool | None = None
    """Give containers that ask for whole NVIDIA cards and say nothing of compute all of it, so that nobody joins them;
    the profile decides if it is not set (HAMi's webhook does so)."""
    nvidia: NvidiaSettings = NvidiaSettings()
    """NVIDIA resource names and defaults; they rank above those of HAMi's device configuration."""
    hami_device_config: Path | None = None
    """HAMi's device-config.yaml, as it is or in its ConfigMap: resource names, units and templates of all makers."""
    hami_devices: dict[str, Any] = {}
    """Sections of HAMi's device-config.yaml whose fields rank above those of the file."""
    scoring: ScoringSettings = ScoringSettings()
    """How nodes are ranked."""
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
    http_host: str = _ANY_HOST
    """Address that the health and metrics endpoints listen on."""
    http_port: Annotated[int, Field(ge=0, le=_MOST_PORT)] = 8080
    """Port of the health and metrics endpoints; 0 takes any free one."""
    metrics_address: str = ""
    """One more address for the same endpoints, such as :9395; empty for none."""
    hami_metrics: bool = False
    """Serve HAMi's scheduler metrics, too, under HAMi's names: a few lines per card and per pod, for its dashboards."""
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
    runbook_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """Where docs/runbook.md is served, such as https://docs.example.com/runbook.html: warning events then end with a
    link to the section of their reason, where there is room. Empty for none."""

    @field_validator("scheduler_names", "coexist_with", "dialects", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        """Split a text at its commas: that is how an environment variable names several."""
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("scheduler_names", "coexist_with")
    @classmethod
    def _check_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in names if not re.fullmatch(_NAME, name)]
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

    @model_validator(mode="after")
    def _no_rival_of_itself(self) -> Settings:
        both = set(self.scheduler_names) & set(self.coexist_with)
        if both:
            raise ValueError(f"{min(both)} is both one of scheduler_names and of coexist_with")
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
        unknown = [word for word in policy_words(policy) if word not in DEVICE_POLICIES]
        if unknown:
            known = ", ".join(sorted(DEVICE_POLICIES))
            raise ValueError(f"{', '.join(map(repr, unknown))} is not one of {known}")
        return policy

    @property
    def managed(self) -> LabelSelector | None:
        """The nodes that pods are placed on; None for all."""
        return parse_label_selector(self.managed_nodes)

    @property
    def whole_is_exclusive(self) -> bool:
        """Whether whole cards are given with all their compute."""
        if self.exclusive_when_unspecified is not None:
            return self.exclusive_when_unspecified
        return self.profile is Profile.HAMI210

    @property
    def order(self) -> OrderKind:
        """The card order in force."""
        if self.device_order is not None:
            return self.device_order
        return OrderKind.SCORE_FIRST if self.profile is Profile.HAMI210 else OrderKind.NUMA_FIRST


def load(file: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Load the settings.

    Parameters
    ----------
    file
        A YAML file, or None.
    flags
        What the command line sets.

    Raises
    ------
    SettingsError
        If anything does not validate; the message names the fields.
    """
    if file is not None:
        try:
            content = yaml.safe_load(file.read_text())
        except (OSError, yaml.YAMLError, ValueError) as error:
            raise SettingsError(f"settings file {file}: {error}") from None
        except RecursionError:
            raise SettingsError(f"settings file {file}: nested too deeply") from None
        if not isinstance(content, dict | None):
            raise SettingsError(f"settings file {file}: not a map of settings")
        if content and content.get("kind") == "ConfigMap":
            raise SettingsError(f"settings file {file}: a ConfigMap; give what is in its data, under settings.yaml")
        if content and {"apiVersion", "kind"} <= content.keys():
            raise SettingsError(f"settings file {file}: a Kubernetes object, and no settings")
        _check_names(content or {})

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            return (init_settings, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=file))

    return _validated(Loaded, flags)


def read(
    content: Mapping[str, Any], environment: Mapping[str, str], flags: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings of a scheduler that runs elsewhere.

    Parameters
    ----------
    content
        What its settings file says.
    environment
        Its environment variables.
    flags
        What its command line sets.

    Raises
    ------
    SettingsError
        If anything does not validate; the message names the fields.
    """
    _check_names(content)

    class Elsewhere(EnvSettingsSource):
        def _load_env_vars(self) -> Mapping[str, str | None]:
            return {name.lower(): value for name, value in environment.items()}

    class Read(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del init_settings, env_settings, dotenv_settings, file_secret_settings  # those of this process
            given, written = (InitSettingsSource(settings_cls, dict(kwargs)) for kwargs in (flags or {}, content))
            return (given, Elsewhere(settings_cls), written)

    return _validated(Read, {})


def _check_names(content: Mapping[Any, Any], place: str = "") -> None:
    """Refuse names that are no texts, which YAML allows."""
    for name, value in content.items():
        if not isinstance(name, str):
            raise SettingsError(f"{place}{name}: the name of a setting is a text")
        if isinstance(value, Mapping):
            _check_names(value, f"{place}{name}.")


def _validated(settings: type[Settings], given: Mapping[str, Any]) -> Settings:
    try:
        return settings(**given)
    except ValidationError as error:
        raise SettingsError(
            "; ".join(_worded(item["type"], item["loc"], item["msg"]) for item in error.errors())
        ) from None
    except SourceError as error:  # a section in the environment that is not JSON
        raise SettingsError(str(error)) from None


def _worded(kind: str, place: tuple[int | str, ...], message: str) -> str:
    """Name a setting and what is wrong with it; one that is not known may be meant for another."""
    path = ".".join(map(str, place)) or "settings"
    if kind != "extra_forbidden":
        return f"{path}: {message}"
    return f"{path}: there is no such setting{did_you_mean(str(place[-1]), _names_in(place[:-1]))}"


def _names_in(section: tuple[int | str, ...]) -> list[str]:
    """Return the settings of a section."""
    model: type[BaseModel] = Settings
    for name in section:
        field = model.model_fields.get(str(name))
        if field is None or not isinstance(field.default, BaseModel):
            return []
        model = type(field.default)
    return list(model.model_fields)
