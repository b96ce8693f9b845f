"""Every setting of the operator.

A setting comes from, in rising rank: its default, the YAML file given by ``--config``, an environment variable
(``VGPU_`` and the upper-case name, ``__`` between levels), a command line flag. Only the command line, what reads a
cluster for it, and the runtime import this package; everything else gets values.
"""

from vgpu_scheduler.settings.addresses import parse_address
from vgpu_scheduler.settings.loading import SettingsError, load, read, read_text, yaml_map
from vgpu_scheduler.settings.model import Settings
from vgpu_scheduler.settings.reference import SettingInfo, known_variables, setting_infos, unknown_variables
from vgpu_scheduler.settings.sections import HistorySettings, TracingSettings
from vgpu_scheduler.settings.variables import VARIABLE_PREFIX
from vgpu_scheduler.settings.yaml_text import with_unique_keys, yaml_problem

__all__ = [
    "VARIABLE_PREFIX",
    "HistorySettings",
    "SettingInfo",
    "Settings",
    "SettingsError",
    "TracingSettings",
    "known_variables",
    "load",
    "parse_address",
    "read",
    "read_text",
    "setting_infos",
    "unknown_variables",
    "with_unique_keys",
    "yaml_map",
    "yaml_problem",
]
