"""What the scheduler of a cluster is expected to be, by its settings."""

from __future__ import annotations

from pathlib import Path

from vgpu_scheduler.apiclient import ApiClient
from vgpu_scheduler.cli.cluster.settings import Found, settings_of
from vgpu_scheduler.doctor import SETTINGS_UNREADABLE, Expected, Finding, ObjectRef

_NAME = "vgpu-scheduler"


async def expectations(api: ApiClient, config: Path | None, namespace: str) -> tuple[Expected, list[Finding]]:
    """Return what the scheduler is set to, and what of that cannot be understood.

    Raises
    ------
    SettingsError
        If the file cannot be read.
    """
    found = await settings_of(api, config, namespace)
    unreadable = SETTINGS_UNREADABLE.of(ObjectRef("ConfigMap", _NAME, namespace), found.problem)
    return _expected(found, namespace), [unreadable] if found.problem else []


def _expected(found: Found, namespace: str) -> Expected:
    settings = found.settings
    return Expected(
        source=found.source,
        dialects=found.dialects,
        scheduler_names=settings.scheduler_names,
        coexist_with=settings.coexist_with,
        managed_nodes=settings.managed,
        system_spread=settings.scoring.system_spread,
        namespace=namespace,
        lease_name=settings.lease.name,
        lease_namespace=settings.lease.namespace,
        lease_seconds=settings.lease.duration,
        patience=settings.bind.longest_wait,
    )
