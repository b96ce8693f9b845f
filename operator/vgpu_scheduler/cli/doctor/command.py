"""Runs ``vgpu-scheduler doctor``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiUnreachableError, ConfigException, connect
from vgpu_scheduler.cli.cluster.messages import describe_error, warn
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, NAME
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.doctor.show import as_json, as_names, as_text
from vgpu_scheduler.doctor import DoctorInput, Report, examine
from vgpu_scheduler.model import did_you_mean
from vgpu_scheduler.policy import NAMESPACED_KIND
from vgpu_scheduler.reading import (
    ClusterOptions,
    FileError,
    UnauthorizedError,
    doctor_input_of_files,
    read_doctor_input,
)
from vgpu_scheduler.settings import SettingsError

_HEALTHY, _FINDINGS, _INCOMPLETE = 0, 1, 2


@contextmanager
def _without_logs() -> Iterator[None]:
    """Silence the logs about objects that cannot be decoded: the report contains them."""
    logger = logging.getLogger("vgpu_scheduler")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@_without_logs()
def run(*, cluster: ClusterOptions, namespace: str | None, output: str) -> None:
    """Examine a cluster, or only the policies and quotas of one namespace, and print the findings."""
    within = namespace or ""
    try:
        doctor_input = doctor_input_of_files(cluster, within) if cluster.files else asyncio.run(_read(cluster, within))
    except (UnauthorizedError, ApiUnreachableError, SettingsError, ConfigException, FileError, OSError) as error:
        _fail(describe_error(error))  # OSError: from a certificate or key that the kubeconfig names
    there = {pod.namespace for pod in doctor_input.pods} | {quota.namespace for quota in doctor_input.quotas}
    there |= {policy.metadata.namespace for policy in doctor_input.policies(NAMESPACED_KIND)}
    meant = did_you_mean(namespace, there) if namespace and namespace not in there else None
    if meant is not None and (
        meant or doctor_input.missing.keys().isdisjoint(("Pod", "ResourceQuota", NAMESPACED_KIND))
    ):
        warn(f"there is no pod, quota or policy in namespace {namespace}{meant}")
    report = examine(doctor_input)
    if output in FOR_PEOPLE:
        for line in as_text(doctor_input, report):
            click.echo(line)
    elif output == NAME:
        for name in as_names(report):
            click.echo(name)
    else:
        dump(as_json(doctor_input, report), output)
    raise SystemExit(_status(report))


async def _read(cluster: ClusterOptions, namespace: str) -> DoctorInput:
    async with await connect(cluster.kubeconfig, cluster.context, f"vgpu-scheduler-doctor/{__version__}") as api:
        return await read_doctor_input(api, cluster, namespace)


def _status(report: Report) -> int:
    if not report.healthy:
        return _FINDINGS
    return _HEALTHY if report.complete else _INCOMPLETE


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: the cluster could not be read: {message}", err=True)
    raise SystemExit(_INCOMPLETE)
