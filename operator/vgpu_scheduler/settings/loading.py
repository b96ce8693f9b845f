"""Loads settings from a file, the environment and the command line, or reads those of a scheduler elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
)
from pydantic_settings import SettingsError as SourceError

from vgpu_scheduler.model import did_you_mean
from vgpu_scheduler.settings.model import Settings


class SettingsError(ValueError):
    """Settings that do not validate; the message names each field."""


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
    return _joined(_content(file) if file is not None else {}, EnvSettingsSource, flags)


def yaml_problem(error: yaml.MarkedYAMLError) -> tuple[int, str]:
    """Return the line of what is no YAML, 0 if it is not known, and what is wrong with it, in one line."""
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark else 0, ", ".join(filter(None, (error.context, error.problem)))


def yaml_map(text: str, where: str, of: str) -> Mapping[str, Any]:
    """Return a map that is written in YAML; an empty one for an empty text.

    Parameters
    ----------
    where
        What errors name first.
    of
        What the map has, in errors.

    Raises
    ------
    SettingsError
        If it is no YAML, or no map.
    """
    try:
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line, problem = yaml_problem(error)
        raise SettingsError(f"{where}: {f'line {line}: ' if line else ''}not valid YAML: {problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{where}: {error}") from None
    except RecursionError:
        raise SettingsError(f"{where}: nested too deeply") from None
    if not isinstance(content, dict | None):
        raise SettingsError(f"{where}: not a map of {of}")
    return content or {}


def read_text(file: Path, where: str) -> str:
    """Return the text of a file.

    Raises
    ------
    SettingsError
        If it cannot be read.
    """
    try:
        return file.read_text()
    except (OSError, ValueError) as error:
        raise SettingsError(f"{where}: {error}") from None


def _content(file: Path) -> Mapping[str, Any]:
    """Return what a settings file says."""
    where = f"settings file {file}"
    content = yaml_map(read_text(file, where), where, "settings")
    if content.get("kind") == "ConfigMap":
        raise SettingsError(f"{where}: a ConfigMap; give what is in its data, under settings.yaml")
    if {"apiVersion", "kind"} <= content.keys():
        raise SettingsError(f"{where}: a Kubernetes object, and no settings")
    return content


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

    class Elsewhere(EnvSettingsSource):
        def _load_env_vars(self) -> Mapping[str, str | None]:
            return {name.lower(): value for name, value in environment.items()}

    return _joined(content, Elsewhere, flags or {})


def _joined(content: Mapping[str, Any], environment: type[EnvSettingsSource], flags: Mapping[str, Any]) -> Settings:
    """Return the settings of three sources, in rising rank."""
    _check_names(content)

    class Joined(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del init_settings, env_settings, dotenv_settings, file_secret_settings
            given, written = (InitSettingsSource(settings_cls, dict(values)) for values in (flags, content))
            return (given, environment(settings_cls), written)

    return _validated(Joined)


def _check_names(content: Mapping[Any, Any], place: str = "") -> None:
    """Refuse names that are no texts, which YAML allows."""
    for name, value in content.items():
        if not isinstance(name, str):
            raise SettingsError(f"{place}{name}: the name of a setting is a text")
        if isinstance(value, Mapping):
            _check_names(value, f"{place}{name}.")


def _validated(settings: type[Settings]) -> Settings:
    try:
        return settings()
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
