"""Injected faults: slow answers, refusals, cut connections, and answers that get lost after the write happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import Request


@dataclass(slots=True)
class Fault:
    """One fault and the requests that it hits; empty fields match everything.

    Attributes
    ----------
    verb, resource, name, user_agent
        The requests to hit: the verb as in audit logs (``create``, ``patch``, …), the plural with its subresource
        (``pods/binding``), the object's name, the beginning of the User-Agent.
    dry_run
        Whether to hit dry runs only, or only other requests; None for both.
    delay
        Seconds before the request is processed. A request with a shorter ``timeout`` parameter gets a 504 and has no
        effect.
    status
        The status code to answer with, without processing the request.
    lose_answer
        Process the request, then cut the connection.
    drop
        Cut the connection without processing the request.
    times
        How many requests to hit; -1 for all.
    """

    verb: str = ""
    resource: str = ""
    name: str = ""
    user_agent: str = ""
    dry_run: bool | None = None
    delay: float = 0.0
    status: int = 0
    lose_answer: bool = False
    drop: bool = False
    times: int = -1

    def hits(self, request: Request) -> bool:
        """Tell whether a request is hit, and count it."""
        wanted = (self.verb, self.resource, self.name)
        found = (request.verb, request.resource, request.name)
        if self.times == 0 or any(want and want != have for want, have in zip(wanted, found, strict=True)):
            return False
        if self.dry_run not in {None, request.dry_run}:
            return False
        if not request.user_agent.startswith(self.user_agent):
            return False
        self.times -= self.times > 0
        return True
