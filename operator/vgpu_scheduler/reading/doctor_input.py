"""Read everything that the checks of :mod:`vgpu_scheduler.doctor` need, from the API server or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from vgpu_scheduler.apiclient import (
    ApiClient,
    ApiError,
    ApiUnreachableError,
    ReviewedUser,
    collection_path,
    is_allowed,
    map_concurrently,
    served_version,
)
from vgpu_scheduler.doctor import (
    EXAMINED_KINDS,
    OF_A_NAMESPACE,
    RIGHTS,
    ROLE_KINDS,
    AccessQuestion,
    AccessReviews,
    DoctorInput,
    ExpectedSettings,
    Finding,
    ListedKind,
    Rbac,
    Rights,
    Server,
    decode_objects,
    inventory_kind,
    objects_of,
    questions,
)
from vgpu_scheduler.reading.expected_settings import expectations, expected_of
from vgpu_scheduler.reading.lists import ListResult, list_objects
from vgpu_scheduler.reading.options import ClusterOptions
from vgpu_scheduler.reading.view import ClusterView, read_cluster
from vgpu_scheduler.whatif.objects.objects import with_uid

_UNAUTHORIZED, _NOT_FOUND = 401, 404
_REVIEW_RIGHT = "create subjectaccessreviews.authorization.k8s.io"


class UnauthorizedError(Exception):
    """The API server rejects the user's credentials."""


