"""What the last events of pods say to users who may see little else."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple
from urllib.parse import quote

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
    about = f"involvedObject.kind=Pod,involvedObject.name={quote(name, safe='')}"
    of_name = [each for each in _events(cluster, namespace, "", about) or () if _name(each) == name]
    uid = _uid(of_name[-1]) if of_name else ""  # of the last pod of that name
    events = [each for each in of_name if _uid(each) == uid and each.get("reason") == EventReason.PREEMPTED]
    if not events:
        return ""
    last, message = events[-1], _message(events[-1])
    told = f"; its event {EventReason.PREEMPTED} says: {cut(message, MESSAGE)}" if message else ""
    return f"no longer exists: it was evicted at {_when(last)} to make room for another pod{told}"


def why_not_created(cluster: ClusterOptions, namespace: str, name: str = "") -> str:
    """Return sentences on the controllers that cannot create its pods, according to its last event; empty for none.

    Parameters
    ----------
    name
        The name that a pod or its controller was asked for with; empty for all controllers of the namespace.
    """
    last = {
        f"{event['involvedObject'].get('kind')} {_name(event)}": _message(event)
        for event in _events(cluster, namespace, _FAILED_CREATE) or ()
        if _is_meant(_name(event), name)
    }
    return " ".join(
        f"{title} cannot create its pods; its event {_FAILED_CREATE} says: {cut(message, MESSAGE)}."
        for title, message in sorted(last.items())[:_MOST_CONTROLLERS]
    )


def followed_by(end: str, told: str) -> str:
    """Return the end of a sentence, which may be a question, with what is told after it, if anything is."""
    return f"{end}{'' if end.endswith('?') else '.'} {told}" if told else end


def _is_meant(controller: str, name: str) -> bool:
    """Tell whether a name is that of a controller, of one that has made it, or of a pod that it would make."""
    return not name or controller == name or controller.startswith(f"{name}-") or name.startswith(f"{controller}-")


def _last_of(
    cluster: ClusterOptions, namespace: str, reason: EventReason, uid: str
) -> dict[str, tuple[str, str]] | None:
    """Return when the last event of a reason was observed about each pod, and its message, by UID."""
    events = _events(cluster, namespace, reason, f"involvedObject.uid={uid}" if uid else "")
    if events is None:
        return None
    return {_uid(event): (_when(event), str(event.get("message") or "")) for event in events}


def _events(cluster: ClusterOptions, namespace: str, reason: str, about: str = "") -> list[Object] | None:
    """Return the events of a reason in a namespace, the last one last; None if they cannot be read.

    Parameters
    ----------
    reason
        The reason; empty for all.
    about
        The field selector of the objects that they are about; empty for all.
    """
    query = ",".join(filter(None, (about, f"reason={reason}" if reason else "")))
    path = collection_path("/api/v1/events", namespace)
    listed = asyncio.run(get_object(cluster, f"{path}?fieldSelector={query}"))
    if isinstance(listed, str):
        return None
    found = (each for each in listed.get("items") or () if reason in {"", each.get("reason")})
    return sorted(found, key=_when)


def _name(event: Object) -> str:
    """Return the name of the object that an event is about."""
    return str((event.get("involvedObject") or {}).get("name") or "")


def _uid(event: Object) -> str:
    """Return the UID of the object that an event is about."""
    return str((event.get("involvedObject") or {}).get("uid") or "")


def _message(event: Object) -> str:
    """Return the message of an event in one line."""
    return " ".join(str(event.get("message") or "").split())


def _when(event: Object) -> str:
    """Return when an event was last observed."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
