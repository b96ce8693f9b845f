"""Device configurations: turns files and settings into the values that dialects are made from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vgpu_scheduler.dialects.hami import ConfigError, Vendor, VendorSection, configured
from vgpu_scheduler.dialects.volcano import VolcanoRequests, configured_requests
from vgpu_scheduler.model import Profile
from vgpu_scheduler.runtime.device_files import HAMI, VOLCANO, DeviceFile
from vgpu_scheduler.settings import Settings, SettingsError

log = logging.getLogger(__name__)
_T = TypeVar("_T")


def device_config(settings: Settings) -> tuple[Vendor, ...]:
    """Return the vendors' cards under the names that HAMi's device configuration gives.

    The NVIDIA settings override the device sections in the settings, and these override the file.

    Raises
    ------
    SettingsError
        If the file cannot be read, or a field of it; the message names both.
    """
    return _logged(_configured(settings))


def volcano_requests(settings: Settings) -> VolcanoRequests:
    """Return the names in Volcano's device configuration; the fields of the settings override the file's.

    Raises
    ------
    SettingsError
        If the file cannot be read, or a field of it; the message names both.
    """
    return _logged(_configured_requests(settings))


def _logged(found: tuple[_T, list[str]]) -> _T:
    for warning in found[1]:
        log.warning("%s", warning)
    return found[0]


def device_config_warnings(settings: Settings) -> list[str]:
    """Return warnings about parts of the device configurations without effect; files not on this machine are skipped.

    Raises
    ------
    SettingsError
        If a file cannot be read, or a field of it; the message names both.
    """
    return [*_warnings(HAMI, _configured, settings), *_warnings(VOLCANO, _configured_requests, settings)]


def _warnings(file: DeviceFile, read: Callable[[Settings], tuple[Any, list[str]]], settings: Settings) -> list[str]:
    unseen = file.unseen(settings)
    return [unseen, *read(file.without_path(settings))[1]] if unseen else read(settings)[1]


def _configured(settings: Settings) -> tuple[tuple[Vendor, ...], list[str]]:
    """Return the vendors' cards, and warnings about parts of the configuration without effect."""
    content = _with_settings(HAMI.content(settings), settings)
    found, warnings = _understood(HAMI, settings, content, configured)
    if HAMI.path(settings) and "profile" not in settings.model_fields_set and settings.profile is not Profile.HAMI210:
        warnings.append(
            f"HAMi's device configuration is read under profile {settings.profile.value}: "
            f"set profile: {Profile.HAMI210.value} for the choices of HAMi 2.10"
        )
    return found, warnings


def _configured_requests(settings: Settings) -> tuple[VolcanoRequests, list[str]]:
    """Return the names, and warnings about parts of the configuration without effect."""
    return _understood(VOLCANO, settings, VOLCANO.content(settings), configured_requests)


def _understood(
    file: DeviceFile, settings: Settings, content: Mapping[str, Any], read: Callable[[VendorSection], _T]
) -> tuple[_T, list[str]]:
    """Return a configuration as ``read`` decodes it, and warnings about the fields that it does not know."""
    where = file.where(file.path(settings))
    try:
        config = VendorSection(content)
        found = read(config)
    except ConfigError as error:
        raise SettingsError(f"{where}: {error}") from None
    return found, [f"{where}: {text}" for text in config.unknown()]


def _with_settings(content: Mapping[str, Any], settings: Settings) -> Mapping[str, Any]:
    given = {_camel_case(name): getattr(settings.nvidia, name) for name in settings.nvidia.model_fields_set}
    section = content.get("nvidia")
    if section is not None and not isinstance(section, dict):
        return content  # reading it raises the error
    exclusive = {"wholeIsExclusive": True} if settings.whole_is_exclusive else {}
    return {**content, "nvidia": {**(section or {}), **given, **exclusive}}


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join("GPU" if part == "gpu" else part.capitalize() for part in tail)
