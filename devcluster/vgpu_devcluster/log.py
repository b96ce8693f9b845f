"""Request counters by user agent, verb and resource, as an audit log would have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

OnRequest = Callable[[str, str, str, int], None]  # method, path, user agent, status

WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))


class Request(NamedTuple):
    """A request in the terms of an audit log."""

    user_agent: str
    verb: str
    resource: str  # plural and subresource: "pods/binding"; "" for discovery
    namespace: str
    name: str
    dry_run: bool = False


class RequestKey(NamedTuple):
    """The key under which requests are counted."""

    user_agent: str
    verb: str
    resource: str
    code: int
    dry_run: bool


@dataclass(slots=True)
class RequestLog:
    """Counts answered requests; a watch counts when it starts."""

    on_request: OnRequest | None = None
    counts: Counter[RequestKey] = field(default_factory=Counter)

    def record(self, request: Request, method: str, path: str, code: int) -> None:
        """Count one answer."""
        self.counts[RequestKey(request.user_agent, request.verb, request.resource, code, request.dry_run)] += 1
        if self.on_request is not None:
            self.on_request(method, path, request.user_agent, code)

    def total(
        self, *, user_agent: str = "", verb: str = "", resource: str = "", code: int = 0, dry_run: bool | None = None
    ) -> int:
        """Return the number of matching requests; empty arguments and None match all, ``user_agent`` is a prefix."""
        return sum(
            number
            for key, number in self.counts.items()
            if key.user_agent.startswith(user_agent)
            and verb in {"", key.verb}
            and resource in {"", key.resource}
            and code in {0, key.code}
            and dry_run in {None, key.dry_run}
        )
