"""Checks of the policies' CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.doctor.kinds import DEFINITIONS
from vgpu_scheduler.doctor.objects import Definition
from vgpu_scheduler.model import first_of
from vgpu_scheduler.policy import VERSION, crds

_KIND = "CustomResourceDefinition"
_MOST_NAMED = 5

MISSING = Diagnosis(
    "definition-missing",
    Severity.ERROR,
    "The custom resource of a kind of policies is not defined, so no policy of that kind can be written, and none is in"
    " force. The scheduler works without policies.",
    "Apply the folder crds (kubectl apply -k crds).",
)
VERSION_MISSING = Diagnosis(
    "definition-version",
    Severity.ERROR,
    "The custom resource is defined, and the version that the scheduler reads is not served or not established.",
    "Apply the folder crds of the scheduler's version.",
)
OUTDATED = Diagnosis(
    "definition-outdated",
    Severity.WARNING,
    "The definition lacks fields that this version knows: it is that of an older one. The API server drops these fields"
    " from policies, or refuses them.",
    "Apply the folder crds of the scheduler's version.",
)


def definitions(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find definitions that are missing, or older than this version."""
    found = {definition.metadata.name: definition for definition in doctor_input.definitions}
    wanted = {str(crd["metadata"]["name"]): crd for crd in crds()}
    for name in DEFINITIONS:
        ref = ObjectRef(_KIND, name)
        if name not in found:
            yield MISSING.of(ref, "it does not exist")
        else:
            yield from _compare(ref, found[name], wanted[name])


def _compare(ref: ObjectRef, found: Definition, wanted: Mapping[str, Any]) -> Iterator[Finding]:
    version = next((v for v in found.spec.versions if v.name == VERSION and v.served), None)
    if version is None:
        served = ", ".join(v.name for v in found.spec.versions if v.served) or "none"
        yield VERSION_MISSING.of(ref, f"version {VERSION} is not served (served: {served})")
        return
    established = found.status.condition("Established")
    if established is not None and established.status != "True":
        yield VERSION_MISSING.of(
            ref, f"it is not established: {established.message or 'the API server does not say why'}"
        )
    ours = next(v for v in wanted["spec"]["versions"] if v["name"] == VERSION)["schema"]["openAPIV3Schema"]
    lacking = sorted(_fields(ours) - _fields(version.schema.open_apiv3_schema))
    if lacking:
        yield OUTDATED.of(ref, f"version {VERSION} has no {first_of(lacking, _MOST_NAMED)}")


def _fields(schema: Any, path: str = "") -> set[str]:
    """Return the paths of all fields of a schema."""
    if not isinstance(schema, Mapping):
        return set()
    found: set[str] = set()
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        whole = f"{path}.{name}" if path else str(name)
        found |= {whole} | _fields(inner, whole)
    return found | _fields(schema.get("items"), f"{path}[]")


CHECKS = (Check("definitions", (_KIND,), (MISSING, VERSION_MISSING, OUTDATED), definitions),)
