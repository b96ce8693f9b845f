"""Discovery: version, groups and the resources of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .resources import Resource, rank

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+devcluster",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}

_STREAMS = ["create", "get"]
_VERBS = {"binding": ["create"], "eviction": ["create"], "log": ["get"]} | dict.fromkeys(
    ("attach", "exec", "portforward"), _STREAMS
)


def document(path: str, resources: Iterable[Resource], address: str) -> dict[str, Any] | None:
    """Return the discovery document at ``path``, or ``None`` when there is none."""
    rows = sorted(resources, key=rank)
    found: dict[str, Any] | None = None
    match path.strip("/").split("/"):
        case ["version"]:
            found = VERSION
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            found = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        case ["apis"]:
            groups = [_group(name, rows) for name in sorted({row.group for row in rows if row.group})]
            found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", name] if any(row.group == name for row in rows):
            found = {"kind": "APIGroup", "apiVersion": "v1", **_group(name, rows)}
        case ["api", version]:
            found = _resources("", version, rows)
        case ["apis", name, version]:
            found = _resources(name, version, rows)
    return found


def _group(name: str, rows: list[Resource]) -> dict[str, Any]:
    names = sorted({row.version for row in rows if row.group == name})
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in names]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str, rows: list[Resource]) -> dict[str, Any] | None:
    served = [row for row in rows if (row.group, row.version) == (group, version)]
    if not served:
        return None
    listed = [entry for row in served for entry in _rows(row)]
    body = {"kind": "APIResourceList", "groupVersion": served[0].api_version, "resources": listed}
    return body | {"apiVersion": "v1"} if group else body


def _rows(row: Resource) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": row.plural,
        "singularName": row.kind.lower(),
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        main["shortNames"] = list(row.short_names)
    if row.categories:
        main["categories"] = list(row.categories)
    rows = [main]
    for name, kind in sorted(row.subresources.items()):
        verbs = _VERBS.get(name, ["get", "patch", "update"])
        entry = {"name": f"{row.plural}/{name}", "singularName": "", "namespaced": row.namespaced, "kind": kind}
        if kind == "Eviction":
            entry |= {"group": "policy", "version": "v1"}
        rows.append({**entry, "verbs": verbs})
    return rows
