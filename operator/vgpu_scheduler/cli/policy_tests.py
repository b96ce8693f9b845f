"""``vgpu-scheduler test``: unit tests for policies."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click

from vgpu_scheduler.reading import TOO_DEEP, FileError, documents, version_problem, yaml_files
from vgpu_scheduler.runtime.warmup import warm_up
from vgpu_scheduler.whatif import CaseError, CaseResult, check_case, read_cases

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class CaseRun:
    """A case with its result.

    Attributes
    ----------
    error
        Why the case could not run; empty if it ran.
    """

    file: Path
    result: CaseResult
    seconds: float = 0.0
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything is as expected."""
        return not self.error and not self.result.failures

    @property
    def title(self) -> str:
        """The file and the name of the case."""
        return f"{self.file}: {self.result.name}" if self.result.name else str(self.file)


def run(*, paths: Sequence[Path], junit: Path | None, quiet: bool) -> None:
    """Run the tests, and exit with their status."""
    warm_up()
    ran = []
    for path in paths:
        for case in run_path(path):
            ran.append(case)
            if not (quiet and case.ok):
                _show(case)
    if junit is not None:
        _write_junit(junit, ran)
    good = sum(case.ok for case in ran)
    errors = sum(bool(case.error) for case in ran)
    summary = f"{good} of {len(ran)} cases as expected" + (f", {errors} could not be run" if errors else "")
    if not ran:
        folders = ", ".join(map(str, paths))
        click.echo(f"there are no cases in {folders}: a file of cases has pod and expect, steps, or cases")
    click.echo(f"{summary}, {1000 * sum(case.seconds for case in ran):.0f} ms")
    if errors or not ran:
        raise SystemExit(2)
    raise SystemExit(0 if good == len(ran) else 1)


def run_path(path: Path) -> Iterator[CaseRun]:
    """Run all cases of a file, or of the files in a folder; a file given by name must contain some."""
    ran = 0
    for case in _run_files(path):
        ran += 1
        yield case
    if not ran and path.is_file():
        yield CaseRun(path, CaseResult(""), error="it contains no case")


def _run_files(path: Path) -> Iterator[CaseRun]:
    for file in yaml_files(path):
        try:
            found = documents(file)
        except FileError as error:
            yield CaseRun(file, CaseResult(""), error=str(error))
            continue
        for document in found:
            if file == path or not _is_object(document):
                yield from run_document(document, file)


def run_document(document: object, file: Path) -> Iterator[CaseRun]:
    """Run all cases of a document; files that it names are relative to the document."""
    if _is_object(document):
        yield CaseRun(file, CaseResult(""), error="this is a Kubernetes object: a case names its policies by file")
        return
    try:
        cases = read_cases(_with_files(document, file))
    except (CaseError, FileError) as error:
        yield CaseRun(file, CaseResult(""), error=str(error))
        return
    except RecursionError:
        yield CaseRun(file, CaseResult(""), error=TOO_DEEP)
        return
    for case in cases:
        if isinstance(case, CaseError):
            yield CaseRun(file, CaseResult(case.case), error=str(case))
            continue
        began = time.perf_counter()
        try:
            result, problem = check_case(case), ""
        except CaseError as error:
            result, problem = CaseResult(case.name), str(error)
        except RecursionError:
            result, problem = CaseResult(case.name), TOO_DEEP
        yield CaseRun(file, result, time.perf_counter() - began, problem)


def _is_object(document: object) -> bool:
    return isinstance(document, Mapping) and {"apiVersion", "kind"} <= document.keys()


def _with_files(document: Any, file: Path) -> Any:
    """Replace the names of files in a document of cases by their content."""
    if not isinstance(document, Mapping):
        return document
    found = dict(document)
    for key in ("policies", "objects"):
        entries = found.get(key)
        if isinstance(entries, str | list):
            listed = [entries] if isinstance(entries, str) else entries
            found[key] = [obj for entry in listed for obj in _content(entry, file, key)]
        elif entries is not None:
            _check_version(entries, key)
    if isinstance(found.get("pod"), str):
        pods = _content(found["pod"], file, "pod")
        if len(pods) != 1:
            raise FileError(f"pod: {found['pod']} holds {len(pods)} objects, not one")
        found["pod"] = pods[0]
    for key in ("cases", "steps"):
        if isinstance(found.get(key), list):
            found[key] = [_part(part, file, f"{key}[{number}]") for number, part in enumerate(found[key])]
    return found


def _check_version(obj: Any, field: str) -> None:
    if isinstance(obj, Mapping) and (problem := version_problem(obj)):
        raise FileError(f"{field}: {problem}")


def _part(part: Any, file: Path, where: str) -> Any:
    try:
        return _with_files(part, file)
    except FileError as error:
        raise FileError(f"{where}.{error}") from None


def _content(entry: Any, file: Path, field: str) -> list[Any]:
    """Return the objects of a file or folder that a field names."""
    if not isinstance(entry, str):
        _check_version(entry, field)
        return [entry]
    path = file.parent / entry
    found = []
    try:
        for source in yaml_files(path):
            for obj in documents(source):
                _check_version(obj, str(source))
                found.append(obj)
    except FileError as error:
        raise FileError(f"{field}: {error}") from None
    if not found:
        raise FileError(f"{field}: {path} {'holds no object' if path.exists() else 'is not there'}")
    return found


def _show(case: CaseRun) -> None:
    if case.ok:
        click.echo(f"ok    {case.title}")
        return
    if case.error:
        click.secho(f"ERROR {case.title}", fg="red")
        click.echo(f"      {case.error}")
        return
    click.secho(f"FAIL  {case.title}", fg="red")
    for failure in case.result.failures:
        click.echo(f"      {failure}")
    for line in case.result.explanation.splitlines():
        click.echo(f"      | {line}")


def _write_junit(path: Path, ran: Sequence[CaseRun]) -> None:
    suite = ET.Element(
        "testsuite",
        name="vgpu-scheduler test",
        tests=str(len(ran)),
        failures=str(sum(bool(case.result.failures) for case in ran)),
        errors=str(sum(bool(case.error) for case in ran)),
        time=f"{sum(case.seconds for case in ran):.3f}",
    )
    for case in ran:
        name = _xml(case.result.name or case.file.name)
        element = ET.SubElement(
            suite, "testcase", classname=_xml(str(case.file)), name=name, time=f"{case.seconds:.3f}"
        )
        if case.error:
            ET.SubElement(element, "error", message=_xml(case.error))
        elif case.result.failures:
            failure = ET.SubElement(element, "failure", message=_xml(case.result.failures[0]))
            failure.text = _xml("\n".join([*case.result.failures, case.result.explanation]))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        click.echo(f"Error: --junit {path}: {error.strerror}", err=True)
        raise SystemExit(2) from None


def _xml(text: str) -> str:
    """Replace the characters that XML cannot represent."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
