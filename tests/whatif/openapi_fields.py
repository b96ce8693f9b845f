"""Writes ``pod_fields.json`` from what a real API server says of pods: ``python -m tests.whatif.openapi_fields``."""

from __future__ import annotations

import json
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.apiserver.control_plane import ControlPlane

TARGET = Path(__file__).parents[2] / "operator" / "vgpu_scheduler" / "whatif" / "objects" / "pod_fields.json"
_POD = "io.k8s.api.core.v1.Pod"

Types = dict[str, dict[str, str]]


def schemas(plane: ControlPlane) -> dict[str, Any]:
    """Return the schemas of the core API."""
    request = urllib.request.Request(
        f"{plane.url}/openapi/v3/api/v1", headers={"Authorization": f"Bearer {plane.token}"}
    )
    context = plane.ssl_context()
    assert isinstance(context, ssl.SSLContext)
    with urllib.request.urlopen(request, context=context) as answer:
        found: dict[str, Any] = json.load(answer)["components"]["schemas"]
    return found


def fields_of_pods(found: dict[str, Any]) -> Types:
    """Return, for a pod and whatever is in it, the fields of each type and the type of each field, if that has any."""
    types: dict[str, dict[str, str]] = {}
    waiting = [_POD]
    while waiting:
        name = waiting.pop()
        if name in types or "properties" not in found.get(name, {}):
            continue
        types[name] = {field: _type(schema) for field, schema in found[name]["properties"].items()}
        waiting += filter(None, types[name].values())
    return {
        _short(name): {field: _short(of) if of in types else "" for field, of in sorted(fields.items())}
        for name, fields in sorted(types.items())
        if name != _POD.replace("Pod", "PodStatus")
    }


def _type(schema: dict[str, Any]) -> str:
    if "allOf" in schema:
        return _type(schema["allOf"][0])
    if schema.get("type") == "array":
        return _type(schema["items"])
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def rendered(types: Types) -> str:
    """Return the file."""
    return json.dumps(types, indent=0, separators=(",", ":"), sort_keys=True) + "\n"


def main() -> int:
    """Write it."""
    plane = ControlPlane()
    plane.start()
    try:
        TARGET.write_text(rendered(fields_of_pods(schemas(plane))))
    finally:
        plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
