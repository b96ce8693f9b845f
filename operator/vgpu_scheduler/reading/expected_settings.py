"""What the doctor expects of a cluster, derived from the settings of its scheduler."""

from __future__ import annotations

from pathlib import Path

from vgpu_scheduler.apiclient import ApiClient
from vgpu_scheduler.doctor import SETTINGS_UNREADABLE, ExpectedSettings, Finding, ObjectRef
from vgpu_scheduler.reading.settings import SchedulerSettings, read_settings

_NAME = "vgpu-scheduler"


async def expectations(api: ApiClient, config: Path | None, namespace: str) -> tuple[ExpectedSettings, list[Finding]]:
    """Return what the installed scheduler expects, and findings about settings that cannot be understood.

    Raises
    ------
    SettingsError
        If the file cannot be read.
    ApiUnreachableError
        If the API server does not return the installed objects.
    """
    return expected_of(await read_settings(api, config, namespace), namespace)


def expected_of(installed: SchedulerSettings, namespace: str) -> tuple[ExpectedSettings, list[Finding]]:
    """Return what a scheduler with these settings expects, and findings about settings that cannot be understood."""
    unreadable = SETTINGS_UNREADABLE.of(ObjectRef("ConfigMap", _NAME, namespace), installed.problem)
    return _expected(installed, namespace), [unreadable] if installed.problem else []


def _expected(installed: SchedulerSettings, namespace: str) -> ExpectedSettings:
    settings = installed.settings
    return ExpectedSettings(
        source=installed.source,
        options=installed.options,
        namespace=namespace,
        lease_name=settings.lease.name,
        lease_namespace=settings.lease.namespace,
        lease_seconds=settings.lease.duration,
    )
