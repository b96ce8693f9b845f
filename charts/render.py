"""Renders the chart from the manifests and from the models of its values: `python -m charts.render`.

The templates are the manifests with Helm's expressions in some places. What the components of the manifests add or
change is there under a condition on the values: see OPTIONS, where a new component gets a line. ``--check`` only tells
whether the files are current.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

import yaml
from pydantic import BaseModel

from charts.templating import Block, Choice, Each, Only, Text, document, merged, put, replaced
from charts.values import HAMI, Enabled, Values, schema
from vgpu_scheduler.doctor.checks.versions import OLDEST

ROOT = Path(__file__).resolve().parents[1]
MANIFESTS = ROOT / "manifests"
CHART = Path(__file__).resolve().parent / "vgpu-scheduler"
NOTES = CHART / "templates" / "NOTES.txt"
"""The only file of the chart that is not rendered."""
HEAD = "Rendered by `make manifests`; do not edit."
NAMESPACE = "vgpu-system"
APP = "vgpu-scheduler"
PAGE = "vgpu-scheduler-ui"
SHADOW = "vgpu-scheduler-shadow"
BRACES = "@OPENING_BRACES"
"""Stands for braces of the manifests: alerts and dashboards have expressions of their own."""
POD = "/spec/template/spec"
WIDTH = 116

OPTIONS = {
    "audit": '(eq .Values.guard "audit")',
    "hami-config": ".Values.hamiConfig.enabled",
    "policies-by-admins": "(not .Values.tenantPolicies.enabled)",
    "cluster-policy-readers": ".Values.clusterPolicyReaders.enabled",
    "admission-webhook": ".Values.admissionWebhook.enabled",
    "admission-webhook/cert-manager": "(and .Values.admissionWebhook.enabled .Values.admissionWebhook.certManager)",
    "admission-policy": ".Values.admissionPolicy.enabled",
    "volcano-config": ".Values.volcanoConfig.enabled",
    "volcano": '(has "volcano" (.Values.settings.dialects | default list))',
    "koordinator": '(has "koordinator" (.Values.settings.dialects | default list))',
    "history": ".Values.history.enabled",
    "system-spread": '(dig "scoring" "system_spread" false .Values.settings)',
    "preemption": ".Values.preemption.enabled",
    "preemption-beyond-budgets": "(and .Values.preemption.enabled .Values.preemption.beyondBudgets)",
    "before-1.35": '(semverCompare "<1.35.0-0" .Capabilities.KubeVersion.Version)',
    "doctor": ".Values.doctorRole.enabled",
    "monitoring": ".Values.monitoring.enabled",
    "ui": ".Values.ui.enabled",
    "shadow": ".Values.shadow.enabled",
}
"""The folders beside the base, in the order in which their patches follow each other: when they are in force."""
MOUNTED = {
    "hamiConfig.configMap": "name: hami-scheduler-device",
    "volcanoConfig.configMap": "name: volcano-vgpu-device-config",
    "history.claim": "claimName: vgpu-scheduler-history",
}
"""By the value that names another one, how the manifests name a ConfigMap or a claim that they mount."""
CONDITIONS = {
    "volume-binding.yaml": ".Values.volumeBinding.enabled",
    "disruption-budget.yaml": "(gt (int .Values.replicas) 1)",  # with one replica it would let no node be drained
    "../crds": ".Values.crds.enabled",
}
"""Resources of the base that are there under a condition."""
LEFT_OUT = {"namespace.yaml"}
"""The namespace is that of the release (`--create-namespace`)."""

Objects = dict[tuple[str, str], tuple[str, str, dict[str, Any]]]
"""Kind and name, to the file that the object is in, its condition, and the object."""


# ------------------------------------------------------------------------------------------------- the manifests


def documents(path: Path) -> list[Any]:
    """Return the documents of a file; what Helm would take for an expression of its own is marked."""
    return list(yaml.safe_load_all(path.read_text().replace("{{", BRACES)))


def objects() -> Objects:
    """Return all objects of the base and the folders beside it, with what the components change under conditions."""
    found: Objects = {}
    base = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    for name in base["resources"]:
        if name not in LEFT_OUT:
            _add(found, MANIFESTS, name, CONDITIONS.get(name, ""))
    for folder, condition in OPTIONS.items():
        kustomization = yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())
        for name in kustomization.get("resources", ()):
            _add(found, MANIFESTS / folder, name, condition)
        for patch in kustomization.get("patches", ()):
            _patch(found, MANIFESTS / folder, patch, condition)
    return found


def _add(found: Objects, folder: Path, name: str, condition: str) -> None:
    path = (folder / name).resolve()
    if path.is_dir():
        for inner in yaml.safe_load((path / "kustomization.yaml").read_text())["resources"]:
            _add(found, path, inner, condition)
        return
    file = str(path.relative_to(MANIFESTS if path.is_relative_to(MANIFESTS) else ROOT)).replace("/", "-")
    for obj in documents(path):
        key = (obj["kind"], obj["metadata"]["name"])
        assert key not in found, f"{key} is listed twice"
        found[key] = (file, condition, obj)


def _patch(found: Objects, folder: Path, patch: dict[str, Any], condition: str) -> None:
    (content,) = documents(folder / patch["path"])
    if isinstance(content, list):
        key = (patch["target"]["kind"], patch["target"]["name"])
        file, when, obj = found[key]
        found[key] = (file, when, replaced(obj, content, condition))
    else:
        key = (content["kind"], content["metadata"]["name"])
        file, when, obj = found[key]
        inner = "" if when == condition else condition  # a webhook's own object needs no second condition
        found[key] = (file, when, merged(obj, content, inner))


# ------------------------------------------------------------------------------------------- what the values fill


def filled(key: tuple[str, str], obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the places that values fill."""
    metadata = obj["metadata"]
    labels = metadata.get("labels", {}) | {"": Block(f'include "{APP}.labels" .')}
    obj = obj | {"metadata": metadata | {"labels": labels}}
    match key:
        case ("CustomResourceDefinition", _):
            obj = put(obj, "/metadata/annotations", {"helm.sh/resource-policy": "keep"})
        case ("PersistentVolumeClaim", name) if name == SHADOW:
            obj = put(
                obj, "/spec/storageClassName", _if_set("shadow.storageClass", Text("{{ .Values.shadow.storageClass }}"))
            )
        case ("Deployment", name):
            obj = {PAGE: page, SHADOW: shadow}.get(name, deployment)(obj)
        case ("ConfigMap", name) if name == APP:
            obj = put(obj, "/data", {"": Block(f'include "{APP}.settings-file" .')})
        case ("ClusterRoleBinding", "vgpu-scheduler-allocation-writers"):
            account = {"kind": "ServiceAccount", "name": Text("{{ .name }}"), "namespace": Text("{{ .namespace }}")}
            obj = put(obj, "/subjects", [obj["subjects"][0], Each(".Values.allocationWriters", account)])
        case ("ClusterRoleBinding", "vgpu-scheduler-cluster-policy-readers"):
            obj = put(obj, "/subjects/0/name", Text("{{ .Values.clusterPolicyReaders.group }}"))
        case ("PrometheusRule", _):
            obj = linked(obj)
        case ("MutatingWebhookConfiguration", _):
            bundle = Only(".Values.admissionWebhook.caBundle", Text("{{ .Values.admissionWebhook.caBundle }}"))
            obj = put(obj, "/webhooks/0/clientConfig/caBundle", bundle)
        case ("MutatingAdmissionPolicy" | "MutatingAdmissionPolicyBinding", _):
            newer = '(semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version)'
            group = obj["apiVersion"].partition("/")[0]
            obj = put(obj, "/apiVersion", Choice(newer, f"{group}/v1", f"{group}/v1beta1"))
    return obj


