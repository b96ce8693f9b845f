"""Device configurations: from files and settings to what dialects are made from."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from vgpu_scheduler.dialects.hami import ConfigError, Vendor, VendorSection, configured
from vgpu_scheduler.runtime.device_files import HAMI
from vgpu_scheduler.settings import Profile, Settings, SettingsError

log = logging.getLogger(__name__)


def device_config(settings: Settings) -> tuple[Vendor, ...]:
    """Return the makers' cards under the names that HAMi's device configuration gives.

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
    """Return what of the device configurations has no effect; a file that is not on this machine is not looked at.

    Raises
    ------
    SettingsError
        If a file cannot be read, or a field of it; the message names both.
    """
    unseen = HAMI.unseen(settings)
    if not unseen:
        return _configured(settings)[1]
    return [unseen, *_configured(HAMI.without_path(settings))[1]]


def _configured(settings: Settings) -> tuple[tuple[Vendor, ...], list[str]]:
    """Return the makers' cards, and what of the configuration has no effect."""
    file = HAMI.path(settings)
    config = VendorSection(_with_settings(HAMI.content(settings), settings))
    where = HAMI.where(file)
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
