"""A doctor report as text, and as JSON for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from vgpu_scheduler.doctor import DoctorInput, Report, Severity
from vgpu_scheduler.model import counted

_MOST = 10
"""The most findings of one diagnosis that the text lists."""
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_WIDTH = max(len(severity.value) for severity in Severity)


def as_json(doctor_input: DoctorInput, report: Report) -> dict[str, Any]:
    """Return the report as plain values."""
    return {
        "server": doctor_input.server.address,
        "settings": doctor_input.expected.source,
        "healthy": report.healthy,
        "complete": report.complete,
        "checks": report.checks,
        "findings": [finding.as_json() for finding in report.findings],
        "skipped": [{"check": skipped.check, "reason": skipped.reason} for skipped in report.skipped],
    }


def as_names(report: Report) -> list[str]:
    """Return the objects with findings, each once, in the format of ``-o name``."""
    refs = [finding.ref for finding in report.findings]
    return list(dict.fromkeys("/".join(filter(None, (ref.kind.lower(), ref.namespace, ref.name))) for ref in refs))


def as_text(doctor_input: DoctorInput, report: Report) -> Iterator[str]:
    """Yield the lines of the report for people; a single line if there are no findings."""
    counts: Counter[str] = Counter()
    for finding in report.findings:
        name = finding.diagnosis.id
        counts[name] += 1
        if counts[name] > _MOST:
            continue
        head = click.style(f"{finding.severity.value:{_WIDTH}}", fg=_COLOURS[finding.severity])
        yield f"{head}  {finding.ref}: {finding.message}"
        yield f"{'':{_WIDTH}}  {finding.diagnosis.remedy} ({finding.docs})"
    for name, times in counts.items():
        if times > _MOST:
            yield f"{'':{_WIDTH}}  and {times - _MOST} more of {name}: -o json has them all"
    for skipped in report.skipped:
        yield f"{'skipped':{_WIDTH}}  {skipped.check}: needs {skipped.reason}"
    yield _summary(doctor_input, report)


def _summary(doctor_input: DoctorInput, report: Report) -> str:
    numbers = Counter(finding.severity for finding in report.findings)
    parts = [_count(numbers[severity], severity.value) for severity in Severity if numbers[severity]]
    found = ", ".join(parts) if parts else "no problem was found"
    if report.skipped:
        skipped = f"{_count(len(report.skipped), 'check')} skipped"
        found = f"{found}, {skipped}" if parts else f"{skipped}, and the others found no problem"
    checks = _count(report.checks, "check")
    return f"{found}: {checks} of {doctor_input.server.address}, settings of {doctor_input.expected.source}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if word == Severity.INFO.value else counted(number, word)