def placed(obj: dict[str, Any]) -> dict[str, Any]:
    """Return a Deployment with what values say of its image, and of the nodes that it runs on."""
    container = f"{POD}/containers/0"
    obj = put(obj, f"{container}/image", Text(f'{{{{ include "{APP}.image" . }}}}'))
    obj = put(obj, f"{container}/imagePullPolicy", _if_set("image.pullPolicy", Text("{{ .Values.image.pullPolicy }}")))
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
        obj = put(obj, f"{POD}/{name}", _if_set(name, Block(f"toYaml .Values.{name}")))
    return obj


def page(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the Deployment of the page with what values say of it."""
    container = f"{POD}/containers/0"
    arguments = [*obj["spec"]["template"]["spec"]["containers"][0]["args"]]
    arguments.append(Each(".Values.ui.hosts", Text("--host={{ . }}")))
    arguments.append(_if_set("ui.prometheus", Text("--prometheus={{ .Values.ui.prometheus }}")))
    arguments.append(_if_set("ui.prometheus", Each(".Values.ui.prometheusLabels", Text("--prometheus-label={{ . }}"))))
    obj = put(placed(obj), f"{container}/args", arguments)
    obj = put(obj, f"{container}/resources", Block("toYaml .Values.ui.resources"))
    return put(obj, f"{POD}/volumes/0/secret/secretName", Text("{{ .Values.ui.certificate }}"))


def shadow(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the Deployment that watches another scheduler with what values say of it."""
    container = f"{POD}/containers/0"
    command, _, *rest = obj["spec"]["template"]["spec"]["containers"][0]["args"]
    obj = put(placed(obj), f"{container}/args", [command, Text("--beside={{ .Values.shadow.beside }}"), *rest])
    return put(obj, f"{container}/resources", Block("toYaml .Values.shadow.resources"))


def deployment(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the Deployment with what values say of it."""
    container = f"{POD}/containers/0"
    obj = put(obj, "/spec/replicas", Text("{{ .Values.replicas }}"))
    obj = put(placed(obj), f"{container}/resources", Block("toYaml .Values.resources"))
    template = obj["spec"]["template"]["metadata"]
    labels = template["labels"] | {"": _if_set("podLabels", Block("toYaml .Values.podLabels"))}
    annotations = {
        "checksum/settings": Text(f'{{{{ include "{APP}.settings" . | sha256sum }}}}'),
        "": _if_set("podAnnotations", Block("toYaml .Values.podAnnotations")),
    }
    return put(obj, "/spec/template/metadata", {"annotations": annotations, "labels": labels})


def linked(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the alerts with links to the runbook where the settings say that it is."""
    for at, group in enumerate(obj["spec"]["groups"]):
        for number, rule in enumerate(group["rules"]):
            if "alert" not in rule:
                continue
            page, _, section = rule["annotations"]["runbook_url"].partition("#")
            address = f'{{{{ .Values.settings.runbook_url | default "{page}" }}}}#{section}'
            obj = put(obj, f"/spec/groups/{at}/rules/{number}/annotations/runbook_url", Text(address))
    return obj


def _if_set(name: str, value: Any) -> Only:
    return Only(f".Values.{name}", value)


def named_by_values(text: str, kind: str) -> str:
    """Return the text of a template with the names that the release and its values give, and the braces that it has."""
    if kind == "Deployment":
        for value, named in MOUNTED.items():
            field = named.partition(":")[0]
            text = text.replace(named, f"{field}: {{{{ .Values.{value} }}}}")
    return text.replace(NAMESPACE, "{{ .Release.Namespace }}").replace(BRACES, "{{ `{{` }}")


# --------------------------------------------------------------------------------------------------------- files


def helpers(found: Objects) -> str:
    """Return the named templates: labels, image, settings."""
    _, _, config = found["ConfigMap", APP]
    written = json.dumps(yaml.safe_load(config["data"]["settings.yaml"]))
    names = []
    for value, setting in HAMI.items():
        *section, name = setting.split(".")
        target = f"$hami.{section[0]}" if section else "$hami"
        names.append(f'{{{{- with .Values.{value} }}}}{{{{- $_ := set {target} "{name}" . }}}}{{{{- end }}}}')
    text = (Path(__file__).parent / "helpers.tpl").read_text()
    places = {"<manifests>": written, "<hami>": "\n".join(names), "<environment>": "\n".join(_rivals(found))}
    for place, content in places.items():
        assert text.count(place) == 1, place
        text = text.replace(place, content)
    return f"{{{{/* {HEAD} */}}}}\n{text}"


def _rivals(found: Objects) -> Iterator[str]:
    """Yield a check for each environment variable of a component: it ranks above the setting of the same name."""
    _, _, obj = found["Deployment", APP]
    for item in obj["spec"]["template"]["spec"]["containers"][0]["env"]:
        if isinstance(item, Only) and item.value["name"].startswith("VGPU_"):
            path = item.value["name"].removeprefix("VGPU_").lower().split("__")
            keys = " ".join(f'"{part}"' for part in path)
            given = f'(dig {keys} "" .Values.settings | toString)'
            value = json.dumps(item.value["value"])
            yield f'{{{{- if and {item.condition} (not (has {given} (list "" {value}))) }}}}'
            field = f"settings.{'.'.join(path)}"
            reason = f"{field}: the chart sets it to {item.value['value']} for what is enabled; leave it out"
            yield f"{{{{- fail {json.dumps(reason)} }}}}"
            yield "{{- end }}"


def templates(found: Objects) -> Iterator[tuple[str, str]]:
    """Yield name and text of each template."""
    files: dict[str, list[str]] = {}
    for key, (file, condition, obj) in found.items():
        text = document(filled(key, obj), condition)
        files.setdefault(file, []).append(named_by_values(text, key[0]))
    for file, parts in files.items():
        yield f"templates/{file}", f"{{{{- /* {HEAD} */}}}}\n" + "\n---\n".join(parts) + "\n"
    yield "templates/_helpers.tpl", helpers(found)


def defaults(found: Objects) -> Values:
    """Return the values that make the chart what the manifests are."""
    spec = found["Deployment", APP][2]["spec"]
    _, *writers = found["ClusterRoleBinding", "vgpu-scheduler-allocation-writers"][2]["subjects"]
    accounts = [{"name": one["name"], "namespace": one["namespace"]} for one in writers]
    specs = (spec, *(found["Deployment", name][2]["spec"] for name in (PAGE, SHADOW)))
    resources, of_page, of_shadow = (each["template"]["spec"]["containers"][0]["resources"] for each in specs)
    values = {"replicas": spec["replicas"], "resources": resources, "allocationWriters": accounts}
    return Values.model_validate({**values, "ui": {"resources": of_page}, "shadow": {"resources": of_shadow}})


def chart() -> str:
    """Return Chart.yaml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    content = {
        "apiVersion": "v2",
        "name": APP,
        "description": "A scheduler for shared GPUs: it chooses node and cards, and binds the pod to both in one step.",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": f">={OLDEST[0]}.{OLDEST[1]}.0-0",
        "keywords": ["scheduler", "gpu", "vgpu", "hami"],
    }
    return f"# {HEAD}\n" + yaml.safe_dump(content, sort_keys=False, width=WIDTH)


def values_file(values: Values) -> str:
    """Return values.yaml: each value with its default and what it is for."""
    return "\n".join([f"# {HEAD} The models are in charts/values.py.", *_values(values, "")]) + "\n"


def _values(values: BaseModel, pad: str) -> Iterator[str]:
    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        yield from (f"{pad}# {line}" for line in wrap(_told(field.description), WIDTH - len(pad)))
        if isinstance(value, BaseModel):
            yield f"{pad}{field.alias}:"
            yield from _values(value, pad + "  ")
        else:
            content = {field.alias: values.model_dump(by_alias=True, mode="json")[str(field.alias)]}
            text = yaml.safe_dump(content, sort_keys=False, width=WIDTH)
            yield from (pad + line for line in text.rstrip().split("\n"))


def rows(values: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the rows of the table of values."""
    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        if isinstance(value, Enabled):
            yield f"| `{prefix}{field.alias}.enabled` | `{json.dumps(value.enabled)}` | {_told(field.description)} |"
        elif isinstance(value, BaseModel):
            yield from rows(value, f"{prefix}{field.alias}.")
        else:
            shown = json.dumps(values.model_dump(by_alias=True, mode="json")[str(field.alias)])
            yield f"| `{prefix}{field.alias}` | `{shown}` | {_told(field.description)} |"


def _told(text: str | None) -> str:
    return " ".join((text or "").split())


def readme(values: Values) -> str:
    """Return the chart's README."""
    text = (Path(__file__).parent / "README.md.in").read_text()
    return text.replace("<head>", f"<!-- {HEAD} -->").replace("<values>", "\n".join(rows(values)))


def files() -> Iterable[tuple[str, str]]:
    """Yield name and text of each file of the chart."""
    found = objects()
    values = defaults(found)
    yield from templates(found)
    yield "Chart.yaml", chart()
    yield "values.yaml", values_file(values)
    yield "values.schema.json", json.dumps(schema(), indent=1) + "\n"
    yield "README.md", readme(values)


def main() -> None:
    """Render, or check."""
    expected = {CHART / name: text for name, text in files()}
    stale = [path for path, text in expected.items() if not path.exists() or path.read_text() != text]
    left = [path for path in CHART.rglob("*.*") if path.is_file() and path not in expected and path != NOTES]
    if "--check" in sys.argv[1:]:
        if stale or left:
            raise SystemExit(f"{(stale + left)[0].relative_to(ROOT)} is not current: run `make manifests`")
        return
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(expected[path])
    for path in left:
        path.unlink()


if __name__ == "__main__":
    main()
