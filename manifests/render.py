"""Renders install.yaml from the kustomization beside it, and the vendors' facts into the admission policies.

The image of the Deployment has the version of the package. What `vgpu-scheduler doctor` compares a cluster with is
rendered from the manifests into the package, and the Grafana dashboard from its table of panels.

``--check`` only tells whether they are current.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from dashboard import dashboard

from vgpu_scheduler.dialects.hami import vendors
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests

HERE = Path(__file__).resolve().parent
HEAD = "# Rendered from the kustomization beside this file by `make manifests`; apply it with `kubectl apply -f`.\n"
WIDTH = 120

ROLES = (
    "rbac.yaml",
    "volume-binding.yaml",
    "koordinator/rbac.yaml",
    "system-spread/rbac.yaml",
    "preemption/rbac.yaml",
    "preemption-beyond-budgets/rbac.yaml",
)
"""Where the scheduler's roles are."""
VENDORS = vendors()
IMAGE = re.compile(r"(?<=image: vgpu-scheduler:)\S+")

SHAPED = re.compile(r"hami\.io/.*-devices-(allocated|to-allocate)|huawei\.com/.*|hami\.io/vgpu-.*")
"""Keys that the guard knows by their shape."""
BLOCK = re.compile(r"(# BEGIN rendered from the vendors' facts\n).*?(^ *# END rendered$)", re.MULTILINE | re.DOTALL)


def resources(folder: Path) -> list[str]:
    """Return the resources of a folder's kustomization in its order; a folder among them stands for its own."""
    path = folder / "kustomization.yaml"
    kustomization = yaml.safe_load(path.read_text())
    unknown = kustomization.keys() - {"apiVersion", "kind", "resources"}
    if unknown:
        raise SystemExit(f"{path}: {', '.join(sorted(unknown))} cannot be rendered")
    parts: list[str] = []
    for name in kustomization["resources"]:
        resource = folder / name
        parts += resources(resource) if resource.is_dir() else [resource.read_text().removeprefix("---\n").strip()]
    return parts


def install() -> str:
    """Return the resources of the kustomization in its order, in one file."""
    return HEAD + "\n---\n".join(resources(HERE)) + "\n"


def version() -> str:
    """Return the version of the package: pyproject.toml is where it is set."""
    return str(tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"])


def with_facts(path: Path, *blocks: str) -> str:
    """Return a file with what is rendered into it, block by block."""
    rest = iter(blocks)
    return BLOCK.sub(lambda found: f"{found[1]}{next(rest)}{found[2]}", path.read_text())


def cel_list(names: Iterable[str], indent: int) -> str:
    """Return names as a list of CEL, in lines."""
    lines, line = [], "["
    for name in sorted(set(names)):
        item = f"'{name}', "
        if indent + len(line) + len(item) > WIDTH:
            lines.append(line.rstrip())
            line = " "
        line += item
    lines.append(line.rstrip(", ") + "]")
    return "\n".join(" " * indent + line for line in lines) + "\n"


def variable(name: str, comment: str, names: Iterable[str]) -> str:
    """Return a variable of an admission policy that lists names."""
    return f"    - name: {name} # {comment}\n      expression: >-\n{cel_list(names, 8)}"


def guard() -> str:
    """Return what the guard of allocations knows of the vendors."""
    keys = [key for vendor in VENDORS for key in vendor.record.written if not SHAPED.fullmatch(key)]
    counts = [name for vendor in VENDORS for name in vendor.claims.counts]
    return variable("keys", "what device plugins obey", keys) + variable(
        "counts", "the resources that ask for cards", counts
    )


def mutation() -> tuple[str, str]:
    """Return what the policy that completes pods knows: who is asked about, and NVIDIA's default count."""
    every = [name for vendor in VENDORS for name in vendor.claims.resources]
    nvidia = VENDORS[0].claims
    assert isinstance(nvidia, ShareRequests)
    condition = (
        "    - name: asks-for-cards\n      expression: >-\n"
        "        (object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))\n"
        "        .exists(c, has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(name, name in\n"
        f"{cel_list(every, 8)}        ))\n"
    )
    count = f"    - name: count\n      expression: \"'{nvidia.count}'\"\n"
    return condition, count + variable("amounts", "what means nothing without the count", nvidia.amounts)


def documents(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return list(yaml.safe_load_all((HERE / name).read_text()))


def shipped() -> str:
    """Return which roles, writers and admission policies come with this version."""
    roles = [
        {"name": obj["metadata"]["name"], "file": name, "namespaced": obj["kind"] == "Role", "rules": obj["rules"]}
        for name in ROLES
        for obj in documents(name)
        if obj["kind"] in {"Role", "ClusterRole"}
    ]
    writer, binding = documents("allocation-writers.yaml")
    policies = [obj for obj in documents("admission.yaml") if obj["kind"] == "ValidatingAdmissionPolicy"]
    found = {
        "roles": roles,
        "writer": writer["rules"][0],
        "writers": [{"name": one["name"], "namespace": one["namespace"]} for one in binding["subjects"]],
        "policies": [
            {"name": obj["metadata"]["name"], "failurePolicy": obj["spec"]["failurePolicy"]} for obj in policies
        ],
    }
    return json.dumps(found, indent=1) + "\n"


def dashboard_object() -> str:
    """Return the ConfigMap with the dashboard, as Grafana's sidecar looks for it."""
    head = (
        "# Rendered from manifests/dashboard.py by `make manifests`.\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: vgpu-scheduler-dashboard\n  namespace: vgpu-system\n"
        '  labels:\n    app.kubernetes.io/name: vgpu-scheduler\n    grafana_dashboard: "1"\n'
        "data:\n  vgpu-scheduler.json: |\n"
    )
    return head + "".join(f"    {line}\n" for line in dashboard().splitlines())


RENDERED: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("deployment.yaml", lambda path: IMAGE.sub(version(), path.read_text())),
    ("ui/deployment.yaml", lambda path: IMAGE.sub(version(), path.read_text())),
    ("admission.yaml", lambda path: with_facts(path, guard())),
    ("admission-policy/policy.yaml", lambda path: with_facts(path, *mutation())),
    ("install.yaml", lambda _: install()),  # contains the two above
    ("monitoring/dashboard.yaml", lambda _: dashboard_object()),
    ("../operator/vgpu_scheduler/doctor/shipped.json", lambda _: shipped()),
)


def main() -> None:
    """Render, or check."""
    for name, render in RENDERED:
        target = HERE / name
        current = render(target)
        if "--check" not in sys.argv[1:]:
            target.write_text(current)
        elif not target.exists() or target.read_text() != current:
            raise SystemExit(f"{target.resolve().relative_to(HERE.parent)} is not current: run `make manifests`")


if __name__ == "__main__":
    main()
