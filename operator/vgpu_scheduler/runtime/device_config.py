"""HAMi's ``device-config.yaml``: from a file, the settings, and both together to the makers' cards."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vgpu_scheduler.dialects.hami import ConfigError, Vendor, VendorSection, configured
from vgpu_scheduler.settings import Profile, Settings, SettingsError, read_text, yaml_map

log = logging.getLogger(__name__)

_KEY = "device-config.yaml"


def device_config(settings: Settings) -> tuple[Vendor, ...]:
    """Return the makers' cards under the names that are configured.

    What the settings say of NVIDIA ranks above the fields of sections that they give, and those above the file.

    Raises
    ------
    SettingsError
        If the file cannot be read, or a field of it; the message names both.
    """
    found, warnings = _configured(settings)
    for warning in warnings:
        log.warning("%s", warning)
    return found


def device_config_warnings(settings: Settings) -> list[str]:
    """Return what of HAMi's device configuration has no effect; a file that is not on this machine is not looked at.

    Raises
    ------
    SettingsError
        If the file cannot be read, or a field of it; the message names both.
    """
    file = settings.hami_device_config
    if file is None or file.exists():
        return _configured(settings)[1]
    _, warnings = _configured(settings.model_copy(update={"hami_device_config": None}))
    return [f"hami_device_config: {file} is not on this machine: what is in it was not looked at", *warnings]


def _configured(settings: Settings) -> tuple[tuple[Vendor, ...], list[str]]:
    """Return the makers' cards, and what of the configuration has no effect."""
    file = settings.hami_device_config
    content = _joined(_read(file) if file else {}, settings.hami_devices)
    config = VendorSection(_with_settings(content, settings))
    where = f"HAMi's device configuration{f' {file}' if file else ''}"
    try:
        found = configured(config)
    except ConfigError as error:
        raise SettingsError(f"{where}: {error}") from None
    warnings = [f"{where}: {text}" for text in config.unknown()]
    if file and "profile" not in settings.model_fields_set and settings.profile is not Profile.HAMI210:
        warnings.append(
            f"HAMi's device configuration is read under profile {settings.profile.value}: "
            f"set profile: {Profile.HAMI210.value} for the choices of HAMi 2.10"
        )
    return found, warnings


def with_device_config(settings: Settings, text: str) -> Settings:
    """Return settings that name a file of HAMi's device configuration with the content of that file instead.

    Raises
    ------
    SettingsError
        If it cannot be read.
    """
    return _with_sections(settings, _sections(text, "HAMi's device configuration"))


def without_device_config_file(settings: Settings) -> Settings:
    """Return settings that have the content of HAMi's device configuration where they name a file with it.

    Raises
    ------
    SettingsError
        If it cannot be read.
    """
    file = settings.hami_device_config
    return settings if file is None else _with_sections(settings, _read(file))


def _with_sections(settings: Settings, content: Mapping[str, Any]) -> Settings:
    sections = dict(_joined(content, settings.hami_devices))
    return settings.model_copy(update={"hami_device_config": None, "hami_devices": sections})


def _read(file: Path) -> Mapping[str, Any]:
    """Return the content of the file; of a ConfigMap, that of the file in it."""
    where = f"HAMi's device configuration {file}"
    content = _sections(read_text(file, where), where)
    if content.get("kind") != "ConfigMap":
        return content
    data = content.get("data")
    text = data.get(_KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise SettingsError(f"{where}: the ConfigMap has no data[{_KEY!r}]")
    return _sections(text, where)


def _sections(text: str, where: str) -> Mapping[str, Any]:
    return yaml_map(text, where, "sections")


def _joined(file: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put fields over those of the file, section by section; a section that is a list replaces the other."""
    sections = {
        name: {**file[name], **section} if isinstance(section, dict) and isinstance(file.get(name), dict) else section
        for name, section in given.items()
    }
    return {**file, **sections}


def _with_settings(content: Mapping[str, Any], settings: Settings) -> Mapping[str, Any]:
    given = {_camel_case(name): getattr(settings.nvidia, name) for name in settings.nvidia.model_fields_set}
    section = content.get("nvidia")
    if section is not None and not isinstance(section, dict):
        return content  # refused where it is read
    exclusive = {"wholeIsExclusive": True} if settings.whole_is_exclusive else {}
    return {**content, "nvidia": {**(section or {}), **given, **exclusive}}


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join("GPU" if part == "gpu" else part.capitalize() for part in tail)
