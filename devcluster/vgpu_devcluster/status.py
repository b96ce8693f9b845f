"""Refusals as the API server words them: ``Status`` objects with code, reason, message and details.

The messages were recorded from a real API server; only they distinguish the five 409s of a Binding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MODIFIED_MESSAGE = "the object has been modified; please apply your changes to the latest version and try again"
REJECTED_MESSAGE = "the server rejected our request due to an error in our request"


class Named(Protocol):
    """What a refusal mentions of a resource."""

    @property
    def group(self) -> str:
        """Its API group; empty for the core group."""

    @property
    def kind(self) -> str:
        """The kind of its objects."""

    @property
    def plural(self) -> str:
        """Its name in paths."""

    @property
    def qualified(self) -> str:
        """Its plural with the group behind it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One invalid field: the reason word, the message and the path of the field."""

    reason: str
    message: str
    field: str

    @classmethod
    def invalid(cls, field: str, value: object, message: str) -> Cause:
        """Return the cause for a value that breaks a rule."""
        shown = value if isinstance(value, int) and not isinstance(value, bool) else f'"{value}"'
        return cls("FieldValueInvalid", f"Invalid value: {shown}: {message}", field)

    @classmethod
    def required(cls, field: str, message: str = "") -> Cause:
        """Return the cause for a missing value."""
        return cls("FieldValueRequired", f"Required value: {message}" if message else "Required value", field)

    @classmethod
    def forbidden(cls, field: str, message: str) -> Cause:
        """Return the cause for a change that is not allowed."""
        return cls("FieldValueForbidden", f"Forbidden: {message}", field)

    @classmethod
    def unsupported(cls, field: str, value: object, supported: Sequence[str]) -> Cause:
        """Return the cause for a value outside a closed set."""
        words = ", ".join(f'"{word}"' for word in supported)
        return cls("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {words}', field)


class ApiError(Exception):
    """A request that ends in a ``Status`` with ``status: Failure``."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """Return the ``Status`` object."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def success(code: int, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the ``Status`` of a request that has no object to answer with."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        return {**body, "details": details}
    return {**body, "code": code}


def details(resource: Named, name: str, **more: object) -> dict[str, Any]:
    """Return the details that name an object by its resource."""
    named: dict[str, Any] = {"name": name}
    if resource.group:
        named["group"] = resource.group
    return {**named, "kind": resource.plural, **more}


def not_found(resource: Named, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', details(resource, name))


def unknown_path() -> ApiError:
    """404 for a resource that a served group does not have."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Named, name: str) -> ApiError:
    """409 for a name that is taken."""
    return ApiError(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', details(resource, name))


def conflict(resource: Named, name: str, message: str = MODIFIED_MESSAGE, *, subresource: str = "") -> ApiError:
    """409 for a write that lost a race or misses its precondition."""
    kind = f"{resource.plural}/{subresource}" if subresource else resource.plural
    qualified = kind if subresource else resource.qualified
    text = f'Operation cannot be fulfilled on {qualified} "{name}": {message}'
    return ApiError(409, "Conflict", text, {**details(resource, name), "kind": kind})


def forbidden(resource: Named, name: str, message: str, causes: Sequence[Cause] = ()) -> ApiError:
    """403 from an admission plugin."""
    more = {"causes": _causes(causes)} if causes else {}
    text = f'{resource.qualified} "{name}" is forbidden: {message}'
    return ApiError(403, "Forbidden", text, details(resource, name, **more))


def invalid(resource: Named, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 for an object that breaks the rules of its kind."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    named: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        named["group"] = resource.group
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return ApiError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {joined}',
        {**named, "kind": resource.kind, "causes": _causes(causes)},
    )


def invalid_options(kind: str, cause: Cause) -> ApiError:
    """422 for query parameters that contradict each other or have unknown values."""
    text = f'{kind}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    return ApiError(422, "Invalid", text, {"group": "meta.k8s.io", "kind": kind, "causes": _causes([cause])})


def rejected() -> ApiError:
    """422 of a JSON patch that does not apply: the answer never says why."""
    return ApiError(422, "Invalid", REJECTED_MESSAGE, {})


def unreadable_patch(message: str) -> ApiError:
    """422 of a patch whose result is not a valid object of its kind."""
    cause = Cause("FieldValueInvalid", f"Invalid value: {message}", "patch")
    text = f' "" is invalid: patch: {cause.message}'
    return ApiError(422, "Invalid", text, {"causes": _causes([cause])})


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def expired(revision: int, oldest: int) -> ApiError:
    """410 of a watch that starts before the oldest change in the log."""
    return ApiError(410, "Expired", f"too old resource version: {revision} ({oldest})")


def expired_continue() -> ApiError:
    """410 of a continue token whose snapshot was dropped."""
    return ApiError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter.",
    )


def future_revision(revision: int, current: int) -> ApiError:
    """504 of a read at a future revision."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def timed_out() -> ApiError:
    """504 of a request that took longer than its ``timeout`` allows."""
    message = "Timeout: request did not complete within the allotted timeout"
    return ApiError(504, "Timeout", message, {})


def _causes(causes: Sequence[Cause]) -> list[dict[str, str]]:
    return [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
