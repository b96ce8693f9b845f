"""The settings of a cluster's scheduler, from its ConfigMap and Deployment, from a file, or the defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
import yaml

from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, object_path
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.doctor import ContainerSpec, decode_workload
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import API_RESOURCES, DecodeError, Object
from vgpu_scheduler.reading.hami_settings import given_settings
from vgpu_scheduler.reading.run_flags import parse_run_flags
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.runtime.device_files import DEVICE_FILES, FILE
from vgpu_scheduler.settings import VARIABLE_PREFIX, Settings, SettingsError, load, read, yaml_map

_NAME = "vgpu-scheduler"
_CONFIG_MAPS, _DEPLOYMENTS = API_RESOURCES["ConfigMap"].path, API_RESOURCES["Deployment"].path
_ABSENT = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN})
"""Status codes for objects that do not exist or that the user may not read."""
_FILE = "settings.yaml"
DEFAULTS = "assumed defaults"
_NO_OVERRIDES: Mapping[str, Any] = {}
_CONFIG = "--config="
_OF_THE_PROCESS = frozenset({"config", "kubeconfig", "context"})
"""Flags that do not affect scheduling."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The settings of a scheduler, with their source.

    Attributes
    ----------
    source
        A description of the source, for people.
    problem
        Why the cluster's settings could not be understood, so that the defaults are used; empty if they could.
    options
        The options for an engine of that scheduler.
    environment
        The environment of this process, if its variables override a file or the defaults; empty for installed
        settings.
    """

    settings: Settings
    source: str
    problem: str
    options: EngineOptions
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_assumed(self) -> bool:
        """Whether no settings could be found, so that these are the defaults."""
        return self.source.startswith(DEFAULTS)

    def for_namespace(self, overrides: Mapping[str, Any] = _NO_OVERRIDES) -> SchedulerSettings:
        """Return the settings for a reader of one namespace.

        Who may not read the settings does not know the dialects, either: every dialect is assumed, since the pods
        themselves say in which one they ask for cards.

        Parameters
        ----------
        overrides
            Settings that override all others.
        """
        if not self.is_assumed or "dialects" in overrides:
            return self
        dialects = (*self.settings.dialects, *(name for name in DIALECTS if name not in self.settings.dialects))
        settings = self.settings.model_copy(update={"dialects": dialects})
        source = f"{self.source}, with every dialect"
        return replace(self, settings=settings, source=source, options=engine_options(settings))


@dataclass(frozen=True, slots=True)
class SettingsObjects:
    """The objects with the settings of an installed scheduler.

    Attributes
    ----------
    namespace
        The namespace of the scheduler.
    config_map, deployment
        Its ConfigMap and Deployment; None if they do not exist or may not be read.
    devices
        The ConfigMaps of device configurations, in the order of ``DEVICE_FILES``; None as above.
    """

    namespace: str
    config_map: Object | None = None
    deployment: Object | None = None
    devices: tuple[Object | None, ...] = (None,) * len(DEVICE_FILES)

    @classmethod
    async def read(cls, api: ApiClient, namespace: str) -> SettingsObjects:
        """Read the objects from the API server.

        Raises
        ------
        ApiUnreachableError
            If a read fails otherwise than by absence: that must not count as a scheduler that is not installed.
        """
        devices = [object_path(_CONFIG_MAPS, namespace, file.config_map) for file in DEVICE_FILES]
        scheduler = [object_path(collection, namespace, _NAME) for collection in (_CONFIG_MAPS, _DEPLOYMENTS)]
        config_map, deployment, *found = [await _get(api, path) for path in (*scheduler, *devices)]
        return cls(namespace, config_map, deployment, tuple(found))

    @classmethod
    def from_settings(cls, settings: Settings, namespace: str) -> SettingsObjects:
        """Return the ConfigMap of a scheduler with these settings.

        Raises
        ------
        SettingsError
            If a device configuration file that the settings name cannot be read.
        """
        for file in DEVICE_FILES:
            settings = file.inlined(settings)
        content = settings.model_dump(mode="json", exclude_unset=True, exclude=set(_OF_THE_PROCESS))
        text = yaml.safe_dump(content, sort_keys=False)
        return cls(namespace, {"metadata": {"name": _NAME, "namespace": namespace}, "data": {_FILE: text}})

    @classmethod
    def among(cls, objects: Iterable[Object], namespace: str) -> SettingsObjects:
        """Find these objects in a snapshot."""
        found = {
            (obj.get("kind"), str(metadata.get("name"))): obj
            for obj in objects
            if isinstance(metadata := obj.get("metadata"), Mapping) and metadata.get("namespace") == namespace
        }
        devices = tuple(found.get(("ConfigMap", file.config_map)) for file in DEVICE_FILES)
        return cls(namespace, found.get(("ConfigMap", _NAME)), found.get(("Deployment", _NAME)), devices)

    @property
    def objects(self) -> list[Object]:
        """The existing objects, with their kinds."""
        devices = [("ConfigMap", devices) for devices in self.devices]
        kinds = (("ConfigMap", self.config_map), ("Deployment", self.deployment), *devices)
        return [{**obj, "kind": kind} for kind, obj in kinds if obj is not None]

    def removed_from(self, objects: Iterable[Object]) -> list[Object]:
        """Return objects without these."""
        return [obj for obj in objects if obj not in (self.config_map, self.deployment, *self.devices)]


async def read_settings(api: ApiClient, config: Path | None, namespace: str) -> SchedulerSettings:
    """Return the settings from a file or, without one, of the scheduler installed in a namespace.

    Raises
    ------
    SettingsError
        If the file cannot be read.
    ApiUnreachableError
        If the API server does not return the installed objects.
    """
    if config is not None:
        return settings_from_file(config)
    return settings_from_objects(await SettingsObjects.read(api, namespace))


def settings_from_objects(
    installed: SettingsObjects, overrides: Mapping[str, Any] = _NO_OVERRIDES
) -> SchedulerSettings:
    """Return the installed settings; if they cannot be understood, the defaults with the problem.

    Parameters
    ----------
    overrides
        Settings that override all others.
    """
    settings, source, problem = _of_cluster(installed, overrides)
    try:
        for file, devices in zip(DEVICE_FILES, installed.devices, strict=True):
            if file.path(settings) is None:
                continue
            text = _text(devices, "data", FILE)
            settings = file.with_text(settings, text or "")
            if text is None:
                source += f", with the defaults for {file.owner} device configuration, which could not be read"
        return SchedulerSettings(settings, source, problem, engine_options(settings))
    except SettingsError as error:
        return _assumed(str(error), overrides)


def settings_from_file(config: Path | None, overrides: Mapping[str, Any] = _NO_OVERRIDES) -> SchedulerSettings:
    """Return the settings from a file, overridden by options, with defaults for all others.

    Raises
    ------
    SettingsError
        If they cannot be understood.
    """
    settings = load(config, overrides)
    source = f"file {config}" if config else DEFAULTS
    return SchedulerSettings(settings, source, "", engine_options(settings), os.environ)


def _assumed(problem: str, overrides: Mapping[str, Any]) -> SchedulerSettings:
    settings = read({}, {}, overrides)
    return SchedulerSettings(settings, DEFAULTS, problem, engine_options(settings))


def _of_cluster(installed: SettingsObjects, overrides: Mapping[str, Any]) -> tuple[Settings, str, str]:
    """Return the settings of the ConfigMap, overridden by the environment and flags of the Deployment."""
    text = _text(installed.config_map, "data", _FILE)
    if text is None and installed.deployment is None:
        return read({}, {}, overrides), DEFAULTS, ""
    deployment = installed.deployment
    try:
        content = yaml_map(text or "", _FILE, "settings")
        settings = read(content, _environment(deployment), {**_flags(deployment), **overrides})
    except SettingsError as error:
        return read({}, {}, overrides), DEFAULTS, str(error)
    kind = "Deployment" if text is None else "ConfigMap"
    return settings, f"{kind} {installed.namespace}/{_NAME}", ""


def _environment(deployment: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the settings among the literal environment variables of a Deployment's containers."""
    return {
        variable.name: variable.value
        for container in _containers(deployment)
        for variable in container.env
        if variable.name.startswith(VARIABLE_PREFIX) and variable.value
    }


