"""HTTP: from a path, a query and a body to a verb of the registry, and back to bytes.

Not there, on purpose: authentication, authorization, quota enforcement, managedFields and server-side apply, tables
and protobuf, webhooks, CEL rules of custom resources. A request with a bearer token is served like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec
import yaml
from aiohttp import web

from . import binding, discovery, patches, status
from .definitions import DEFINITIONS, defined
from .lists import Lists
from .log import Request, RequestLog
from .objects import Target
from .registry import DeleteOptions, Registry
from .selectors import Selector, parse_fields, parse_labels
from .store import Object, Store, decode, encode
from .watching import WatchOptions, stream, subscribe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .faults import Fault
    from .resources import Resource

_HEALTH = frozenset(("/healthz", "/livez", "/readyz"))
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_DAY = 86400.0


class Query:
    """The parameters of a request."""

    __slots__ = ("_values",)

    def __init__(self, text: str) -> None:
        self._values = parse_qs(text, keep_blank_values=True) if text else {}

    def text(self, name: str) -> str:
        """Return a parameter, empty when it is absent."""
        return self._values.get(name, [""])[0]

    def flag(self, name: str) -> bool:
        """Return a boolean; everything but absence, ``0`` and ``false`` is true, as for the API server."""
        values = self._values.get(name)
        return values is not None and values[0].lower() not in {"0", "false"}

    def number(self, name: str) -> int:
        """Return a whole number, zero when it is absent."""
        text = self.text(name)
        if not text:
            return 0
        try:
            return int(text)
        except ValueError:
            message = f'invalid value for {name}: strconv.ParseInt: parsing "{text}": invalid syntax'
            raise status.bad_request(message) from None

    def seconds(self, name: str) -> float | None:
        """Return a duration (``2s``, ``1m30s`` is not needed), ``None`` when it is absent."""
        text = self.text(name)
        if not text:
            return None
        for suffix, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
            if text.endswith(suffix):
                with contextlib.suppress(ValueError):
                    return float(text.removesuffix(suffix)) * factor
        raise status.bad_request(f"invalid value for {name}: {text}")

    def dry_run(self, kind: str) -> bool:
        """Tell whether nothing is to be kept."""
        value = self.text("dryRun")
        if value in {"", "All"}:
            return value == "All"
        cause = status.Cause.unsupported("dryRun", value, ["All"])
        raise status.invalid_options(kind, cause)


class ApiServer:
    """Answers requests from one store."""

    def __init__(self, resources: Iterable[Resource], store: Store, *, watch_queue: int, bookmarks: float) -> None:
        self.store = store
        self.registry = Registry(store)
        self.lists = Lists(store)
        self.log = RequestLog()
        self.faults: list[Fault] = []
        self.address = ""
        self._watch_queue = watch_queue
        self._bookmark_interval = bookmarks
        self._resources: dict[tuple[str, str], dict[str, Resource]] = {}
        self._defined: dict[str, Resource] = {}
        for resource in resources:
            self.serve(resource)

    def serve(self, resource: Resource) -> None:
        """Serve one more kind."""
        self._resources.setdefault((resource.group, resource.version), {})[resource.plural] = resource

    def _follow_definitions(self) -> None:
        """Serve what is defined, and end what is not defined any more: its objects go with it."""
        rows = {f"{row.qualified}/{row.version}": row for row in defined(self.store)}
        for name in self._defined.keys() - rows.keys():
            row = self._defined[name]
            table = self.store.table(row)
            for entry in list(table.entries.values()):
                self.store.remove(row, entry)
            for watcher in table.watchers:
                watcher.close()
            del self._resources[row.group, row.version][row.plural]
            if not self._resources[row.group, row.version]:
                del self._resources[row.group, row.version]
        for row in rows.values():
            self.serve(row)
        self._defined = rows

    # ------------------------------------------------------------------------------------------------ requests

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        path, method = request.path, request.method
        query = Query(request.rel_url.raw_query_string)
        what = Request(request.headers.get("User-Agent", ""), method.lower(), "", "", "")
        try:
            target = self._target(path)
            if target is None:
                return self._finish(what, request, self._discover(path))
            what = _describe(what.user_agent, method, query, target)
            lost = await self._suffer(request, what, query)
            if what.verb == "watch":
                return await self._watch(request, what, target, query)
            code, body = self._dispatch(what.verb, target, query, request.content_type, await request.read())
            if target.resource is DEFINITIONS and what.verb not in {"get", "list"}:
                self._follow_definitions()
        except status.ApiError as error:
            return self._finish(what, request, _json(error.code, encode(error.status())))
        if lost:
            _cut(request)
        return self._finish(what, request, _json(code, body))

    def _finish(self, what: Request, request: web.BaseRequest, response: web.Response) -> web.Response:
        self.log.record(what, request.method, request.path_qs, response.status)
        return response

    def _discover(self, path: str) -> web.Response:
        if path in _HEALTH or path.startswith("/readyz/"):
            return web.Response(text="ok")
        rows = [resource for served in self._resources.values() for resource in served.values()]
        found = discovery.document(path, rows, self.address)
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        return _json(200, encode(found))

    def _target(self, path: str) -> Target | None:
        """Parse ``/api/v1/…`` or ``/apis/<group>/<version>/…``; ``None`` for what is no object path."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        served = self._resources.get((group, version))
        if served is None:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
            namespace, rest = rest[1], rest[2:]
        resource = served.get(rest[0])
        if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
            raise status.unknown_path()
        name, subresource = (*rest[1:], "", "")[:2]
        if subresource and subresource not in resource.subresources:
            raise status.unknown_path()
        if name and resource.namespaced and not namespace:
            raise status.unknown_path()
        return Target(resource, namespace, name, subresource)

    async def _suffer(self, request: web.BaseRequest, what: Request, query: Query) -> bool:
        """Apply the faults that hit a request; tell whether its answer gets lost."""
        hits = [fault for fault in self.faults if fault.hits(what)] if self.faults else []
        allowed = query.seconds("timeout") if hits else None
        for fault in hits:
            if fault.delay:
                await asyncio.sleep(min(fault.delay, _DAY if allowed is None else allowed))
                if allowed is not None and fault.delay > allowed:
                    raise status.timed_out()
            if fault.drop:
                _cut(request)
            if fault.status:
                raise status.ApiError(fault.status, "InternalError", "fault injected")
        return any(fault.lose_answer for fault in hits)

    # ------------------------------------------------------------------------------------------------ verbs

    def _dispatch(self, verb: str, target: Target, query: Query, content_type: str, body: bytes) -> tuple[int, bytes]:
        if verb == "get":
            answer = self.registry.get(target)
        elif verb == "list":
            answer = self._list(target, query)
        elif verb == "create":
            answer = self._create(target, query, _body(body, content_type, target))
        elif verb == "update":
            dry_run = query.dry_run("UpdateOptions")
            answer = self.registry.replace(target, _body(body, content_type, target), dry_run=dry_run)
        elif verb == "patch":
            patch = _patch_body(target, content_type, body)
            answer = self.registry.patch(target, content_type, patch, dry_run=query.dry_run("PatchOptions"))
        elif verb == "delete":
            answer = self.registry.delete(target, _delete_options(query, body))
        elif verb == "deletecollection":
            options = _delete_options(query, body)
            answer = self.registry.delete_collection(target, _selector(target, query), options)
        else:
            message = "the server does not allow this method on the requested resource"
            raise status.ApiError(405, "MethodNotAllowed", message, {})
        return answer

    def _create(self, target: Target, query: Query, obj: Object) -> tuple[int, bytes]:
        dry_run = query.dry_run("CreateOptions")
        if target.subresource == "binding":
            return binding.bind(self.registry, target, obj, dry_run=dry_run)
        if target.subresource == "eviction":
            return binding.evict(self.registry, target, obj, dry_run=dry_run)
        return self.registry.create(target, obj, dry_run=dry_run)

    def _list(self, target: Target, query: Query) -> tuple[int, bytes]:
        selector = _selector(target, query)
        _match_rule(query)
        revision = _revision(query)
        if revision > self.store.revision:
            raise status.future_revision(revision, self.store.revision)
        return self.lists.page(target.resource, selector, query.number("limit"), query.text("continue"))

    async def _watch(self, request: web.BaseRequest, what: Request, target: Target, query: Query) -> web.StreamResponse:
        selector = _selector(target, query)
        if target.name:
            selector = Selector(selector.namespace, selector.labels, (*selector.fields, *_by_name(target)))
        initial = query.flag("sendInitialEvents")
        if initial and query.text("resourceVersionMatch") != "NotOlderThan":
            message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise status.invalid_options("ListOptions", status.Cause.forbidden("resourceVersionMatch", message))
        revision = _revision(query)
        options = WatchOptions(
            revision=None if initial or not revision else revision,
            end_of_state=initial,
            bookmarks=query.flag("allowWatchBookmarks"),
            timeout=query.number("timeoutSeconds") or _DAY,
        )
        self.log.record(what, request.method, request.path_qs, 200)
        watcher = subscribe(self.store, target.resource, selector, options, self._watch_queue)
        return await stream(request, self.store, watcher, options, self._bookmark_interval)


