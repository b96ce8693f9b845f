"""The chart and the manifests as Helm and Kustomize render them, in a form that compares."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from charts.render import CHART, MANIFESTS
from tests.apiserver.binaries import AssetsUnavailableError, assets, helm
from tests.conftest import unavailable

NEWEST, OLDER = "1.36.3", "1.34.3"


COMPONENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "audit": (NEWEST, {"guard": "audit"}),
    "hami-config": (NEWEST, {"hamiConfig": {"enabled": True}}),
    "volcano-config": (NEWEST, {"volcanoConfig": {"enabled": True}}),
    "policies-by-admins": (NEWEST, {"tenantPolicies": {"enabled": False}}),
    "cluster-policy-readers": (NEWEST, {"clusterPolicyReaders": {"enabled": True}}),
    "admission-webhook": (NEWEST, {"admissionWebhook": {"enabled": True}}),
    "admission-webhook/cert-manager": (NEWEST, {"admissionWebhook": {"enabled": True, "certManager": True}}),
    "volcano": (NEWEST, {"settings": {"dialects": ["hami", "volcano"]}}),
    "koordinator": (NEWEST, {"settings": {"dialects": ["hami", "koordinator"]}}),
    "system-spread": (NEWEST, {"settings": {"scoring": {"system_spread": True}}}),
    "history": (NEWEST, {"history": {"enabled": True}}),
    "preemption": (NEWEST, {"preemption": {"enabled": True}}),
    "preemption-beyond-budgets": (NEWEST, {"preemption": {"enabled": True, "beyondBudgets": True}}),
    "before-1.35": (OLDER, {}),
}
"""The components of the manifests, with what has the chart install them, and on which version."""


NEEDS = {"preemption-beyond-budgets": ["preemption"]}
"""Components that mean nothing without another one that is in no folder above them."""


BESIDE = {
    "admission-policy": {"admissionPolicy": {"enabled": True}},
    "doctor": {"doctorRole": {"enabled": True}},
    "monitoring": {"monitoring": {"enabled": True}},
    "ui": {"ui": {"enabled": True}},
    "shadow": {"shadow": {"enabled": True}},
}
"""The kustomizations of their own, with the same."""


Objects = dict[tuple[str, str], dict[str, Any]]


def run(tool: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        path = helm() if tool == "helm" else assets() / tool
    except AssetsUnavailableError as error:
        unavailable(str(error))
    return subprocess.run(
        [str(path), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=120
    )


def rendered(
    values: dict[str, Any] | None = None, version: str = NEWEST, namespace: str = "vgpu-system"
) -> subprocess.CompletedProcess[str]:
    arguments = ("--namespace", namespace, "--kube-version", version, "--values", "-")
    return run("helm", "template", "release", str(CHART), *arguments, stdin=json.dumps(values or {}))


def chart(values: dict[str, Any] | None = None, version: str = NEWEST, namespace: str = "vgpu-system") -> Objects:
    """Return the objects of the chart; without what only Helm adds if they are to be compared."""
    done = rendered(values, version, namespace)
    assert done.returncode == 0, done.stderr
    return by_name(done.stdout)


def settings(values: dict[str, Any], namespace: str = "vgpu-system") -> dict[str, Any]:
    """Return the settings of the scheduler."""
    config = chart(values, namespace=namespace)["ConfigMap", "vgpu-scheduler"]
    return dict(yaml.safe_load(config["data"]["settings.yaml"]))


def kustomized(*components: str, resources: str = ".") -> Objects:
    """Return the objects of the manifests, as kubectl renders them."""
    with TemporaryDirectory(dir=MANIFESTS.parent) as folder:
        base = f"../{MANIFESTS.name}"
        content = {
            "resources": [f"{base}/{resources}"],
            "components": [f"{base}/{component}" for component in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(json.dumps(content))
        done = run("kubectl", "kustomize", folder)
    assert done.returncode == 0, done.stderr
    return by_name(done.stdout)


def by_name(text: str) -> Objects:
    found: Objects = {}
    for obj in yaml.safe_load_all(text):
        if obj is not None:
            key = (obj["kind"], obj["metadata"]["name"])
            assert key not in found, key
            found[key] = obj
    return found


def without_helm(objects: Objects) -> Objects:
    """Take out what Helm adds: four labels, the checksum of the settings, and the note that keeps definitions."""
    for (kind, name), obj in objects.items():
        labels, annotations = obj["metadata"]["labels"], obj["metadata"].get("annotations", {})
        assert labels.pop("app.kubernetes.io/managed-by") == "Helm"
        for label in ("helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version"):
            labels.pop(label)
        if kind == "CustomResourceDefinition":
            assert annotations.pop("helm.sh/resource-policy") == "keep"
        if (kind, name) == ("Deployment", "vgpu-scheduler"):
            assert len(obj["spec"]["template"]["metadata"].pop("annotations")["checksum/settings"]) == 64
    return objects


def without_given(objects: Objects, values: dict[str, Any]) -> Objects:
    """Take the settings out that the values give: the components bring none."""
    data = objects["ConfigMap", "vgpu-scheduler"]["data"]
    written = yaml.safe_load(data["settings.yaml"])
    given = values.get("settings", {})
    assert {name: written.pop(name) for name in given} == given
    data["settings.yaml"] = yaml.safe_dump(written)
    return objects


def plain(value: Any, key: str = "") -> Any:
    """Bring what is equal into one form.

    Named elements go by their names, settings are read, and of CEL only the words count: where a folded text has a line
    that is indented more, kustomize writes an empty line before it.
    """
    if isinstance(value, dict):
        return {name: plain(item, name) for name, item in value.items() if item != {}}
    if isinstance(value, list):
        items = [plain(item) for item in value]
        return sorted(items, key=lambda item: str(item["name"])) if all(_has_name(item) for item in items) else items
    if key == "settings.yaml":
        return yaml.safe_load(value)
    return " ".join(value.split()) if key == "expression" else value


def _has_name(item: Any) -> bool:
    return isinstance(item, dict) and "name" in item and "expression" not in item  # variables refer to earlier ones


def assert_equal(ours: Objects, theirs: Objects) -> None:
    assert ours.keys() == theirs.keys()
    for key, obj in ours.items():
        assert plain(obj) == plain(theirs[key]), key
