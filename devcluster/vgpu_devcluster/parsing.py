"""Parses requests: parameters, body, and target."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec
import yaml

from . import patches, protobuf, status
from .registry import DeleteOptions, WriteOptions
from .selectors import Selector, parse_fields, parse_labels
from .store import Object, decode

if TYPE_CHECKING:
    from .objects import Target

_VALIDATIONS = ("Ignore", "Strict", "Warn")
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


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

    def write_options(self, verb: str, user_agent: str) -> WriteOptions:
        """Return the options of a write; the field manager comes from the parameters or the user agent."""
        kind = _OPTIONS.get(verb)
        if kind is None:
            return WriteOptions()
        validation = self.text("fieldValidation") or "Warn"
        if validation not in _VALIDATIONS:
            cause = status.Cause.unsupported("fieldValidation", validation, ["", *_VALIDATIONS])
            raise status.invalid_options(kind, cause)
        manager = self.text("fieldManager") or user_agent.partition("/")[0] or "unknown"
        return WriteOptions(self.dry_run(kind), manager, self.flag("force"), validation)

    def dry_run(self, kind: str) -> bool:
        """Tell whether nothing is to be stored."""
        value = self.text("dryRun")
        if value in {"", "All"}:
            return value == "All"
        cause = status.Cause.unsupported("dryRun", value, ["All"])
        raise status.invalid_options(kind, cause)


def selector(target: Target, query: Query) -> Selector:
    """Return the selector of a list, watch or deletion."""
    labels, fields = query.text("labelSelector"), query.text("fieldSelector")
    return Selector(target.namespace, parse_labels(labels), parse_fields(target.resource, fields))


def by_name(target: Target) -> tuple[Any, ...]:
    """Return the selector terms for the object in the path."""
    return parse_fields(target.resource, f"metadata.name={target.name}")


def revision(query: Query) -> int:
    """Return the revision of a read; 0 if it names none."""
    text = query.text("resourceVersion")
    if not text:
        return 0
    if not text.isdecimal():
        invalid = status.Cause.invalid("resourceVersion", text, f'strconv.ParseUint: parsing "{text}": invalid syntax')
        raise status.bad_request(f"invalid resource version: resourceVersion: {invalid.message}")
    return int(text)


def match_rule(query: Query) -> None:
    """Refuse a list with an invalid ``resourceVersionMatch``."""
    rule = query.text("resourceVersionMatch")
    if not rule:
        return
    if rule not in {"Exact", "NotOlderThan"}:
        cause = status.Cause.unsupported("resourceVersionMatch", rule, ["Exact", "NotOlderThan", ""])
        raise status.invalid_options("ListOptions", cause)
    if not query.text("resourceVersion"):
        message = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise status.invalid_options("ListOptions", status.Cause.forbidden("resourceVersionMatch", message))


def object_body(data: bytes, content_type: str, target: Target) -> Object:
    """Decode the object of a write."""
    if content_type == protobuf.MEDIA_TYPE:
        return _from_protobuf(data)
    try:
        parsed = yaml.safe_load(data) if content_type == "application/yaml" else decode(data)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        kind = target.resource.kind
        text = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {error}"
        raise status.bad_request(text) from error
    if not isinstance(parsed, dict):
        raise status.bad_request("the object provided is unrecognized: it is not an object")
    return parsed


def _from_protobuf(data: bytes) -> Object:
    try:
        return protobuf.decode(data)
    except protobuf.MalformedError as error:
        raise status.ApiError(415, "UnsupportedMediaType", f"protobuf: {error}", {}) from error


def patch_body(target: Target, content_type: str, data: bytes) -> patches.Json:
    """Decode a patch."""
    kinds = {patches.MERGE: dict, patches.JSON: list, patches.STRATEGIC: dict}
    if content_type not in kinds or (content_type == patches.STRATEGIC and target.resource.merge_keys is None):
        raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        parsed = decode(data)
    except msgspec.DecodeError as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    if not isinstance(parsed, kinds[content_type]):
        raise status.bad_request("error decoding patch: json: cannot unmarshal into Go value")
    return parsed


def delete_options(query: Query, content_type: str, data: bytes) -> DeleteOptions:
    """Return the options of a deletion, from its body or its parameters."""
    try:
        binary = data and content_type == protobuf.MEDIA_TYPE
        parsed = _from_protobuf(data) if binary else decode(data) if data else {}
        options = DeleteOptions.parse(parsed)
    except (msgspec.DecodeError, AttributeError, TypeError, ValueError) as error:
        raise status.bad_request(f"the object provided is not DeleteOptions: {error}") from error
    grace = query.text("gracePeriodSeconds")
    dry_run = options.dry_run or query.dry_run("DeleteOptions")
    if grace and options.grace is None:
        return DeleteOptions(query.number("gracePeriodSeconds"), options.uid, options.revision, dry_run)
    return DeleteOptions(options.grace, options.uid, options.revision, dry_run)
