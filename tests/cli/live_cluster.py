"""Stands for a live cluster: a client that answers from objects in memory, and the commands on it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from click.testing import CliRunner, Result

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.cli import main
from vgpu_scheduler.reading import LISTED_RESOURCES, SELECTING_RESOURCES

Object = dict[str, Any]
KINDS = {resource.path: kind for kind, resource in {**LISTED_RESOURCES, **SELECTING_RESOURCES}.items()}
_WITHIN = re.compile(r"(?P<group>/apis?/.*)/namespaces/(?P<namespace>[^/]+)/(?P<resource>[^/]+)")
_INSIDE = re.compile(r".*/namespaces/(?P<namespace>[^/]+)/")
FORBIDDEN = ApiResponse(403, b'{"message": "nodes is forbidden"}')
SETTINGS = "/api/v1/namespaces/vgpu-system/configmaps/vgpu-scheduler"


@dataclass
class Api:
    """Stands for the client: answers from objects in memory, and takes patches of nodes.

    Attributes
    ----------
    refused
        Kinds that may not be listed in the whole cluster.
    refused_everywhere
        Kinds that may not be listed in any namespace either.
    homes
        The namespaces in which anything may be listed; None for all.
    deletable
        Tells whether pods of a namespace may be deleted.
    """

    objects: list[Object]
    refused: frozenset[str] = frozenset()
    refused_everywhere: frozenset[str] = frozenset()
    homes: frozenset[str] | None = None
    settings: str | None = None
    deletable: Callable[[str], bool] = lambda _: True
    conflicts: int = 0
    patches: list[tuple[str, Object]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "",
        accept: str = "",
        params: Mapping[str, str] | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - as the client has it
    ) -> ApiResponse:
        del content_type, accept, timeout
        self.requests.append(f"{method} {path}")
        if method == "PATCH" and (params or {}).get("dryRun") == "All":
            return ApiResponse(200, b"{}")
        if method == "PATCH":
            if self.conflicts:
                self.conflicts -= 1
                return ApiResponse(409, b'{"message": "the object has been modified"}')
            self.patches.append((path, body))
            return self._patched(path.rpartition("/")[2], body["metadata"])
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            assert (asked["verb"], asked["resource"]) == ("delete", "pods")
            return self._answer({"status": {"allowed": self.deletable(asked["namespace"])}})
        if "/events?" in path and "Event" not in self.refused_everywhere:
            return self._answer({"items": [obj for obj in self.objects if obj["kind"] == "Event"]})
        if path == SETTINGS and self.settings is not None:
            metadata = {"name": "vgpu-scheduler", "namespace": "vgpu-system"}
            return self._answer({"metadata": metadata, "data": {"settings.yaml": self.settings}})
        kind, namespace = KINDS.get(path), None
        if kind is None and (within := _WITHIN.fullmatch(path)):
            namespace, kind = within["namespace"], KINDS.get(f"{within['group']}/{within['resource']}")
        if (kind in self.refused and namespace is None) or kind in self.refused_everywhere:
            return FORBIDDEN
        if self.homes is not None and (inside := _INSIDE.match(path)) and inside["namespace"] not in self.homes:
            return FORBIDDEN
        if kind is not None:
            listed = [obj for obj in self.objects if obj["kind"] == kind]
            items = [
                {key: value for key, value in obj.items() if key != "kind"}
                for obj in listed
                if namespace in {None, obj["metadata"].get("namespace")}
            ]
            return self._answer({"items": items, "metadata": {}})
        with suppress(StopIteration):
            ends = (f"/{name}/{{}}" for name in ("pods", "nodes"))
            return self._answer(
                next(o for end in ends for o in self.objects if path.endswith(end.format(o["metadata"]["name"])))
            )
        return ApiResponse(404, b'{"message": "not found"}')

    def _patched(self, name: str, change: Object) -> ApiResponse:
        found = next(obj for obj in self.objects if (obj["kind"], obj["metadata"]["name"]) == ("Node", name))
        assert change["resourceVersion"] == found["metadata"].get("resourceVersion")
        annotations = {**(found["metadata"].get("annotations") or {}), **change["annotations"]}
        found["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        found["metadata"]["resourceVersion"] = str(int(found["metadata"].get("resourceVersion", 0)) + 1)
        return self._answer(found)

    @staticmethod
    def _answer(content: Object) -> ApiResponse:
        return ApiResponse(200, json.dumps(content).encode())

    async def __aenter__(self) -> Self:
        """Be a client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Be a client."""


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result
