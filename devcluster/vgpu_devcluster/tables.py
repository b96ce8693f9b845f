"""Other forms of answers: tables, which ``kubectl get`` prints, and metadata only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import jsonpath, status
from .ages import age
from .printers import DEFAULT, PRINTERS
from .store import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from .resources import Resource

Object = dict[str, Any]

_GROUP = "meta.k8s.io"
_VERSION = f"{_GROUP}/v1"
_TABLE, _METADATA = "Table", "PartialObjectMetadata"
_FORMS = {_TABLE: _TABLE, _METADATA: _METADATA, f"{_METADATA}List": _METADATA}
_AGE = ".metadata.creationTimestamp"


class Form:
    """The form of an answer.

    Parameters
    ----------
    accept
        The ``Accept`` header: the first media type in it that is served counts.
    include
        The part of the object in a table row: ``None``, ``Metadata`` or ``Object``.

    Raises
    ------
    ApiError
        406 if none of the accepted forms is served.
    """

    def __init__(self, accept: str, include: str = "") -> None:
        self._kind = _form(accept)
        self._include = include or "Metadata"

    @property
    def plain(self) -> bool:
        """Whether objects are answered unchanged."""
        return not self._kind

    def answer(self, resource: Resource, body: bytes) -> bytes:
        """Return an object or a list in this form."""
        obj = decode(body)
        listed = "items" in obj and obj.get("kind") == f"{resource.kind}List"
        if self._kind == _TABLE:
            return encode(self._table(resource, obj, obj["items"] if listed else [obj]))
        if not listed:
            return encode(_metadata(obj))
        items = [_metadata(item) for item in obj["items"]]
        return encode({**_head(f"{_METADATA}List"), "metadata": obj["metadata"], "items": items})

    def events(self, resource: Resource) -> Callable[[bytes], bytes]:
        """Return a function that converts the lines of a watch to this form; only the first line has the columns."""
        named = False

        def line(raw: bytes) -> bytes:
            nonlocal named
            event = decode(raw)
            if event["type"] == "ERROR":
                return raw + b"\n"
            obj = event["object"]
            if self._kind == _TABLE:
                event["object"] = self._table(resource, obj, [obj])
                if named:
                    event["object"]["columnDefinitions"] = None
                named = True
            else:
                event["object"] = _metadata(obj)
            return encode(event) + b"\n"

        return lambda data: b"".join(line(raw) for raw in data.splitlines())

    def _table(self, resource: Resource, obj: Object, items: list[Object]) -> Object:
        columns, cells = _columns(resource)
        kept = ("resourceVersion", "continue", "remainingItemCount")
        metadata = {key: obj["metadata"][key] for key in kept if key in obj["metadata"]}
        rows = [{"cells": cells(item), "object": self._object(resource, item)} for item in items]
        return {**_head(_TABLE), "metadata": metadata, "columnDefinitions": columns, "rows": rows}

    def _object(self, resource: Resource, item: Object) -> Object | None:
        if self._include == "None":
            return None
        if self._include == "Object":
            return {"kind": resource.kind, "apiVersion": resource.api_version, **item}
        return _metadata(item)


def _head(kind: str) -> Object:
    return {"kind": kind, "apiVersion": _VERSION}


def _metadata(obj: Object) -> Object:
    return {**_head(_METADATA), "metadata": obj["metadata"]}


def _form(accept: str) -> str:
    """Return the kind of the first media type that is served; empty for unchanged objects."""
    asked = False
    for one in accept.split(","):
        _, *parameters = (part.strip() for part in one.split(";"))
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        if "as" not in values:
            return ""
        asked = True
        if values["as"] in _FORMS and values.get("g") == _GROUP and values.get("v") == "v1":
            return _FORMS[values["as"]]
    if not asked:
        return ""
    message = "only the following media types are accepted: application/json, application/yaml"
    raise status.ApiError(406, "NotAcceptable", message)


# ---------------------------------------------------------------------------------------------------- columns


def _columns(resource: Resource) -> tuple[list[Object], Callable[[Object], list[Any]]]:
    """Return the columns of a kind, and the function that makes the cells of a row."""
    if resource.schema is not None:
        return _custom(resource.columns or ({"name": "Age", "type": "date", "jsonPath": _AGE},))
    text, cells = PRINTERS.get(resource.storage, DEFAULT)
    columns = [_column(word) for word in text.split(",")]
    if resource.outbound is None:
        return columns, cells
    inbound = resource.inbound or (lambda obj: obj)
    return columns, lambda obj: cells(inbound(obj))


def _column(word: str) -> Object:
    name, kind, form = (*word.removesuffix("+").split(":"), "", "")[:3]
    form = "name" if name == "Name" else form
    return _definition(name, kind or "string", form=form, priority=int(word.endswith("+")))


def _definition(name: str, kind: str, *, form: str = "", priority: int = 0, description: str = "") -> Object:
    return {"name": name, "type": kind, "format": form, "description": description, "priority": priority}


def _custom(printed: tuple[Object, ...]) -> tuple[list[Object], Callable[[Object], list[Any]]]:
    columns = [_definition("Name", "string", form="name")]
    columns += [
        _definition(
            one["name"],
            one["type"],
            form=one.get("format", ""),
            priority=one.get("priority", 0),
            description=one.get("description", ""),
        )
        for one in printed
    ]

    def cells(obj: Object) -> list[Any]:
        return [obj["metadata"].get("name"), *(_cell(one, obj) for one in printed)]

    return columns, cells


def _cell(column: Object, obj: Object) -> Any:
    found = jsonpath.find(column["jsonPath"], obj)
    if not found or found[0] is None:
        return None
    value = found[0]
    if column["type"] == "date":
        return age(value)
    if column["type"] == "string":
        return value if isinstance(value, str) else encode(value).decode()
    return value
