"""What an API server answered, as its audit log tells it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

AUDIT_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
"""What of a request is logged."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One answered request, as the API server's audit log tells it."""

    verb: str
    user: str
    user_agent: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    uri: str
    received: float
    answered: float
    """When, in seconds since 1970."""

    @classmethod
    def parse(cls, line: str) -> AuditRecord:
        """Read one line of the log."""
        event = json.loads(line)
        ref: dict[str, str] = event.get("objectRef", {})
        return cls(
            verb=event["verb"],
            user=event["user"].get("username", ""),
            user_agent=event.get("userAgent", ""),
            group=ref.get("apiGroup", ""),
            resource=ref.get("resource", ""),
            subresource=ref.get("subresource", ""),
            namespace=ref.get("namespace", ""),
            name=ref.get("name", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            uri=event["requestURI"],
            received=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
            answered=datetime.fromisoformat(event["stageTimestamp"]).timestamp(),
        )


def end_of_lines(log: bytes) -> int:
    """Return where the last whole line ends, in bytes: the API server may be writing the next one."""
    return log.rfind(b"\n") + 1


def parse_lines(log: bytes) -> list[AuditRecord]:
    """Read the whole lines of a log; what follows the last of them is not there yet."""
    return [AuditRecord.parse(line) for line in log[: end_of_lines(log)].decode().split("\n")[:-1]]