def _flags(deployment: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings on the command line of a Deployment.

    Raises
    ------
    SettingsError
        If a flag cannot be understood.
    """
    flags = next((c.args[1:] for c in _containers(deployment) if c.args[:1] == ["run"]), [])
    if all(flag.startswith(_CONFIG) for flag in flags):
        return {}
    try:
        given, _ = given_settings(parse_run_flags(flags))
    except click.ClickException as error:
        raise SettingsError(f"flags of the Deployment: {error.format_message()}") from None
    return {name: value for name, value in given.items() if name not in _OF_THE_PROCESS}


def _containers(deployment: Mapping[str, Any] | None) -> list[ContainerSpec]:
    try:
        return decode_workload(deployment or {}).containers
    except DecodeError:
        return []


async def _get(api: ApiClient, path: str) -> Object | None:
    """Return an object; None if it does not exist or may not be read.

    Raises
    ------
    ApiUnreachableError
        If the request fails otherwise.
    """
    response = await api.request("GET", path)
    if response.status in _ABSENT:
        return None
    if not response.ok:
        raise ApiUnreachableError(f"GET {path}: {response.refusal}")
    try:
        found = response.json()
    except ValueError as error:
        raise ApiUnreachableError(f"GET {path}: {error}") from None
    if not isinstance(found, Mapping):
        raise ApiUnreachableError(f"GET {path}: the answer is not an object")
    return found


def _text(obj: Mapping[str, Any] | None, *path: str) -> str | None:
    found: Any = obj
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None
