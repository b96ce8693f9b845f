"""The requests that a bind consists of, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from vgpu_scheduler.apiclient import collection_path
from vgpu_scheduler.binding.reports import Event, Occurrences
from vgpu_scheduler.kube import API_RESOURCES, Pod, rfc3339
from vgpu_scheduler.model import LAST_ALLOCATED, Decision, cut
from vgpu_scheduler.policy import shown_sources

_ANNOTATIONS = "/metadata/annotations"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_WRITTEN_ALIKE = 1e15
"""Below this, msgspec writes numbers as the standard library does, thirty times as fast."""
_RECORD = json.JSONEncoder(separators=(",", ":"), sort_keys=True)
NOTE_LIMIT = 1024
"""Bytes of an event's note: API servers refuse longer ones."""
CONDITION_LIMIT = 32 * 1024
"""Bytes of a condition's message: the limit of Kubernetes."""


def pointer(key: str) -> str:
    """Return the JSON pointer of an annotation."""
    return f"{_ANNOTATIONS}/{key.replace('~', '~0').replace('/', '~1')}"


@dataclass(frozen=True, slots=True)
class LockChange:
    """Takes a node lock.

    Attributes
    ----------
    annotation, value
        The lock's annotation and its new value.
    held
        The value to replace; None if there must be none.
    """

    annotation: str
    value: str
    held: str | None


@dataclass(frozen=True, slots=True)
class TokenPatch:
    """Claims a node's cards for a pod, takes the lock if it needs one, and proves that no allocation was missed.

    The token names the pod that was last allocated on the node. The same patch tests it, which fences the cards: a
    second leader that does not know of an allocation expects another token, and its patch fails.

    Attributes
    ----------
    expected
        The token that has to be there; None if there must be none.
    token
        The token to write.
    lock
        The lock to take, or None.
    has_annotations
        Whether the node has an annotations map at all.
    """

    expected: str | None
    token: str
    lock: LockChange | None
    has_annotations: bool = True

    def operations(self) -> list[dict[str, Any]]:
        """Return the JSON patch."""
        expected = {LAST_ALLOCATED: self.expected}
        written = {LAST_ALLOCATED: self.token}
        if self.lock is not None:
            expected = {self.lock.annotation: self.lock.held, **expected}
            written = {self.lock.annotation: self.lock.value, **written}
        if not self.has_annotations:
            return [
                {"op": "test", "path": _ANNOTATIONS, "value": None},
                {"op": "add", "path": _ANNOTATIONS, "value": written},
            ]
        return [
            *({"op": "test", "path": pointer(key), "value": value} for key, value in expected.items()),
            *({"op": "add", "path": pointer(key), "value": value} for key, value in written.items()),
        ]


def release_operations(lock: str, value: str) -> list[dict[str, Any]]:
    """Return the JSON patch that removes the lock if it still has this value."""
    return [
        {"op": "test", "path": pointer(lock), "value": value},
        {"op": "remove", "path": pointer(lock)},
    ]


def binding_body(pod: Pod, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the Binding: node, annotations and labels in one write, valid only for the known version of the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": str(pod.resource_version),
            "annotations": dict(annotations),
            "labels": {key: value for key, value in labels.items() if _LABEL_VALUE.fullmatch(value)},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def decision_record(decision: Decision) -> str:
    """Return the short record of a decision that the Binding writes to an annotation of the pod.

    It has the score of the chosen node in total and by scorer, the number of nodes, and the source of each section of
    the policy.
    """
    parts = decision.scores.get(decision.node, ())
    scores = {
        part.scorer: {"raw": round(part.raw, 4), "normalised": round(part.normalised, 4), "weight": part.weight}
        for part in parts
    }
    record = {
        "score": round(decision.score, 4),
        "scores": scores,
        "nodes": decision.nodes,
        "policy": shown_sources(decision.sources),
    }
    largest = max(map(abs, (decision.score, *(number for part in parts for number in (part.raw, part.normalised)))))
    with suppress(TypeError, ValueError):
        text = msgspec.json.encode(record, order="sorted").decode()
        if largest < _WRITTEN_ALIKE and text.isascii():
            return text
    return _RECORD.encode(record)


def condition(
    kind: str, status: str, reason: str, message: str, since: str | None, generation: int = 0
) -> dict[str, Any]:
    """Return a condition of an object.

    Parameters
    ----------
    since
        When the condition got its status; None keeps the time in the object.
    generation
        The generation of the object that the condition is about; 0 if objects have none.
    """
    found: dict[str, Any] = {"type": kind, "status": status, "reason": reason, "message": message}
    if since is not None:
        found["lastTransitionTime"] = since
    if generation:
        found["observedGeneration"] = generation
    return found


def not_scheduled_condition(reason: str, message: str, changed: datetime | None, generation: int = 0) -> dict[str, Any]:
    """Return the condition, for a strategic merge patch, that says why a pod is not scheduled.

    Parameters
    ----------
    changed
        When the condition became false; None if it was false already, so that the patch keeps that time.
    generation
        The pod's generation that the condition is about; 0 for API servers without this field.
    """
    since = None if changed is None else rfc3339(changed)
    found = condition("PodScheduled", "False", reason, message, since, generation)
    return {**found, "lastProbeTime": None}


@dataclass(frozen=True, slots=True)
class EventSource:
    """The source of events.

    Attributes
    ----------
    runbook
        The address of the page with a section for each reason; empty for none.
    """

    controller: str
    instance: str
    runbook: str = ""


def event_path(told: Occurrences) -> tuple[str, str]:
    """Return the path of an event's collection, and its name, which all its repetitions share."""
    about = told.event.about
    stamp = f"{int(told.first.timestamp() * 1_000_000):x}"
    path = collection_path(API_RESOURCES["Event"].path, about.namespace or "default")
    return path, f"{about.name[:230]}.{stamp}"


def event_body(source: EventSource, told: Occurrences) -> dict[str, Any]:
    """Return an ``events.k8s.io/v1`` Event."""
    event, about = told.event, told.event.about
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": event_path(told)[1], "namespace": about.namespace or "default"},
        "eventTime": rfc3339(told.first, micro=True),
        "reportingController": source.controller,
        "reportingInstance": source.instance,
        "action": event.action,
        "reason": event.reason,
        "regarding": {
            "apiVersion": "v1",
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "note": _note(source, event),
        "type": event.type,
        **(series_patch(told) if told.count > 1 else {}),
    }


def _note(source: EventSource, event: Event) -> str:
    """Return the note of an event, with a link to the runbook if the length limit leaves room for it."""
    note = cut(event.note, NOTE_LIMIT)
    if event.type != "Warning" or not source.runbook:
        return note
    told = f"{note} (see {source.runbook}#{event.reason.lower()})"
    return told if cut(told, NOTE_LIMIT) == told else note


def series_patch(told: Occurrences) -> dict[str, Any]:
    """Return the merge patch that makes an event a series, or updates the count of one."""
    return {"series": {"count": told.count, "lastObservedTime": rfc3339(told.last, micro=True)}}
