"""HTTP: translates path, query and body into a verb of the registry, and the result into bytes.

Deliberately absent: authentication, authorization, the enforcement of quotas and limit ranges, protobuf answers,
webhooks, admission policies (they are stored but not evaluated), containers. A request with a bearer token is served
like any other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from . import applying, binding, discovery, evictions, openapi, parsing, patches, reviews, status
from .definitions import DEFINITIONS, defined
from .disruption import DisruptionController
from .lists import Lists
from .log import Request, RequestLog
from .namespaces import end_namespaces
from .objects import Target
from .registry import Registry, WriteOptions
from .resources import BUDGETS, CONTAINER_VERBS, NAMESPACES, PODS
from .selectors import Selector
from .store import Object, Store, encode
from .tables import Form
from .watching import WatchOptions, stream, subscribe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .faults import Fault
    from .resources import Resource

_HEALTH = frozenset(("/healthz", "/livez", "/readyz"))
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_DAY = 86400.0
_COUNTED = frozenset((PODS.storage, BUDGETS.storage))
"""The kinds whose writes may change what disruption budgets allow."""


class ApiServer:
    """Answers requests from one store."""

    def __init__(
        self,
        resources: Iterable[Resource],
        store: Store,
        *,
        watch_queue: int,
        bookmarks: float,
        disruption: bool,
    ) -> None:
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
        self._ending: set[str] = set()
        self._disruption = DisruptionController(store) if disruption else None
        for resource in resources:
            self.serve(resource)

    def serve(self, resource: Resource) -> None:
        """Serve one more kind."""
        self._resources.setdefault((resource.group, resource.version), {})[resource.plural] = resource

    def _follow_definitions(self) -> None:
        """Serve the defined kinds, and stop serving kinds whose definition is gone, deleting their objects."""
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
        query = parsing.Query(request.rel_url.raw_query_string)
        what = Request(request.headers.get("User-Agent", ""), method.lower(), "", "", "")
        try:
            target = self._target(path)
            if target is None:
                return self._finish(what, request, self._discover(path))
            what = _describe(what.user_agent, method, query, target)
            lost = await self._suffer(request, what, query)
            form = Form(request.headers.get("Accept", ""), query.text("includeObject"))
            if what.verb == "watch" and "watch" in target.resource.verbs:
                return await self._watch(request, what, target, query, form)
            options = query.write_options(what.verb, what.user_agent)
            sent = (request.content_type, await request.read())
            try:
                code, body = self._dispatch(what.verb, target, query, options, sent)
            finally:  # even a refused eviction may have been counted
                self._count_disruptions(what.verb, target)
            if not form.plain and what.verb in {"get", "list"} and body:
                body = form.answer(target.resource, body)
            if target.resource is DEFINITIONS and what.verb not in {"get", "list"}:
                self._follow_definitions()
            if target.resource is NAMESPACES and what.verb == "delete":
                self._ending.add(target.name)
            if self._ending and what.verb not in {"get", "list"}:
                served = (row for rows in self._resources.values() for row in rows.values())
                self._ending = set(end_namespaces(self.registry, self._ending, served))
        except status.ApiError as error:
            refusal = _json(error.code, encode(error.status()))
            if after := (error.details or {}).get("retryAfterSeconds"):
                refusal.headers["Retry-After"] = str(after)
            return self._finish(what, request, refusal)
        if lost:
            _cut(request)
        return self._finish(what, request, _json(code, body, options.warnings))

    def _count_disruptions(self, verb: str, target: Target) -> None:
        if self._disruption and target.resource.storage in _COUNTED and verb not in {"get", "list"}:
            self._disruption.sync(target.namespace)

    def _finish(self, what: Request, request: web.BaseRequest, response: web.Response) -> web.Response:
        self.log.record(what, request.method, request.path_qs, response.status)
        return response

    def _discover(self, path: str) -> web.Response:
        if path in _HEALTH or path.startswith("/readyz/"):
            return web.Response(text="ok")
        if path == openapi.ROOT_OF_V2:
            return web.Response(body=openapi.DOCUMENT_OF_V2, content_type=openapi.TYPE_OF_V2)
        rows = [resource for served in self._resources.values() for resource in served.values()]
        find = openapi.document(path, rows) if path.startswith(openapi.ROOT) else None
        found = find or discovery.document(path, rows, self.address)
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        return _json(200, encode(found))

    def _target(self, path: str) -> Target | None:
        """Parse ``/api/v1/…`` or ``/apis/<group>/<version>/…``; None for other paths."""
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

    async def _suffer(self, request: web.BaseRequest, what: Request, query: parsing.Query) -> bool:
        """Apply the faults that hit a request; return whether its answer gets lost."""
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

    def _dispatch(
        self, verb: str, target: Target, query: parsing.Query, options: WriteOptions, sent: tuple[str, bytes]
    ) -> tuple[int, bytes]:
        content_type, data = sent
        if target.subresource in CONTAINER_VERBS:
            return binding.reach_containers(self.registry, target)
        if verb not in target.resource.verbs:
            raise _not_allowed()
        if verb == "get":
            answer = self.registry.get(target)
        elif verb == "list":
            answer = self._list(target, query)
        elif verb == "create":
            answer = self._create(target, parsing.object_body(data, content_type, target), options)
        elif verb == "update":
            answer = self.registry.replace(target, parsing.object_body(data, content_type, target), options)
        elif verb == "patch" and content_type in patches.APPLY:
            answer = applying.apply(self.registry, target, data, options, named=bool(query.text("fieldManager")))
        elif verb == "patch":
            patch = parsing.patch_body(target, content_type, data)
            answer = self.registry.patch(target, content_type, patch, options)
        elif verb == "delete":
            answer = self.registry.delete(target, parsing.delete_options(query, content_type, data))
        else:
            chosen = parsing.selector(target, query)
            answer = self.registry.delete_collection(target, chosen, parsing.delete_options(query, content_type, data))
        return answer

    def _create(self, target: Target, obj: Object, options: WriteOptions) -> tuple[int, bytes]:
        if target.resource in reviews.REVIEWS:
            return reviews.answer(target, obj)
        if target.subresource == "binding":
            return binding.bind(self.registry, target, obj, options)
        if target.subresource == "eviction":
            return evictions.evict(self.registry, target, obj, options)
        return self.registry.create(target, obj, options)

    def _list(self, target: Target, query: parsing.Query) -> tuple[int, bytes]:
        selector = parsing.selector(target, query)
        parsing.match_rule(query)
        revision = parsing.revision(query)
        if revision > self.store.revision:
            raise status.future_revision(revision, self.store.revision)
        return self.lists.page(target.resource, selector, query.number("limit"), query.text("continue"))

    async def _watch(
        self, request: web.BaseRequest, what: Request, target: Target, query: parsing.Query, form: Form
    ) -> web.StreamResponse:
        selector = parsing.selector(target, query)
        if target.name:
            selector = Selector(selector.namespace, selector.labels, (*selector.fields, *parsing.by_name(target)))
        initial = query.flag("sendInitialEvents")
        if initial and query.text("resourceVersionMatch") != "NotOlderThan":
            message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise status.invalid_options("ListOptions", status.Cause.forbidden("resourceVersionMatch", message))
        revision = parsing.revision(query)
        options = WatchOptions(
            revision=None if initial or not revision else revision,
            end_of_state=initial,
            bookmarks=query.flag("allowWatchBookmarks"),
            timeout=query.number("timeoutSeconds") or _DAY,
            bookmark_interval=self._bookmark_interval,
            convert=None if form.plain else form.events(target.resource),
        )
        self.log.record(what, request.method, request.path_qs, 200)
        watcher = subscribe(self.store, target.resource, selector, options, self._watch_queue)
        return await stream(request, self.store, watcher, options)


def _describe(user_agent: str, method: str, query: parsing.Query, target: Target) -> Request:
    verb = _VERBS.get(method, method.lower())
    if method == "GET" and query.flag("watch"):
        verb = "watch"
    elif not target.name and method in {"GET", "DELETE"}:
        verb = "list" if method == "GET" else "deletecollection"
    elif bool(target.name) is (method == "POST") and not target.subresource:
        verb = f"unsupported {verb}"
    resource = target.resource.plural + (f"/{target.subresource}" if target.subresource else "")
    return Request(user_agent, verb, resource, target.namespace, target.name, query.text("dryRun") == "All")


def _not_allowed() -> status.ApiError:
    message = "the server does not allow this method on the requested resource"
    return status.ApiError(405, "MethodNotAllowed", message, {})


def _json(code: int, body: bytes, warnings: Sequence[str] = ()) -> web.Response:
    response = web.Response(status=code, body=body, content_type="application/json")
    for text in warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("fault injected")
