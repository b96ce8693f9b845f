"""Conversion of Events between ``v1`` (the stored form) and ``events.k8s.io/v1``, which renames half of the fields."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_TO_CORE = {new: core for core, new in _TO_NEW.items()}


def to_new(event: Object) -> Object:
    """Return a stored event as ``events.k8s.io/v1`` shows it."""
    return _renamed(event, _TO_NEW, "events.k8s.io/v1")


def to_core(event: Object) -> Object:
    """Return an ``events.k8s.io/v1`` event in the stored form."""
    return _renamed(event, _TO_CORE, "v1")


def _renamed(event: Object, names: dict[str, str], api_version: str) -> Object:
    head = {"kind": "Event", "apiVersion": api_version}
    return {**head, **{names.get(key, key): value for key, value in event.items() if key not in head}}
