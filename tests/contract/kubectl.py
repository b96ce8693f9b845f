"""kubectl as a user runs it: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]


@dataclass(frozen=True)
class Kubectl:
    """kubectl on one server, in one namespace."""

    binary: Path
    home: Path
    kubeconfig: Path
    namespace: str

    def run(self, *arguments: str, stdin: Object | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        command = [str(self.binary), f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]
        text = None if stdin is None else json.dumps(stdin)
        known = {**os.environ, "HOME": str(self.home), **environment}
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=known, timeout=150)

    def __call__(self, *arguments: str, stdin: Object | None = None, **environment: str) -> str:
        """Return what it prints; it has to succeed."""
        ended = self.run(*arguments, stdin=stdin, **environment)
        assert ended.returncode == 0, f"kubectl {' '.join(arguments)}: {ended.stderr}"
        return ended.stdout

    def fails(self, *arguments: str, stdin: Object | None = None) -> str:
        """Return what it complains of; it has to fail."""
        ended = self.run(*arguments, stdin=stdin)
        assert ended.returncode != 0, f"kubectl {' '.join(arguments)}: {ended.stdout}"
        return ended.stderr

    def get(self, *what: str) -> Object:
        """Return an object."""
        found: Object = json.loads(self("get", *what, "-o", "json"))
        return found

    def rows(self, *arguments: str) -> list[list[str]]:
        """Return the table of a ``get``, its heading first; columns are two spaces apart or more."""
        lines = self("get", *arguments).splitlines()
        starts = [0]
        starts += [at for at in range(2, len(lines[0])) if lines[0][at - 2 : at] == "  " and lines[0][at] != " "]
        ends = [*starts[1:], None]
        return [[line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in lines]


def pod(name: str, image: str = "example.com/image:1", **spec: object) -> Object:
    """Return a pod as a user writes it."""
    containers = [{"name": "main", "image": image}]
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def node(kubectl: Kubectl, name: str, **spec: object) -> Object:
    """Return a node that goes away with the test."""
    labels = {"made-by": kubectl.namespace, "kubernetes.io/hostname": name}
    metadata = {"name": f"{kubectl.namespace}-{name}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
