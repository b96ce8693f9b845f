"""Policy resources, namespaces and their quotas, through a kopf operator of their own.

It is separate from those of pods and nodes because it has to look at CustomResourceDefinitions: with kopf's scanning
disabled, deleting one ends the operator, and one that is applied later is never seen. Without the definitions there are
no policies, and scheduling goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import kopf

from vgpu_scheduler.apiclient import ApiClient, ApiError, Credentials
from vgpu_scheduler.intake.sink import Sink
from vgpu_scheduler.intake.supervised import SupervisedKopf
from vgpu_scheduler.kube import ResourceQuota, decode_quota
from vgpu_scheduler.policy import GROUP, PLURALS, VERSION, Namespace, PolicyResource, decode_policy

log = logging.getLogger(__name__)

_DEFINITIONS = frozenset(f"{plural}.{GROUP}" for plural in PLURALS.values())

NAMESPACES = "/api/v1/namespaces"
QUOTAS = "/api/v1/resourcequotas"

_NOT_FOUND = 404
_GONE = 410
_PAGE = 500


def policies_path(kind: str) -> str:
    """Return the path of all policies of a kind."""
    return f"/apis/{GROUP}/{VERSION}/{PLURALS[kind]}"


class PolicySource(SupervisedKopf):
    """Watches the policy resources, the namespaces and the quotas.

    Parameters
    ----------
    credentials
        How the API server is reached.
    sink
        Where observations go.
    lost_track, after_spawn
        See :class:`SupervisedKopf`.
    """

    def __init__(
        self, credentials: Credentials, sink: Sink, *, lost_track: Callable[[], None], after_spawn: Callable[[], None]
    ) -> None:
        super().__init__(
            credentials, "policies", lost_track=lost_track, after_spawn=after_spawn, restarted=sink.stats.restarted
        )
        self._sink = sink
        self._known: set[str] = set()

    def _register(self, registry: kopf.OperatorRegistry) -> None:
        for plural in PLURALS.values():

            @kopf.on.event(GROUP, VERSION, plural, registry=registry, id=plural)
            async def policy_event(event: Any, **_: Any) -> None:
                self._take(event, decode_policy, self._sink.policy, self._sink.policy_gone)

        @kopf.on.event("namespaces", registry=registry)
        async def namespace_event(event: Any, **_: Any) -> None:
            self._take(event, _decode_namespace, self._sink.namespace, self._sink.namespace_gone)

        @kopf.on.event("v1", "resourcequotas", registry=registry)
        async def quota_event(event: Any, **_: Any) -> None:
            self._take(event, decode_quota, self._sink.quota, self._sink.quota_gone)

        @kopf.on.event("apiextensions.k8s.io", "v1", "customresourcedefinitions", registry=registry)
        async def definition_event(event: Any, **_: Any) -> None:
            if event["type"] == "DELETED" and event["object"]["metadata"]["name"] in _DEFINITIONS:
                self._lost_track()  # kopf stops watching what has no definition, maybe before it saw its objects go

    def _take(
        self,
        event: Any,
        decode: Callable[[Mapping[str, Any]], Any],
        seen: Callable[[Any], None],
        gone: Callable[[Any], None],
    ) -> None:
        """Translate and observe; no exception may reach kopf, which would try the handler again."""
        kind, found = event["type"], event["object"]
        uid = found["metadata"].get("uid", "")
        try:
            if kind == "DELETED":
                self._known.discard(uid)
                gone(decode(found))
                return
            if kind is None and uid in self._known:
                self._lost_track()  # a second initial listing: whatever vanished before it was never reported
            self._known.add(uid)
            seen(decode(found))
        except Exception:  # one object must not end the watch; the next sweep sees it again
            log.exception("%s %s could not be taken in", found.get("kind"), found["metadata"].get("name"))
            self._lost_track()


async def list_all_policies(api: ApiClient) -> tuple[list[PolicyResource], int]:
    """Return all policies of both kinds, and the lowest of the lists' resource versions.

    Without the CustomResourceDefinitions there are none.

    Raises
    ------
    ApiError, ApiUnreachableError
        If the API server does not answer with a list.
    """
    found: list[PolicyResource] = []
    versions = []
    for kind in PLURALS:
        objects, version = await _list_all(api, policies_path(kind))
        found += [decode_policy({"kind": kind, **item}) for item in objects]
        versions.append(version)
    return found, min(versions)


async def list_all_namespaces(api: ApiClient) -> tuple[list[Namespace], int]:
    """Return all namespaces, and the list's resource version; see :func:`list_all_policies`."""
    objects, version = await _list_all(api, NAMESPACES)
    return [_decode_namespace(item) for item in objects], version


async def list_all_quotas(api: ApiClient) -> tuple[list[ResourceQuota], int]:
    """Return all ResourceQuotas, and the list's resource version; see :func:`list_all_policies`."""
    objects, version = await _list_all(api, QUOTAS)
    return [decode_quota(item) for item in objects], version


async def _list_all(api: ApiClient, path: str) -> tuple[list[dict[str, Any]], int]:
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        params = {"limit": str(_PAGE), **({"continue": token} if token else {})}
        response = await api.request("GET", path, params=params)
        if response.status == _NOT_FOUND:
            return [], _LATEST
        if response.status == _GONE and token:
            found, token = [], ""  # the snapshot behind the pages expired: begin again
            continue
        if not response.ok:
            raise ApiError(response)
        page = response.json()
        found += page.get("items") or []
        token = page["metadata"].get("continue") or ""
        if not token:
            return found, int(page["metadata"].get("resourceVersion") or 0)


_LATEST = 2**63 - 1
"""Stands for the version of a list of something that is not there at all: nothing of it can be newer."""


def _decode_namespace(found: Mapping[str, Any]) -> Namespace:
    metadata = found["metadata"]
    return Namespace(
        name=metadata["name"],
        labels=dict(metadata.get("labels") or {}),
        resource_version=int(metadata.get("resourceVersion") or 0),
        uid=metadata.get("uid") or "",
    )
