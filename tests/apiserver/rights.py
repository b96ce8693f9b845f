"""What the manifests allow the scheduler's account, right by right, and which requests each right is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml
from tests.apiserver.audit import AuditRecord

MANIFESTS = Path(__file__).parents[2] / "manifests"
ACCOUNT = {"kind": "ServiceAccount", "name": "vgpu-scheduler", "namespace": "vgpu-system"}
PAGE = {"kind": "ServiceAccount", "name": "vgpu-scheduler-ui", "namespace": "vgpu-system"}
"""That of the page in a browser."""
SHADOW = {"kind": "ServiceAccount", "name": "vgpu-scheduler-shadow", "namespace": "vgpu-system"}
"""That of what watches another scheduler."""
_RENDERED = MANIFESTS / "install.yaml"
REQUESTS = Path(__file__).parents[2] / "build" / "tests" / "requests"
"""Where test processes note what the operator asked for: each has a file of its own."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource, as a rule of a role gives it.

    Attributes
    ----------
    file
        Where the role is, below the manifests.
    group, resource, verb
        As the rule has them; the resource with its subresource, such as ``pods/binding``.
    name
        The only object that it is about, empty for all.
    namespace
        The only namespace that it is about, empty for all.
    """

    file: str
    group: str
    resource: str
    verb: str
    name: str = ""
    namespace: str = ""

    def allows(self, record: AuditRecord) -> bool:
        """Tell whether a request needs this right."""
        resource = f"{record.resource}/{record.subresource}" if record.subresource else record.resource
        return (
            (record.group, resource, record.verb) == (self.group, self.resource, self.verb)
            and self.name in {"", record.name}
            and self.namespace in {"", record.namespace}
        )

    def __str__(self) -> str:
        place = f" {self.name or '*'} in {self.namespace}" if self.namespace else ""
        return f"{self.file}: {self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{place}"


def granted(account: dict[str, str] = ACCOUNT) -> list[Right]:
    """Return every right that a role of the manifests gives an account, the scheduler's if no other."""
    objects = [
        (path.relative_to(MANIFESTS).as_posix(), obj)
        for path in sorted(MANIFESTS.rglob("*.yaml"))
        if path != _RENDERED
        for obj in yaml.safe_load_all(path.read_text())
        if isinstance(obj, dict) and "kind" in obj
    ]
    roles = {(obj["kind"], obj["metadata"]["name"]): (file, obj) for file, obj in objects if "rules" in obj}
    found: list[Right] = []
    for _, binding in objects:
        if binding["kind"] in {"RoleBinding", "ClusterRoleBinding"} and account in binding["subjects"]:
            file, role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
            found += _rights(file, role["rules"], binding["metadata"].get("namespace", ""))
    return found


def _rights(file: str, rules: list[dict[str, Any]], namespace: str) -> Iterator[Right]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(file, group, resource, verb, name, namespace)


def note_requests(records: list[AuditRecord], file: Path) -> None:
    """Note requests for whoever looks back at all of them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(records))


def noted_requests() -> list[AuditRecord]:
    """Return what was noted since `make test` began."""
    return [
        record
        for file in sorted(REQUESTS.glob("*.json"))
        for record in msgspec.json.decode(file.read_bytes(), type=list[AuditRecord])
    ]
