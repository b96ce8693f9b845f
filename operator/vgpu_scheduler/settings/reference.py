"""The reference of all settings, generated from the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

from vgpu_scheduler.model import did_you_mean
from vgpu_scheduler.settings.model import Settings
from vgpu_scheduler.settings.variables import BETWEEN_LEVELS, VARIABLE_PREFIX, variable_of

_OF_SERVICES: Final = ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT_")
"""Parts of the environment variables that Kubernetes sets for the Services of a pod's namespace."""
_NOT_SETTINGS: Final = frozenset({"VGPU_SCHEDULER_COMPLETE"})


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting.

    Attributes
    ----------
    path
        Its sections and its name.
    default
        The default, as written in a file.
    values
        The allowed values, in words; empty if the type is enough.
    """

    path: tuple[str, ...]
    default: Any
    about: str
    values: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return variable_of(self.path)


def setting_infos() -> Iterator[SettingInfo]:
    """Yield every setting, those without a section first."""
    schema = Settings.model_json_schema()
    defaults = Settings.model_construct().model_dump(mode="json")
    found = list(_infos(Settings, schema, schema.get("$defs", {}), defaults, ()))
    yield from sorted(found, key=lambda info: len(info.path) > 1)


def _infos(
    model: type[BaseModel],
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    defaults: Mapping[str, Any],
    section: tuple[str, ...],
) -> Iterator[SettingInfo]:
    for name, field in model.model_fields.items():
        described = schema["properties"][name]
        if isinstance(field.default, BaseModel):
            inner = definitions[described["$ref"].rpartition("/")[2]]
            yield from _infos(type(field.default), inner, definitions, defaults[name], (*section, name))
            continue
        about = " ".join((field.description or "").split())
        yield SettingInfo((*section, name), defaults[name], about, _values(described, definitions))


def _values(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the allowed values of a setting in words."""
    if "$ref" in schema:
        return _values(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        words = [_values(each, definitions) for each in schema["anyOf"] if each.get("type") != "null"]
        return ", ".join([*filter(None, words), "null"]) if any(words) else ""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "items" in schema and (of := _values(schema["items"], definitions)):
        return f"a list of {of}"
    return "true, false" if schema.get("type") == "boolean" else _range(schema)


def _range(schema: Mapping[str, Any]) -> str:
    least, above, most = (schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum"))
    lower = f"more than {above}" if above is not None else f"{least}" if least is not None else ""
    if most is not None:
        return f"{lower}, at most {most}" if above is not None else f"{lower} to {most}"
    return f"{lower} or more" if least is not None else lower


@cache
def _variables() -> frozenset[str]:
    """Return the variables of all settings."""
    return frozenset(info.variable for info in setting_infos())


def _sections() -> frozenset[str]:
    """Return the variables of all sections, each of which can be set as a whole."""
    return frozenset(variable.partition(BETWEEN_LEVELS)[0] for variable in _variables())


def known_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables of an environment that are settings, sorted by name."""
    known = _variables() | _sections()
    return sorted(name for name in environment if name.upper() in known)


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable that looks like a setting but is unknown, and so has no effect."""
    known = _variables()
    meant = known | _sections() | _NOT_SETTINGS
    for name in sorted(environment):
        upper = name.upper()
        if not upper.startswith(VARIABLE_PREFIX) or upper in meant:
            continue
        of_service = any(part in upper for part in _OF_SERVICES) or environment[name].startswith("tcp://")
        hint = did_you_mean(upper, known, 0.9 if of_service else 0.6)
        if of_service and not hint:
            continue
        yield f"environment variable {name}: there is no such setting{hint}"
