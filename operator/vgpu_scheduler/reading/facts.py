"""Reads everything that the checks of :mod:`vgpu_scheduler.doctor` need: from the API server, or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, served_version
from vgpu_scheduler.doctor import (
    FACTS,
    OF_A_NAMESPACE,
    RIGHTS,
    ROLE_FACTS,
    Answers,
    Fact,
    Finding,
    Question,
    Rbac,
    Rights,
    Seen,
    Server,
    beside_fact,
    questions,
    take_in,
)
from vgpu_scheduler.reading.expected import expectations, expected_of
from vgpu_scheduler.reading.lists import ListResult, list_objects
from vgpu_scheduler.reading.options import ClusterOptions
from vgpu_scheduler.reading.view import read_cluster

__all__ = ["UnauthorizedError", "facts_of_files", "read_facts"]

_AT_ONCE = 8
"""Requests under way at a time."""
_UNAUTHORIZED, _NOT_FOUND = 401, 404
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_REVIEW_RIGHT = "create subjectaccessreviews.authorization.k8s.io"


class UnauthorizedError(Exception):
    """The API server does not know the user."""


@dataclass(slots=True)
class _Collected:
    """What the API server has answered so far."""

    objects: dict[str, list[Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


async def read_facts(api: ApiClient, options: ClusterOptions, namespace: str = "") -> Seen:
    """Read what the checks need, as far as the user may.

    Parameters
    ----------
    namespace
        Read the policies and quotas of this one alone; empty for those of all.

    Raises
    ------
    UnauthorizedError
        If the API server knows neither the user nor its own version.
    ApiUnreachableError
        If it does not answer.
    SettingsError
        If the settings file cannot be read.
    """
    server = await _server(api)
    expected, findings = await expectations(api, options.config, options.scheduler_namespace)
    beside = (kind for dialect in expected.options.dialects if (kind := dialect.inventory.beside))
    collected = _Collected(findings=findings)
    facts = [replace(fact, namespace=namespace if fact.kind in OF_A_NAMESPACE else "") for fact in FACTS]
    await _list_all(api, [*facts, *map(beside_fact, beside)], collected)
    seen = Seen(expected=expected, server=server, objects=collected.objects, missing=collected.missing)
    rights: Rights | None = (
        await _reviewed(api, questions(seen), collected)
        if await _may_review(api)
        else await _from_roles(api, collected)
    )
    return replace(seen, rights=rights, findings=tuple(collected.findings))


def facts_of_files(options: ClusterOptions, namespace: str = "") -> Seen:
    """Return what files tell of a cluster; a kind of which they have no object was not read, unless they say so.

    Parameters
    ----------
    namespace
        Look at the policies and quotas of this one alone; empty for those of all.

    Raises
    ------
    FileError, SettingsError
        If they cannot be read.
    """
    view = read_cluster(options)
    expected, findings = expected_of(view.scheduler, options.scheduler_namespace)
    collected = _Collected(findings=findings)
    beside = (kind for dialect in expected.options.dialects if (kind := dialect.inventory.beside))
    for fact in (*FACTS, *map(beside_fact, beside), *ROLE_FACTS):
        items = [obj for obj in (*view.objects, *view.settings_objects) if fact.is_of(obj)]
        may_have_none = bool(fact.object_kind) and fact.kind not in view.missing
        if items or may_have_none or view.has_read(fact.kind):
            if namespace and fact.kind in OF_A_NAMESPACE:
                items = [obj for obj in items if (obj.get("metadata") or {}).get("namespace") == namespace]
            values, unreadable = take_in(fact, items)
            collected.objects[fact.kind] = values
            collected.findings += unreadable
        else:
            collected.missing[fact.kind] = f"objects of kind {fact.kind}, of which {view.origin} has none"
    now = view.read_at or datetime.now(UTC)
    rights = _rights_of_roles(collected, "an API server that is asked")
    return Seen(
        expected=expected,
        server=Server(view.origin, None, now, now),
        objects=collected.objects,
        missing=collected.missing,
        rights=rights,
        findings=tuple(collected.findings),
    )


async def _server(api: ApiClient) -> Server:
    response = await api.request("GET", "/version")
    local = datetime.now(UTC)
    if response.status == _UNAUTHORIZED:
        raise UnauthorizedError(f"{api.credentials.server}: {response.message}")
    return Server(api.credentials.server, served_version(response), response.time or local, local)


async def _list_all(api: ApiClient, facts: Iterable[Fact], collected: _Collected) -> None:
    """List every kind, some at a time; what cannot be listed is missing, with the reason."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(fact: Fact) -> None:
        async with gate:
            try:
                missing = await (_get(api, fact, collected) if fact.names else _list(api, fact, collected))
            except ApiUnreachableError as error:
                missing = str(error)
        if missing is not None:
            collected.missing[fact.kind] = missing

    await asyncio.gather(*(one(fact) for fact in facts))


