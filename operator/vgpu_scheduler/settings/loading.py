"""Loads settings from a file, the environment and the command line, or reads those of another scheduler."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
)
from pydantic_settings import SettingsError as SourceError

from vgpu_scheduler.model import did_you_mean, validation_message
from vgpu_scheduler.settings.model import Settings
from vgpu_scheduler.settings.variables import variable_of
from vgpu_scheduler.settings.yaml_text import MapError, lines_of, read_map


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
        If a setting is invalid; the message names the fields, with the lines of those in the file.
    """
    if file is None:
        return _joined(_Written(), EnvSettingsSource, flags)
    where = f"settings file {file}"
    text = read_text(file, where)
    content = yaml_map(text, where, "settings")
    if content.get("kind") == "ConfigMap":
        raise SettingsError(f"{where}: a ConfigMap; give the text in its data, under settings.yaml")
    if {"apiVersion", "kind"} <= content.keys():
        raise SettingsError(f"{where}: a Kubernetes object, not settings")
    return _joined(_Written(content, where, lines_of(text)), EnvSettingsSource, flags)


def yaml_map(text: str, where: str, of: str) -> Mapping[str, Any]:
    """Parse a YAML map; an empty text gives an empty map.

    Parameters
    ----------
    where
        The source, which errors begin with.
    of
        The content of the map, for errors.

    Raises
    ------
    SettingsError
        If it is not valid YAML, or not a map.
    """
    try:
        return read_map(text, of)
    except MapError as error:
        raise SettingsError(f"{where}: {error}") from None


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


def read(
    content: Mapping[str, Any], environment: Mapping[str, str], flags: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings of another scheduler, from its file, environment and command line.

    Parameters
    ----------
    content
        The content of its settings file.
    environment
        Its environment variables.
    flags
        The settings of its command line.

    Raises
    ------
    SettingsError
        If a setting is invalid; the message names the fields.
    """

    class Elsewhere(EnvSettingsSource):
        def _load_env_vars(self) -> Mapping[str, str | None]:
            return {name.lower(): value for name, value in environment.items()}

    return _joined(_Written(content), Elsewhere, flags or {})


@dataclass(frozen=True, slots=True)
class _Written:
    """The content of a settings file.

    Attributes
    ----------
    where
        The name of the file in errors; empty if there is none to show.
    lines
        The line of each setting.
    """

    content: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def place(self, setting: tuple[str, ...]) -> str:
        """Return the place of a setting, as the beginning of an error; empty if it is not in the file."""
        known = (setting[:length] for length in range(len(setting), 0, -1))
        line = next((self.lines[path] for path in known if path in self.lines), 0)
        return f"{self.where}, line {line}: " if line else ""


def _joined(written: _Written, environment: type[EnvSettingsSource], flags: Mapping[str, Any]) -> Settings:
    """Return the settings of file, environment and command line, each taking precedence over the one before."""
    _check_names(written.content)

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
            given, content = (InitSettingsSource(settings_cls, dict(values)) for values in (flags, written.content))
            return (given, environment(settings_cls), content)

    try:
        return Joined()
    except ValidationError as error:
        wrong = [(_path_of(item), _error_message(item)) for item in error.errors()]
        wrong = [(path, text) for path, text in wrong if not any(_is_within(other, path) for other, _ in wrong)]
    except SourceError as error:  # a section in the environment that is not JSON
        raise SettingsError(str(error)) from None
    raise SettingsError("; ".join(_named(path, text, written, flags) for path, text in wrong))


def _is_within(path: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """Tell whether a path is inside another one: an error in a part is then also reported for the whole."""
    return bool(whole) and len(path) > len(whole) and path[: len(whole)] == whole


def _named(path: tuple[str, ...], text: str, written: _Written, flags: Mapping[str, Any]) -> str:
    """Return the error of a setting with its name, and with its place if it is from the file."""
    elsewhere = (path[:1] and path[0] in flags) or any(name in os.environ for name in _variables(path))
    return f"{'' if elsewhere else written.place(path)}{'.'.join(path) or 'settings'}: {text}"


def _variables(path: tuple[str, ...]) -> list[str]:
    """Return the environment variables that take precedence over a setting of a file."""
    return [variable_of(path[:length]) for length in range(1, len(path) + 1)]


def _check_names(content: Mapping[Any, Any], place: str = "") -> None:
    """Refuse keys that are not strings, which YAML allows."""
    for name, value in content.items():
        if not isinstance(name, str):
            raise SettingsError(f"{place}{name}: the name of a setting is a string")
        if isinstance(value, Mapping):
            _check_names(value, f"{place}{name}.")


def _error_message(error: ErrorDetails) -> str:
    """Return the problem of a value without the name of its setting; suggest a known name for an unknown setting."""
    place = error["loc"]
    if error["type"] == "extra_forbidden":
        return f"there is no such setting{did_you_mean(str(place[-1]), _names_in(place[:-1]))}"
    return validation_message(error)


def _path_of(error: ErrorDetails) -> tuple[str, ...]:
    """Return the path of the setting of an error."""
    return tuple(map(str, error["loc"]))


def _names_in(section: tuple[int | str, ...]) -> list[str]:
    """Return the settings of a section."""
    model: type[BaseModel] = Settings
    for name in section:
        field = model.model_fields.get(str(name))
        if field is None or not isinstance(field.default, BaseModel):
            return []
        model = type(field.default)
    return list(model.model_fields)
