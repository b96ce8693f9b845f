"""Renders the CRDs beside this file and docs/policy-reference.md from the models of the policies.

``--check`` only tells whether they are current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml

from vgpu_scheduler.policy.schema import Schema, crds

HERE = Path(__file__).parent
REFERENCE = HERE.parent / "docs" / "policy-reference.md"
HEAD = "# Rendered from the models in operator/vgpu_scheduler/policy by `make manifests`; do not edit.\n"
WIDTH = 120

INTRODUCTION = """\
# Policy reference

<!-- Rendered from the models in operator/vgpu_scheduler/policy by `make manifests`; do not edit. -->

There are two kinds, both of version `{version}`. `kubectl explain vgpupolicy.spec` tells the same as
this page.

- `VGPUPolicy` ({namespaced}) is for the pods of its namespace.
- `ClusterVGPUPolicy` ({cluster}) is for the pods of all namespaces, or of those it selects.

```yaml
apiVersion: {version}
kind: ClusterVGPUPolicy
metadata:
  name: shared
spec:
  priority: 100
  namespaceSelector: {{matchLabels: {{tier: shared}}}}
  nodes: {{policy: binpack}}
  devices: {{policy: spread, types: {{deny: [H100]}}}}
  defaults: {{memory: 4Gi, cores: 20}}
  limits: {{memoryPerPod: 24Gi, devicesPerPod: 2}}
  podOverrides: {{allow: [devicePolicy]}}
```
"""

SELECTORS = """\

## Selectors

`selector`, `namespaceSelector` and `nodeSelector` are label selectors as elsewhere in Kubernetes: every entry of
`matchLabels` and every one of `matchExpressions` must match.

"""

RULES = """\

## Rules

What the API server refuses beyond types and bounds, with the message that it gives. The scheduler checks the same when
it reads a policy: one that was stored under an older schema and breaks a rule is not Ready.

"""


RULES_OF_NAMESPACES = """\
These are for `VGPUPolicy` only:

"""


class _Dumper(yaml.SafeDumper):
    """Writes YAML as people do: no anchors, indented lists, long texts folded."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - PyYAML's
        super().increase_indent(flow=flow, indentless=False)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if len(text) > WIDTH - 40 and " " in text:
        style = ">"
    elif "'" in text and '"' not in text:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def to_yaml(crd: Schema) -> str:
    """Return a CRD as YAML."""
    return HEAD + yaml.dump(crd, Dumper=_Dumper, sort_keys=False, width=WIDTH)


# --------------------------------------------------------------------------------------------------- the reference


def reference(namespaced: Schema, cluster: Schema) -> str:
    """Return the reference of both kinds as Markdown."""
    spec = _spec(cluster)
    only_cluster = spec["properties"].keys() - _spec(namespaced)["properties"].keys()
    version = f"{cluster['spec']['group']}/{cluster['spec']['versions'][0]['name']}"
    sections = {name: field for name, field in spec["properties"].items() if _rows("", field) and not _selects(field)}
    top = {name: field for name, field in spec["properties"].items() if name not in sections}
    parts = [INTRODUCTION.format(version=version, namespaced=_short(namespaced), cluster=_short(cluster))]
    parts.append(f"\n## spec\n\n{_prose(spec['description'])}\n\n{_table(_own_rows(top, only_cluster))}")
    for name, field in sections.items():
        parts.append(f"\n## spec.{name}\n\n{_prose(field['description'])}\n\n{_table(_rows('', field))}")
    selector = next(field for field in top.values() if _selects(field))
    parts.append(SELECTORS + _table(_rows("", selector)))
    status = _resource(cluster)["properties"]["status"]
    parts.append(f"\n## status\n\n{_prose(status['description'])}\n\n{_table(_rows('', status))}")
    shared = list(_rules(_resource(cluster)))
    parts.append(RULES + "".join(shared))
    only_namespaced = [rule for rule in _rules(_resource(namespaced)) if rule not in shared]
    parts.append(RULES_OF_NAMESPACES + "".join(only_namespaced))
    return "".join(parts).rstrip() + "\n"