async def _list(api: ApiClient, fact: Fact, collected: _Collected) -> str | None:
    """List a kind; return what kept it from being listed, if anything did."""
    found = await list_objects(api, fact.paths)
    if found.refusal is not None:
        return found.right(fact.right)
    values, findings = take_in(fact, found.items)
    collected.objects[fact.kind] = values
    collected.findings += findings
    return None


async def _get(api: ApiClient, fact: Fact, collected: _Collected) -> str | None:
    """Read the objects that a fact names; return what kept one from being read, if anything did."""
    found: list[Any] = []
    for name in fact.names:
        response = await api.request("GET", f"{fact.paths[0]}/{name}")
        if response.status == _NOT_FOUND:
            continue
        if not response.ok:
            return ListResult(refusal=response).right(fact.right)
        values, unreadable = take_in(fact, [response.body])
        found += values
        collected.findings += unreadable
    collected.objects[fact.kind] = found
    return None


async def _may_review(api: ApiClient) -> bool:
    """Tell whether the API server may be asked who may do what."""
    attributes = {"verb": "create", "group": "authorization.k8s.io", "resource": "subjectaccessreviews"}
    body = {"spec": {"resourceAttributes": attributes}}
    try:
        response = await api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return response.ok and bool(response.json()["status"]["allowed"])
    except (ApiUnreachableError, ValueError, KeyError, TypeError):
        return False


async def _reviewed(api: ApiClient, asked: Iterable[Question], collected: _Collected) -> Answers | None:
    """Ask who may do what; None if a question was not answered."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(question: Question) -> tuple[Question, bool]:
        async with gate:
            response = await api.request("POST", _REVIEWS, _review(question))
        return question, response.ok and bool(response.json()["status"]["allowed"])

    try:
        return Answers(dict(await asyncio.gather(*(one(question) for question in asked))))
    except (ApiUnreachableError, ValueError, KeyError, TypeError) as error:
        collected.missing[RIGHTS] = f"{_REVIEW_RIGHT}: {error}"
        return None


def _review(question: Question) -> Mapping[str, Any]:
    attributes = {
        "verb": question.verb,
        "group": question.group,
        "resource": question.resource,
        "subresource": question.subresource,
        "namespace": question.namespace,
        "name": question.name,
    }
    account = question.account
    return {"spec": {"user": account.user, "groups": list(account.groups), "resourceAttributes": attributes}}


async def _from_roles(api: ApiClient, collected: _Collected) -> Rbac | None:
    """Return what roles say about who may do what; None if they may not be read."""
    await _list_all(api, ROLE_FACTS, collected)
    return _rights_of_roles(collected, _REVIEW_RIGHT)


def _rights_of_roles(collected: _Collected, needed: str) -> Rbac | None:
    """Return what the collected roles say; None if some are missing, which is told with what else would do."""
    reasons = [collected.missing.pop(fact.kind) for fact in ROLE_FACTS if fact.kind in collected.missing]
    if reasons:
        collected.missing[RIGHTS] = f"{needed} (or {', '.join(reasons)})"
        return None
    return Rbac(*(tuple(collected.objects[fact.kind]) for fact in ROLE_FACTS))
