"""The device configuration in an ecosystem's own format: ``device-config.yaml``, or the ConfigMap that contains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vgpu_scheduler.settings import Settings, SettingsError, read_text, yaml_map

FILE: Final = "device-config.yaml"
"""The name of the file in each ecosystem's ConfigMap."""


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """The device configuration file of one ecosystem, and the settings that refer to it.

    Attributes
    ----------
    owner
        The ecosystem's name in messages.
    config_map
        The ConfigMap that contains the file, in the scheduler's namespace.
    path_setting, sections_setting
        The setting with the path of the file, and the setting whose fields override those of the file.
    """

    owner: str
    config_map: str
    path_setting: str
    sections_setting: str

    def path(self, settings: Settings) -> Path | None:
        """Return the path of the file; None where the settings name none."""
        path: Path | None = getattr(settings, self.path_setting)
        return path

    def where(self, path: Path | None) -> str:
        """Return the name of the configuration for error messages."""
        return f"{self.owner} device configuration{f' {path}' if path else ''}"

    def content(self, settings: Settings) -> Mapping[str, Any]:
        """Return the sections of the file, overridden by the fields of the settings.

        Raises
        ------
        SettingsError
            If the file cannot be read; the message names it.
        """
        path = self.path(settings)
        return _joined(self._read(path) if path else {}, getattr(settings, self.sections_setting))

    def unseen(self, settings: Settings) -> str:
        """Return a warning if the settings name a file that is not on this machine, else an empty text."""
        path = self.path(settings)
        if path is None or path.exists():
            return ""
        return f"{self.path_setting}: {path} is not on this machine: its content was not checked"

    def without_path(self, settings: Settings) -> Settings:
        """Return the settings without the path of the file."""
        return settings.model_copy(update={self.path_setting: None})

    def inlined(self, settings: Settings) -> Settings:
        """Return the settings with the content of the file in place of its path.

        Raises
        ------
        SettingsError
            If the file cannot be read.
        """
        return settings if self.path(settings) is None else self._with(settings, self.content(settings))

    def with_text(self, settings: Settings, text: str) -> Settings:
        """Return the settings with a given text as the content of the file.

        Raises
        ------
        SettingsError
            If the text cannot be parsed.
        """
        sections = self._sections(text, self.where(None))
        return self._with(settings, _joined(sections, getattr(settings, self.sections_setting)))

    def _with(self, settings: Settings, sections: Mapping[str, Any]) -> Settings:
        return settings.model_copy(update={self.path_setting: None, self.sections_setting: dict(sections)})

    def _read(self, path: Path) -> Mapping[str, Any]:
        """Return the content of the file; if it is a ConfigMap, that of the file inside it."""
        where = self.where(path)
        content = self._sections(read_text(path, where), where)
        if content.get("kind") != "ConfigMap":
            return content
        data = content.get("data")
        text = data.get(FILE) if isinstance(data, dict) else None
        if not isinstance(text, str):
            raise SettingsError(f"{where}: the ConfigMap has no data[{FILE!r}]")
        return self._sections(text, where)

    @staticmethod
    def _sections(text: str, where: str) -> Mapping[str, Any]:
        return yaml_map(text, where, "sections")


def _joined(file: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Override the fields of the file, section by section; a section that is a list is replaced as a whole."""
    sections = {
        name: {**file[name], **section} if isinstance(section, dict) and isinstance(file.get(name), dict) else section
        for name, section in given.items()
    }
    return {**file, **sections}


HAMI: Final = DeviceFile("HAMi's", "hami-scheduler-device", "hami_device_config", "hami_devices")
VOLCANO: Final = DeviceFile("Volcano's", "volcano-vgpu-device-config", "volcano_device_config", "volcano_devices")
DEVICE_FILES: Final = (HAMI, VOLCANO)
"""The files of all ecosystems."""