Row = tuple[str, str, str, str, str]


def _own_rows(fields: Schema, only_cluster: set[str]) -> list[Row]:
    rows = []
    for name, field in fields.items():
        note = " (ClusterVGPUPolicy only)" if name in only_cluster else ""
        rows.append((name, "label selector" if _selects(field) else _type(field), *_details(field, note)))
    return rows


def _rows(prefix: str, schema: Schema) -> list[Row]:
    """Return a row per field below the schema."""
    rows: list[Row] = []
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        rows.append((path, _type(field), *_details(field, " Required." if name in required else "")))
        inner = field.get("items", field)
        rows.extend(_rows(f"{path}[]." if inner is not field else f"{path}.", inner))
    return rows


def _details(field: Schema, note: str) -> tuple[str, str, str]:
    default = f"`{field['default']}`" if "default" in field else ""
    return default, _bounds(field), field["description"] + note


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity" if "x-kubernetes-validations" in field else "integer or string"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        keys = ", ".join(field.get("x-kubernetes-list-map-keys", ()))
        kind = {"set": "set", "map": f"list by {keys}"}.get(field["x-kubernetes-list-type"], "list")
        item = field["items"]
        return kind if "properties" in item else f"{kind} of {_type(item)}"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}"
    return str(field["type"])


def _bounds(field: Schema) -> str:
    if _type(field) == "quantity":
        return ""  # its rule says them
    if "minimum" in field:
        return f"{field['minimum']} to {field['maximum']}" if "maximum" in field else f"{field['minimum']} or more"
    parts = []
    for least, most, what in (
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "entries"),
        ("minProperties", "maxProperties", "entries"),
    ):
        if most in field:
            parts.append(f"{field.get(least, 0)} to {field[most]} {what}")
    values = field.get("items") or field.get("additionalProperties")
    if isinstance(values, dict) and "properties" not in values and (inner := _bounds(values)):
        parts.append(f"each {inner}")
    return ", ".join(parts)


def _table(rows: list[Row]) -> str:
    lines = ["| field | type | default | bounds | meaning |", "|---|---|---|---|---|"]
    lines += [f"| `{path}` | " + " | ".join(_markdown(cell) for cell in cells) + " |" for path, *cells in rows]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """Keep a text in its cell, and ``<name>`` from being taken for HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _prose(text: str) -> str:
    return "\n\n".join(_wrapped(_markdown(paragraph)) for paragraph in text.split("\n\n"))


def _wrapped(text: str, indent: str = "") -> str:
    return fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _rules(schema: Schema, path: str = "") -> Iterator[str]:
    if _selects(schema) and not path.endswith(".selector"):
        return  # all selectors have the same rules
    for rule in schema.get("x-kubernetes-validations", ()):
        field = f"{path}{rule.get('fieldPath', '')}".lstrip(".")
        item = _wrapped(f"- `{field}`: {_markdown(rule['message'])}", "  ")
        yield f"{item}\n\n  ```cel\n  {rule['rule']}\n  ```\n\n"
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}")


def _selects(field: Schema) -> bool:
    return "matchExpressions" in field.get("properties", {})


def _resource(crd: Schema) -> Schema:
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _spec(crd: Schema) -> Schema:
    spec: Schema = _resource(crd)["properties"]["spec"]
    return spec


def _short(crd: Schema) -> str:
    names = crd["spec"]["names"]
    return f"`{names['plural']}`, `{names['shortNames'][0]}`"


# ------------------------------------------------------------------------------------------------------------ files


def files() -> dict[Path, str]:
    """Return what is rendered: the text of each file."""
    namespaced, cluster = crds()
    texts = {HERE / f"{crd['spec']['names']['plural']}.yaml": to_yaml(crd) for crd in (namespaced, cluster)}
    return {**texts, REFERENCE: reference(namespaced, cluster)}


def main() -> None:
    """Render, or check."""
    check = "--check" in sys.argv[1:]
    for path, text in files().items():
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            raise SystemExit(f"{path.relative_to(HERE.parent)} is not current: run `make manifests`")


if __name__ == "__main__":
    main()
