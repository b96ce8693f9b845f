"""The device configuration of an ecosystem as its installation keeps it: ``device-config.yaml``, or its ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vgpu_scheduler.settings import Settings, SettingsError, read_text, yaml_map

FILE: Final = "device-config.yaml"
"""The name of the file in every ConfigMap."""


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """The file of one ecosystem, and the settings about it.

    Attributes
    ----------
    owner
        Whose it is, for people.
    config_map
        The ConfigMap that it is in, in the namespace of the scheduler.
    path_setting, sections_setting
        The setting that names the file, and that whose fields rank above those of the file.
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
        """Return how errors name the configuration."""
        return f"{self.owner} device configuration{f' {path}' if path else ''}"

    def content(self, settings: Settings) -> Mapping[str, Any]:
        """Return the sections of the file with the fields that the settings give.

        Raises
        ------
        SettingsError
            If the file cannot be read; the message names it.
        """
        path = self.path(settings)
        return _joined(self._read(path) if path else {}, getattr(settings, self.sections_setting))

    def unseen(self, settings: Settings) -> str:
        """Return a warning where the settings name a file that is not on this machine; else nothing."""
        path = self.path(settings)
        if path is None or path.exists():
            return ""
        return f"{self.path_setting}: {path} is not on this machine: what is in it was not looked at"

    def without_path(self, settings: Settings) -> Settings:
        """Return settings that name no file."""
        return settings.model_copy(update={self.path_setting: None})

    def inlined(self, settings: Settings) -> Settings:
        """Return settings that have the content of the file where they name one.

        Raises
        ------
        SettingsError
            If it cannot be read.
        """
        return settings if self.path(settings) is None else self._with(settings, self.content(settings))

    def with_text(self, settings: Settings, text: str) -> Settings:
        """Return settings that have a text for the content of the file that they name.

        Raises
        ------
        SettingsError
            If it cannot be read.
        """
        sections = self._sections(text, self.where(None))
        return self._with(settings, _joined(sections, getattr(settings, self.sections_setting)))

    def _with(self, settings: Settings, sections: Mapping[str, Any]) -> Settings:
        return settings.model_copy(update={self.path_setting: None, self.sections_setting: dict(sections)})

    def _read(self, path: Path) -> Mapping[str, Any]:
        """Return the content of the file; of a ConfigMap, that of the file in it."""
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
    """Put fields over those of the file, section by section; a section that is a list replaces the other."""
    sections = {
        name: {**file[name], **section} if isinstance(section, dict) and isinstance(file.get(name), dict) else section
        for name, section in given.items()
    }
    return {**file, **sections}


HAMI: Final = DeviceFile("HAMi's", "hami-scheduler-device", "hami_device_config", "hami_devices")
VOLCANO: Final = DeviceFile("Volcano's", "volcano-vgpu-device-config", "volcano_device_config", "volcano_devices")
DEVICE_FILES: Final = (HAMI, VOLCANO)
"""Those of all ecosystems."""
