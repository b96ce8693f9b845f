"""Pods as JSON, to be changed in place."""

from __future__ import annotations

from typing import Any

from tests.naive.hami_wire import INT32
from tests.naive.webhook.quirks import WebhookQuirk

from vgpu_scheduler.kube import QuantityError, to_exact_int, to_int

Obj = dict[str, Any]


class Denied(Exception):  # noqa: N818 - it reads as what it says
    """The pod is not let in."""

    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Container:
    """One container of a pod."""

    def __init__(self, pod: Obj, raw: Obj, switch: Any) -> None:
        self.pod = pod
        self.raw = raw
        self.switch = switch
        self.name = raw["name"]

    def limits(self) -> Obj:
        return (self.raw.get("resources") or {}).get("limits") or {}

    def requests(self) -> Obj:
        return (self.raw.get("resources") or {}).get("requests") or {}

    def write(self, kind: str, name: str, value: object) -> None:
        resources = self.raw.setdefault("resources", {})
        resources.setdefault(kind, {})[name] = str(value)

    def change(self, name: str, value: object) -> None:
        """Write a limit, and the request beside it, which the API server wants to be the same."""
        self.write("limits", name, value)
        if name in self.requests() and not self.switch(WebhookQuirk.LIMITS_ALONE_CHANGED):
            self.write("requests", name, value)

    def env(self, name: str, value: str) -> None:
        listed = self.raw.setdefault("env", [])
        last = [entry for entry in listed if entry["name"] == name][-1:]
        if last == [_entry(name, value)] and not self.switch(WebhookQuirk.ENV_APPENDED_AGAIN):
            return
        listed.append(_entry(name, value))

    def annotation(self, name: str) -> str | None:
        return (self.pod["metadata"].get("annotations") or {}).get(name)

    def annotate(self, name: str, value: str) -> None:
        self.pod["metadata"].setdefault("annotations", {})[name] = value

    def runtime_class(self, name: str) -> None:
        if name and self.pod["spec"].get("runtimeClassName") is None:
            self.pod["spec"]["runtimeClassName"] = name

    def untouchable(self, *names: str) -> bool:
        """Whether an amount is one that this scheduler refuses by name, and so does not calculate with."""
        given = [text for name in names for where in (self.limits(), self.requests()) if (text := where.get(name))]
        malformed = any(not 0 <= (_exact(text, -1)) <= INT32 for text in given)
        return malformed and not self.switch(WebhookQuirk.MALFORMED_AMOUNT_ROUNDED)


def _entry(name: str, value: str) -> Obj:
    return {"name": name, "value": value} if value else {"name": name}


def value(text: str) -> int:
    """Go's ``Quantity.Value``: rounded up."""
    return to_int(text)


def _exact(text: str, other: int) -> int:
    found = exact(text)
    return other if found is None else found


def exact(text: str) -> int | None:
    """Go's ``Quantity.AsInt64``."""
    try:
        return to_exact_int(text)
    except QuantityError:
        return None
