"""What the last events of pods say to users who may see little else."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from vgpu_scheduler.apiclient import collection_path
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import MESSAGE, EventReason, cut
from vgpu_scheduler.reading import ClusterOptions, get_object

_FAILED_CREATE: Final = "FailedCreate"
"""The reason of events of controllers whose pods the API server refuses."""
_MOST_CONTROLLERS: Final = 5


class PodEvents(NamedTuple):
    """What the last events of a pod say.

    Attributes
    ----------
    failed
        The message of its last FailedScheduling event; empty if there is none.
    turn
        The message of its last WaitingForNode event; empty unless that is the later of the two.
    """

    failed: str = ""
    turn: str = ""


def last_events(cluster: ClusterOptions, namespace: str, uid: str = "") -> dict[str, PodEvents] | None:
    """Return what the last events of each pod say, by UID; None if they cannot be read.

    Parameters
    ----------
    uid
        The UID of the only pod whose events to read; empty for all.
    """
    failed = _last_of(cluster, namespace, EventReason.FAILED_SCHEDULING, uid)
    turns = _last_of(cluster, namespace, EventReason.WAITING_FOR_NODE, uid)
    if failed is None or turns is None:
        return None
    return {
        each: PodEvents(refusal, turn if since > refused else "")
        for each in failed.keys() | turns.keys()
        for (refused, refusal), (since, turn) in [(failed.get(each, ("", "")), turns.get(each, ("", "")))]
    }


def why_gone(cluster: ClusterOptions, key: str) -> str:
    """Return a clause that a missing pod was evicted for another one, according to its events; empty if none says so.

    Parameters
    ----------
    key
        ``namespace/name`` of the pod.
    """
    namespace, _, name = key.partition("/")
    query = f"involvedObject.kind=Pod,involvedObject.name={name},reason={EventReason.PREEMPTED}"
    path = collection_path("/api/v1/events", namespace)
    listed = asyncio.run(get_object(cluster, f"{path}?fieldSelector={query}"))
    if isinstance(listed, str):
        return ""
    events = [event for event in listed.get("items") or () if event.get("reason") == EventReason.PREEMPTED]
    about = [event for event in events if (event.get("involvedObject") or {}).get("name") == name]
    if not about:
        return ""
    last = max(about, key=_when)
    message = " ".join(str(last.get("message") or "").split())
    told = f"; its event {EventReason.PREEMPTED} says: {cut(message, MESSAGE)}" if message else ""
    return f"no longer exists: it was evicted at {_when(last)} to make room for another pod{told}"


def why_not_created(cluster: ClusterOptions, namespace: str, name: str = "") -> str:
    """Return sentences on the controllers that cannot create its pods, according to its last event; empty for none.

    Parameters
    ----------
    name
        The name that a pod or its controller was asked for with; empty for all controllers of the namespace.
    """
    path = collection_path("/api/v1/events", namespace)
    listed = asyncio.run(get_object(cluster, f"{path}?fieldSelector=reason={_FAILED_CREATE}"))
    if isinstance(listed, str):
        return ""
    last: dict[str, str] = {}
    for event in sorted(
        (each for each in listed.get("items") or () if each.get("reason") == _FAILED_CREATE), key=_when
    ):
        about = event.get("involvedObject") or {}
        if about.get("namespace", namespace) == namespace and _is_meant(str(about.get("name") or ""), name):
            last[f"{about.get('kind')} {about.get('name')}"] = " ".join(str(event.get("message") or "").split())
    return " ".join(
        f"{title} cannot create its pods; its event {_FAILED_CREATE} says: {cut(message, MESSAGE)}."
        for title, message in sorted(last.items())[:_MOST_CONTROLLERS]
    )


def _is_meant(controller: str, name: str) -> bool:
    """Tell whether a name is that of a controller, of one that has made it, or of a pod that it would make."""
    return not name or controller == name or controller.startswith(f"{name}-") or name.startswith(f"{controller}-")


def _last_of(
    cluster: ClusterOptions, namespace: str, reason: EventReason, uid: str
) -> dict[str, tuple[str, str]] | None:
    """Return when the last event of a reason was observed about each pod, and its message, by UID."""
    query = f"reason={reason}"
    query = f"involvedObject.uid={uid},{query}" if uid else query
    path = collection_path("/api/v1/events", namespace)
    listed = asyncio.run(get_object(cluster, f"{path}?fieldSelector={query}"))
    if isinstance(listed, str):
        return None
    events = sorted((each for each in listed.get("items") or () if each.get("reason") == reason), key=_when)
    about = ((event.get("involvedObject") or {}).get("uid", "") for event in events)
    return {each: (_when(event), str(event.get("message") or "")) for each, event in zip(about, events, strict=True)}


def _when(event: Object) -> str:
    """Return when an event was last observed."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
