"""Runs ``vgpu-scheduler settings``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import click
import yaml

from vgpu_scheduler.runtime.device_config import device_config_warnings
from vgpu_scheduler.settings import SettingInfo, SettingsError, load, setting_infos, unknown_variables

_WIDTH = 110
_WRONG = 2


def run(*, check: Path | None) -> None:
    """Print the settings, or check a file."""
    if check is None:
        for line in as_yaml(setting_infos()):
            click.echo(line)
        return
    try:
        warnings = [*device_config_warnings(load(check, {})), *unknown_variables(os.environ)]
    except SettingsError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(_WRONG) from None
    for problem in warnings:
        click.echo(f"warning: {problem}", err=True)
    but = f", with {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""
    click.echo(f"{check}: all settings are valid{but}")


def as_yaml(infos: Iterator[SettingInfo]) -> Iterator[str]:
    """Yield the lines of a settings file that changes nothing."""
    section: tuple[str, ...] = ()
    for info in infos:
        *outer, name = info.path
        if tuple(outer) != section:
            section = tuple(outer)
            yield ""
            yield f"{'  ' * (len(section) - 1)}{section[-1]}:" if section else ""
        indent = "  " * len(section)
        comment = f"{info.about} {f'Values: {info.values}.' if info.values else ''}".strip()
        for line in wrap(comment, _WIDTH - len(indent)):
            yield f"{indent}# {line}"
        yield f"{indent}# {info.variable}"
        value = yaml.safe_dump(info.default, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
        yield f"{indent}{name}: {value}"