@dataclass(slots=True)
class _Collected:
    """What has been read so far."""

    objects: dict[str, list[Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    """The kinds of which files have no object, without saying that there is none."""
    findings: list[Finding] = field(default_factory=list)

    def take(self, listed: ListedKind, items: Iterable[Any]) -> None:
        """Add objects of a kind to those already read."""
        values, unreadable = decode_objects(listed, items)
        self.objects.setdefault(listed.kind, []).extend(values)
        self.findings += unreadable

    def take_all(self, kinds: Iterable[ListedKind], objects: Iterable[Mapping[str, Any]]) -> None:
        """Add the objects of some kinds, each of which may have none."""
        by_kind: dict[str, list[Mapping[str, Any]]] = {}
        for obj in objects:
            by_kind.setdefault(str(obj.get("kind")), []).append(obj)
        for listed in kinds:
            self.take(listed, [obj for obj in by_kind.get(listed.resource.kind, ()) if listed.is_of(obj)])

    def doctor_input(self, expected: ExpectedSettings, server: Server, rights: Rights | None) -> DoctorInput:
        """Return everything that was read."""
        return DoctorInput(
            expected=expected,
            server=server,
            objects=self.objects,
            missing=self.missing,
            absent=tuple(self.absent),
            rights=rights,
            findings=tuple(self.findings),
        )


def _kinds_for(expected: ExpectedSettings) -> list[ListedKind]:
    """Return the kinds to read from a cluster whose scheduler has these settings."""
    inventories = (kind for dialect in expected.options.dialects if (kind := dialect.inventory.kind))
    return [*EXAMINED_KINDS, *map(inventory_kind, inventories)]


async def read_doctor_input(api: ApiClient, options: ClusterOptions, namespace: str = "") -> DoctorInput:
    """Read what the checks need, within the rights of the user.

    Parameters
    ----------
    namespace
        Read policies and quotas of this namespace only; empty for all namespaces.

    Raises
    ------
    UnauthorizedError
        If the API server rejects the credentials even for its version.
    ApiUnreachableError
        If the API server does not answer.
    SettingsError
        If the settings file cannot be read.
    """
    server = await _server(api)
    expected, findings = await expectations(api, options.config, options.scheduler_namespace)
    collected = _Collected(findings=findings)
    kinds = [
        replace(listed, namespace=namespace if listed.kind in OF_A_NAMESPACE else "") for listed in _kinds_for(expected)
    ]
    await _list_all(api, kinds, collected)
    doctor_input = collected.doctor_input(expected, server, None)
    rights: Rights | None = (
        await _reviewed(api, questions(doctor_input), collected)
        if await _may_review(api)
        else await _from_roles(api, collected)
    )
    return replace(doctor_input, rights=rights, findings=tuple(collected.findings))


def doctor_input_of_files(options: ClusterOptions, namespace: str = "") -> DoctorInput:
    """Return what files contain for the checks; see :func:`doctor_input_of_view`.

    Raises
    ------
    FileError, SettingsError
        If they cannot be read.
    """
    return doctor_input_of_view(read_cluster(options), options.scheduler_namespace, namespace)


def doctor_input_of_view(view: ClusterView, scheduler_namespace: str, namespace: str = "") -> DoctorInput:
    """Return what a view from files has for the checks.

    Kinds without objects count as not read, unless the files say otherwise.

    Parameters
    ----------
    scheduler_namespace
        The namespace of the scheduler.
    namespace
        Use policies and quotas of this namespace only; empty for all namespaces.
    """
    expected, findings = expected_of(view.scheduler, scheduler_namespace)
    collected = _Collected(findings=findings)
    for listed in (*_kinds_for(expected), *ROLE_KINDS):
        items = [obj for obj in (*view.objects, *view.settings_objects) if listed.is_of(obj)]
        may_have_none = bool(listed.own_name) and listed.kind not in view.missing
        if items or may_have_none or view.has_read(listed.kind):
            if namespace and listed.kind in OF_A_NAMESPACE:
                items = [obj for obj in items if (obj.get("metadata") or {}).get("namespace") == namespace]
            collected.take(listed, map(_identified, items))
        else:
            collected.absent.append(listed.kind)
    now = view.read_at or datetime.now(UTC)
    rights = _rights_of_roles(collected, "an API server that is asked")
    return collected.doctor_input(expected, Server(view.origin, None, now, now), rights)


def _identified(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with a UID, which identifies it; hand-written files may lack one."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("uid"):
        return obj
    return {**obj, "metadata": with_uid(str(obj.get("kind")), obj)}


async def read_doctor_input_with_view(api: ApiClient, view: ClusterView, scheduler_namespace: str) -> DoctorInput:
    """Return what the checks need: objects of a view, and further kinds that are read now.

    Permissions are derived from roles, so that only read requests are made.

    Parameters
    ----------
    scheduler_namespace
        The namespace of the scheduler.

    Raises
    ------
    UnauthorizedError
        If the API server rejects the credentials even for its version.
    ApiUnreachableError
        If the API server does not answer.
    """
    server = await _server(api)
    expected, findings = expected_of(view.scheduler, scheduler_namespace)
    collected = _Collected(findings=findings)
    kinds = _kinds_for(expected)
    known = [listed for listed in kinds if listed.kind in view.kinds]
    refused = {listed.kind: str(view.missing[listed.kind]) for listed in kinds if listed.kind in view.missing}
    others = [listed for listed in kinds if listed.kind not in view.kinds and listed.kind not in refused]
    await _list_all(api, [*others, *ROLE_KINDS], collected)
    await asyncio.to_thread(collected.take_all, known, view.objects)
    collected.missing.update(refused)
    return collected.doctor_input(expected, server, _rights_of_roles(collected))


async def _server(api: ApiClient) -> Server:
    response = await api.request("GET", "/version")
    local = datetime.now(UTC)
    if response.status == _UNAUTHORIZED:
        raise UnauthorizedError(f"{api.credentials.server}: {response.message}")
    return Server(api.credentials.server, served_version(response), response.time or local, local)


async def _list_all(api: ApiClient, kinds: Iterable[ListedKind], collected: _Collected) -> None:
    """List several kinds concurrently; record the kinds that cannot be listed, with the reason."""

    async def one(listed: ListedKind) -> None:
        try:
            missing = await (_get(api, listed, collected) if listed.names else _list(api, listed, collected))
        except ApiUnreachableError as error:
            missing = str(error)
        if missing is not None:
            collected.missing[listed.kind] = missing

    await map_concurrently(one, kinds)


async def _list(api: ApiClient, listed: ListedKind, collected: _Collected) -> str | None:
    """List a kind; return the reason if it cannot be listed."""
    found = await list_objects(api, *(collection_path(path, listed.namespace) for path in listed.resource.paths))
    if found.refusal is not None:
        return found.message(listed.right)
    collected.take(listed, found.items)
    return None


async def _get(api: ApiClient, listed: ListedKind, collected: _Collected) -> str | None:
    """Read the named objects of a kind; return the reason if one cannot be read."""
    collected.objects[listed.kind] = []
    for name in listed.names:
        response = await api.request("GET", f"{listed.resource.paths[0]}/{name}")
        if response.status == _NOT_FOUND:
            continue
        if not response.ok:
            del collected.objects[listed.kind]
            return ListResult(refusal=response).message(listed.right)
        collected.take(listed, [response.body])
    return None


async def _may_review(api: ApiClient) -> bool:
    """Tell whether the user may create SubjectAccessReviews."""
    attributes = {"verb": "create", "group": "authorization.k8s.io", "resource": "subjectaccessreviews"}
    try:
        return await is_allowed(api, attributes)
    except (ApiError, ApiUnreachableError):
        return False


async def _reviewed(api: ApiClient, asked: Iterable[AccessQuestion], collected: _Collected) -> AccessReviews | None:
    """Review the permissions of accounts; None if a review fails."""

    async def one(question: AccessQuestion) -> tuple[AccessQuestion, bool]:
        account = question.account
        return question, await is_allowed(api, question.attributes, ReviewedUser(account.user, account.groups))

    try:
        return AccessReviews(dict(await map_concurrently(one, asked)))
    except (ApiError, ApiUnreachableError) as error:
        collected.missing[RIGHTS] = f"{_REVIEW_RIGHT}: {error}"
        return None


async def _from_roles(api: ApiClient, collected: _Collected) -> Rbac | None:
    """Derive permissions from roles; None if the user may not read them."""
    await _list_all(api, ROLE_KINDS, collected)
    return _rights_of_roles(collected, _REVIEW_RIGHT)


def _rights_of_roles(collected: _Collected, needed: str = "") -> Rbac | None:
    """Derive permissions from the roles that were read; if some are missing, record why and return None."""
    kinds = [listed.kind for listed in ROLE_KINDS]
    reasons = [collected.missing.pop(kind) for kind in kinds if kind in collected.missing]
    if absent := [kind for kind in kinds if kind in collected.absent]:
        reasons.append(objects_of(absent))
    if reasons:
        listed = ", ".join(reasons)
        collected.missing[RIGHTS] = f"{needed} (or {listed})" if needed else listed
        return None
    return Rbac(*(tuple(collected.objects[listed.kind]) for listed in ROLE_KINDS))
