"""Rules for metadata: names, labels, annotations and finalizers, in the API server's words.

They run on every write, so an object poisoned by a Binding (which bypasses them) refuses every later patch, as on a
real API server. Not checked: owner references, the syntax of finalizers, and field types, except that labels and
annotations map strings to strings.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .status import Cause

Metadata = dict[str, Any]

MAX_ANNOTATIONS = 256 * 1024  # bytes, keys and values together
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def untyped_metadata(metadata: Metadata) -> str:
    """Return why the metadata cannot be decoded; empty if it can."""
    for section in ("labels", "annotations"):
        entries = metadata.get(section)
        if entries is None:
            continue
        if not isinstance(entries, dict):
            return f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{section}"
        if not all(isinstance(value, str) for value in entries.values()):
            return f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{section} of type string"
    return ""


def metadata_causes(metadata: Metadata, old: Metadata | None, *, dns_label: bool = False) -> list[Cause]:
    """Return what is wrong with an object's metadata."""
    causes = list(_name_causes(metadata.get("name", ""), dns_label=dns_label)) if old is None else []
    for key, value in (metadata.get("labels") or {}).items():
        if message := key_error(key):
            causes.append(Cause.invalid("metadata.labels", key, message))
        if message := label_value_error(value):
            causes.append(Cause.invalid("metadata.labels", value, message))
    annotations = metadata.get("annotations") or {}
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        if message := key_error(key.lower()):
            causes.append(Cause.invalid("metadata.annotations", key, message))
    if size > MAX_ANNOTATIONS:
        message = f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        causes.append(Cause("FieldValueTooLong", message, "metadata.annotations"))
    if old is not None:
        causes += _change_causes(metadata, old)
    return causes


def _name_causes(name: str, *, dns_label: bool) -> list[Cause]:
    if not name:
        return [Cause.required("metadata.name", "name or generateName is required")]
    pattern, text, limit = (_LABEL, LABEL_TEXT, 63) if dns_label else (_SUBDOMAIN, _SUBDOMAIN_TEXT, 253)
    causes = []
    if len(name) > limit:
        causes.append(Cause.invalid("metadata.name", name, f"must be no more than {limit} bytes"))
    if not pattern.fullmatch(name):
        causes.append(Cause.invalid("metadata.name", name, text))
    return causes


def _change_causes(metadata: Metadata, old: Metadata) -> list[Cause]:
    causes = []
    if metadata.get("uid", old["uid"]) != old["uid"]:
        causes.append(Cause.invalid("metadata.uid", metadata["uid"], "field is immutable"))
    added = [name for name in metadata.get("finalizers") or () if name not in (old.get("finalizers") or ())]
    if added and old.get("deletionTimestamp"):
        names = ", ".join(f'"{name}"' for name in added)
        message = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{names}}}"
        )
        causes.append(Cause.forbidden("metadata.finalizers", message))
    return causes


@lru_cache(maxsize=4096)
def key_error(key: str) -> str:
    """Return what is wrong with a label or annotation key; empty if nothing is."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return (
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
            "an alphanumeric character with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return f"prefix part {_SUBDOMAIN_TEXT}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _NAME.fullmatch(name) else _NAME_TEXT


@lru_cache(maxsize=4096)
def label_value_error(value: str) -> str:
    """Return what is wrong with a label value; empty if nothing is."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return "" if not value or _NAME.fullmatch(value) else _VALUE_TEXT


def is_label(text: str) -> bool:
    """Tell whether ``text`` is a DNS label, as container names must be."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None