# ---------------------------------------------------------------------------------------------------- parsing


def _describe(user_agent: str, method: str, query: Query, target: Target) -> Request:
    verb = _VERBS.get(method, method.lower())
    if method == "GET" and query.flag("watch"):
        verb = "watch"
    elif not target.name and method in {"GET", "DELETE"}:
        verb = "list" if method == "GET" else "deletecollection"
    elif bool(target.name) is (method == "POST") and not target.subresource:
        verb = f"unsupported {verb}"
    resource = target.resource.plural + (f"/{target.subresource}" if target.subresource else "")
    return Request(user_agent, verb, resource, target.namespace, target.name)


def _selector(target: Target, query: Query) -> Selector:
    labels, fields = query.text("labelSelector"), query.text("fieldSelector")
    return Selector(target.namespace, parse_labels(labels), parse_fields(target.resource, fields))


def _by_name(target: Target) -> tuple[Any, ...]:
    return parse_fields(target.resource, f"metadata.name={target.name}")


def _revision(query: Query) -> int:
    text = query.text("resourceVersion")
    if not text:
        return 0
    if not text.isdecimal():
        invalid = status.Cause.invalid("resourceVersion", text, f'strconv.ParseUint: parsing "{text}": invalid syntax')
        raise status.bad_request(f"invalid resource version: resourceVersion: {invalid.message}")
    return int(text)


