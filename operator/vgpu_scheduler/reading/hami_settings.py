"""Convert flags of HAMi's scheduler to settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from vgpu_scheduler.kube import go_bool
from vgpu_scheduler.reading.hami_flags import SETTINGS, SWITCHES_WITHOUT_EFFECT, WITHOUT_EFFECT, variable
from vgpu_scheduler.settings import parse_address


def given_settings(flags: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that flags set, and warnings about flags without effect."""
    hami, own, warnings = from_hami(flags)
    return {**hami, **{name: value for name, value in own.items() if value not in (None, ())}}, warnings


def from_hami(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Split the values of a command line into settings that HAMi's flags set, and all other flags.

    Returns
    -------
    tuple
        The settings by name, the other flags, and warnings about flags without effect.

    Raises
    ------
    click.BadParameter
        If a value is malformed.
    """
    rest = dict(flags)
    settings: dict[str, Any] = {}
    warnings = []
    for flag, path in SETTINGS.items():
        value = rest.pop(variable(flag), None)
        if value is not None:
            section = settings
            for name in path[:-1]:
                section = section.setdefault(name, {})
            section[path[-1]] = value
    metax = settings.get("hami_devices", {}).get("metax", {})
    if "sgpuTopologyAware" in metax:
        metax["sgpuTopologyAware"] = _switch(metax["sgpuTopologyAware"], "--sgpu-topology-aware")
    webhook = _address(rest, "--http_bind")
    if {"cert_file", "key_file"} <= settings.get("admission", {}).keys():
        # HAMi's scheduler serves its webhook whenever it has a certificate.
        settings["admission"] |= {"enabled": True} | ({"port": parse_address(webhook)[1]} if webhook else {})
    elif webhook:
        warnings.append("--http_bind has no effect: without a certificate the webhook is not served")
    if metrics := _address(rest, "--metrics-bind-address"):
        settings |= {"metrics_address": metrics, "hami_metrics": True}  # probes stay on their own port
    for flag, why in (*WITHOUT_EFFECT.items(), *SWITCHES_WITHOUT_EFFECT.items()):
        if rest.pop(variable(flag), None) is not None:
            warnings.append(f"{flag} has no effect: {why}")
    return settings, rest, warnings


def _address(flags: dict[str, Any], flag: str) -> str:
    """Take an address such as ``:9395`` from the flags; empty if it is not set."""
    address: str = flags.pop(variable(flag), None) or ""
    try:
        if address:
            parse_address(address)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=flag) from error
    return address


def _switch(text: str, flag: str) -> bool:
    """Parse a boolean as Go does."""
    given = go_bool(text)
    if given is None:
        raise click.BadParameter(f"{text!r} is neither true nor false", param_hint=flag)
    return given