def _match_rule(query: Query) -> None:
    rule = query.text("resourceVersionMatch")
    if not rule:
        return
    if rule not in {"Exact", "NotOlderThan"}:
        cause = status.Cause.unsupported("resourceVersionMatch", rule, ["Exact", "NotOlderThan", ""])
        raise status.invalid_options("ListOptions", cause)
    if not query.text("resourceVersion"):
        message = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise status.invalid_options("ListOptions", status.Cause.forbidden("resourceVersionMatch", message))


def _body(body: bytes, content_type: str, target: Target) -> Object:
    try:
        parsed = yaml.safe_load(body) if content_type == "application/yaml" else decode(body)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        kind = target.resource.kind
        text = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {error}"
        raise status.bad_request(text) from error
    if not isinstance(parsed, dict):
        raise status.bad_request("the object provided is unrecognized: it is no object")
    return parsed


def _patch_body(target: Target, content_type: str, body: bytes) -> patches.Json:
    kinds = {patches.MERGE: dict, patches.JSON: list, patches.STRATEGIC: dict}
    if content_type not in kinds or (content_type == patches.STRATEGIC and target.resource.merge_keys is None):
        raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        parsed = decode(body)
    except msgspec.DecodeError as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    if not isinstance(parsed, kinds[content_type]):
        raise status.bad_request("error decoding patch: json: cannot unmarshal into Go value")
    return parsed


def _delete_options(query: Query, body: bytes) -> DeleteOptions:
    try:
        parsed = decode(body) if body else {}
        options = DeleteOptions.parse(parsed)
    except (msgspec.DecodeError, AttributeError, TypeError, ValueError) as error:
        raise status.bad_request(f"the object provided is no DeleteOptions: {error}") from error
    grace = query.text("gracePeriodSeconds")
    dry_run = options.dry_run or query.dry_run("DeleteOptions")
    if grace and options.grace is None:
        return DeleteOptions(query.number("gracePeriodSeconds"), options.uid, options.revision, dry_run)
    return DeleteOptions(options.grace, options.uid, options.revision, dry_run)


def _json(code: int, body: bytes) -> web.Response:
    return web.Response(status=code, body=body, content_type="application/json")


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("fault injected")
