"""Explains a pod to those who may see it and no nodes: from its condition, its event and its annotations."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from vgpu_scheduler.apiclient import collection_path, pod_path
from vgpu_scheduler.cli.cluster.messages import fail, print_pod_warnings
from vgpu_scheduler.cli.cluster.world import open_namespace
from vgpu_scheduler.engine import QuotaReport, quotas_from_event, used_by
from vgpu_scheduler.engine.group_attempts import other_member_in
from vgpu_scheduler.kube import LabelSelector, Object, Pod
from vgpu_scheduler.model import CardReason, EventReason, closest
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND
from vgpu_scheduler.predicates import is_about_claims
from vgpu_scheduler.predicates.reasons import UNBOUND_IMMEDIATE
from vgpu_scheduler.reading import (
    NAMESPACED_KINDS,
    ClusterOptions,
    MissingRightsError,
    describe_decision,
    describe_place,
    describe_terminating,
    get_object,
    is_ours,
    left_to_whom,
    named_anew,
    record_of,
    why_no_more,
)
from vgpu_scheduler.whatif import (
    ConditionRemedies,
    NamespaceObjects,
    World,
    WorldError,
    counted_for_quotas,
    held_cards,
    left_to_cards,
    policy_remedies,
    quotas_in_the_way,
    quotas_of,
    remedies_from_condition,
)
from vgpu_scheduler.whatif.advice.remedy import Advice, do
from vgpu_scheduler.whatif.conditions.earlier_pods import NOBODY_EARLIER, earlier_pods_of
from vgpu_scheduler.whatif.conditions.group_quotas import OtherMembers, other_members_of
from vgpu_scheduler.whatif.conditions.quotas import QuotaStatus
from vgpu_scheduler.whatif.conditions.remedies import OtherRemedies
from vgpu_scheduler.whatif.reasons.groups import group_remedies, group_remedies_from_condition

__all__ = ["PodExplanation", "did_you_mean_pod", "explain_from_condition", "pod_alone", "pods_alone"]


_WAITS: Final = 1
_ENDED: Final = ("Succeeded", "Failed")
_RUNBOOK: Final = "the runbook of vgpu-scheduler (the setting runbook_url has its address printed here)"
_READ: Final = NAMESPACED_KINDS | {CLUSTER_KIND, "Namespace", "StorageClass"}
"""What may say something about a pod beside itself: other pods hold what counts for a quota."""
_TELLING: Final = ("Pod", "ResourceQuota", "PersistentVolumeClaim", NAMESPACED_KIND)
"""What of a namespace would say more of a pod."""
_COUNTED: Final = ("Pod", "ResourceQuota")


class PodExplanation(NamedTuple):
    """What is said of one pod: as plain values, in lines, and as the status of the command."""

    plain: Mapping[str, Any]
    lines: Sequence[str]
    status: int


class _Found(NamedTuple):
    """A pod that waits in a world, what is told of it, and the rights in its namespace with which more would be."""

    world: World
    pod: Pod
    advised: ConditionRemedies
    rights: tuple[str, ...]


class _Reading(NamedTuple):
    """What was read of a namespace, and whether that is all that counts for its quotas."""

    world: World
    seen: NamespaceObjects
    were_read: bool
    error: MissingRightsError


def pod_alone(cluster: ClusterOptions, key: str, error: MissingRightsError) -> Object:
    """Return a pod as it is written, for those who may see no more; ends the command where it cannot be seen."""
    namespace, _, name = key.partition("/")
    found = asyncio.run(get_object(cluster, pod_path(namespace, name)))
    if isinstance(found, str):
        listed = asyncio.run(get_object(cluster, collection_path("/api/v1/pods", namespace)))
        names = () if isinstance(listed, str) else [str(each["metadata"]["name"]) for each in listed.get("items") or ()]
        meant = did_you_mean_pod(key, [f"{namespace}/{each}" for each in names if each != name])
        fail(f"{error}, and the pod itself cannot be seen: {found}{meant}")
    return found


def did_you_mean_pod(key: str, others: Collection[str]) -> str:
    """Return the end of a sentence that suggests one of some pods; empty where none is like the one that was named.

    One of the same name in another namespace comes first, then one that is like it in the same namespace.

    Parameters
    ----------
    key, others
        The one that there is not, and those that there are, by ``namespace/name``.
    """
    namespace, _, name = key.partition("/")
    by_name: dict[str, list[str]] = {}
    for other in others:
        by_name.setdefault(other.partition("/")[2], []).append(other)
    beside = [each for each, keys in by_name.items() if f"{namespace}/{each}" in keys]
    meant = name if name in by_name else closest(name, beside) or closest(name, by_name)
    if not meant:
        return ""
    own = f"{namespace}/{meant}"
    return f", did you mean {own if own in by_name[meant] else closest(key, by_name[meant], 0.0)}?"


def pods_alone(
    cluster: ClusterOptions, namespace: str, labels: LabelSelector, error: MissingRightsError
) -> list[Object]:
    """Return the pods of a namespace that wait or run and have some labels, by name; see :func:`pod_alone`."""
    found = asyncio.run(get_object(cluster, collection_path("/api/v1/pods", namespace)))
    if isinstance(found, str):
        fail(f"{error}, and the pods of namespace {namespace} cannot be seen: {found}")
    listed = sorted(found.get("items") or (), key=lambda each: str(each["metadata"]["name"]))
    return [
        each
        for each in listed
        if labels.matches(each["metadata"].get("labels") or {})
        and (each.get("status") or {}).get("phase") not in _ENDED
        and ((each.get("spec") or {}).get("nodeName") or not each["metadata"].get("deletionTimestamp"))
    ]


def explain_from_condition(cluster: ClusterOptions, found: Object, error: MissingRightsError) -> PodExplanation:
    """Say what a pod says itself, and what follows from that, for those who may see no more."""
    metadata = found["metadata"]
    namespace, name = str(metadata.get("namespace", "default")), str(metadata["name"])
    key = f"{namespace}/{name}"
    if why := why_no_more(World(error.scheduler.options).pod(found)):
        fail(f"pod {key} {why}")
    if placed := _bound(key, found, error):
        return placed
    condition = scheduled_condition(found)
    world, pod, advised, rights = _read(cluster, namespace, found, condition, error)
    missing = f"{error}, {', '.join(rights)} in namespace {namespace}" if rights else str(error)
    print_pod_warnings(world, [pod])
    said = {"near_miss": str(advised.near_miss or ""), "quotas": [str(each) for each in advised.quotas]}
    answer = {"pod": key, "node": "", "condition": condition, **said, "remedies": list(advised.remedies)}
    answer |= {"nominatedNode": pod.nominated_node_name} if pod.nominated_node_name else {}
    scheduler = {"named": pod.scheduler_name, "ours": is_ours(pod.scheduler_name, error.scheduler.settings)}
    plain = {**answer, "scheduler": scheduler, "missing": missing}
    lines = [*_waiting(key, pod, condition, advised, error), "", f"More cannot be said: {missing}."]
    return PodExplanation(plain, lines, _WAITS)


def _read(
    cluster: ClusterOptions, namespace: str, found: Object, condition: Object, error: MissingRightsError
) -> _Found:
    """Return the pod, and what it, its events and the objects of its namespace say."""
    event, message = _last_event(cluster, namespace, found), str(condition.get("message", ""))
    rights = ["list events"] if event is None else []
    were_read = False
    try:
        world, view = open_namespace(cluster, namespace, (), _READ)
    except WorldError:  # an object of the namespace that cannot be understood is no reason to say nothing
        world, seen = World(error.scheduler.options), NamespaceObjects()
    else:
        seen = NamespaceObjects.among(view.objects, view.missing)
        were_read = all(map(view.has_read, _COUNTED))
        missing = (each for kind, each in sorted(view.missing.items()) if kind in _TELLING)
        rights += [each.right for each in missing if each.is_forbidden]
    pod = world.pod(found)
    anew = named_anew(pod.scheduler_name, error.scheduler.settings)
    of_group = list(group_remedies(world, pod)) or list(group_remedies_from_condition(message))
    reading = _Reading(world, seen, were_read, error)
    first = [*map(do, [*([anew] if anew else []), *of_group]), *_of_other_member(cluster, reading, condition)]
    advised = _remedies(reading, found, message, event or "", str(condition.get("reason", "")), first)
    return _Found(world, pod, advised, tuple(rights))


def _of_other_member(cluster: ClusterOptions, reading: _Reading, condition: Object) -> Iterator[Advice]:
    """Yield what may help another pod of the group of a pod, of which its condition says that it keeps it waiting."""
    key, message = other_member_in(str(condition.get("message", ""))) or ("", "")
    for other in (each for each in reading.world.pending.values() if each.key == key):
        found = reading.world.written(other)
        event = _last_event(cluster, other.namespace, found) or ""
        advised = _remedies(reading, found, message, event, str(condition.get("reason", "")))
        for first, *others in advised.advice:
            what = f"for pod {key}, which is placed together with this one: {first.what}"
            yield (replace(first, what=what), *others)


def _remedies(
    reading: _Reading, found: Object, message: str, event: str, reason: str, first: Sequence[Advice] = ()
) -> ConditionRemedies:
    """Return what a pod says by its condition and its event, and what may help it, after what is said first."""
    world, settings = reading.world, reading.error.scheduler.settings
    pod = world.pod(found)
    others = not named_anew(pod.scheduler_name, settings) and not is_ours(pod.scheduler_name, settings)
    ours = reading.were_read and not others  # our quotas do not hold the pods of others
    other_members = other_members_of(world, pod) if ours else None
    counts = reading.were_read and bool(world.engine.dialects.owners(pod))  # else nobody knows which quotas count
    reports = (_quota_reports(world, pod, message, other_members) if counts and ours else ()) or None
    if reports is None and counts and _has_other_limits(world, pod, event):
        reports = ()
    last = list(policy_remedies(world, pod, message, reading.seen))
    may_be_claims = not message or UNBOUND_IMMEDIATE.text in message or is_about_claims(message)
    of_claims = list(map(do, reading.seen.claim_problems(found, [pod.uid]))) if may_be_claims else []
    earlier = earlier_pods_of(world, pod) if counts and ours else NOBODY_EARLIER
    limits = quotas_of(world, pod.namespace) if counts and ours else ()
    known = QuotaStatus(reports, other_members, earlier, limits)
    return remedies_from_condition(world, pod, message, event, known, OtherRemedies(first, last, of_claims), reason)


def _has_other_limits(world: World, pod: Pod, event: str) -> bool:
    """Tell whether the quotas of the namespace of a pod have been changed since its event told of them."""
    now = {report.resource: report.limit for report in quotas_of(world, pod.namespace)}
    return any(now.get(report.resource) != report.limit for report in quotas_from_event(event))


def _quota_reports(world: World, pod: Pod, message: str, other_members: OtherMembers | None) -> tuple[QuotaReport, ...]:
    """Return how the namespace of a pod stands, where its quotas keep the pod waiting.

    Of a pod whose amounts depend on the card its condition tells whether they do.
    """
    if found := quotas_in_the_way(world, pod, other_members=other_members):
        return found
    reports, asked = quotas_of(world, pod.namespace), counted_for_quotas(world, pod)
    is_of_quota = CardReason.ResourceQuotaNotFit.text in message
    depends = bool(left_to_cards(world, pod)) or any(report.resource not in asked for report in reports)
    return reports if is_of_quota and depends else ()


def _bound(key: str, found: Object, error: MissingRightsError) -> PodExplanation | None:
    """Say where a pod is that is bound, or as good as bound by another scheduler; None of one that waits."""
    world = World(error.scheduler.options)
    read = world.pod(found)
    pod = msgspec.structs.replace(read, node_name=world.home_of(read))
    if not pod.node_name:
        return None
    is_announced = not read.node_name
    said: dict[str, Any] = {"announcedBy": pod.scheduler_name} if is_announced else {}
    record = {} if is_announced else record_of(pod.annotations)
    held, lines = held_cards(world, pod), describe_decision(pod, is_announced=is_announced)
    if disruption := _disruption(found):
        said |= {"disruption": disruption}
        lines = [*lines, f"It is going: its condition DisruptionTarget says {disruption}."]
    elif ending := describe_terminating(pod):
        said |= {"deleting": True}
        lines = [*lines, ending]
    where = describe_place(pod, is_announced=is_announced)
    text = [where, *(f"  {line}" for line in (*held, *lines)), "", f"More cannot be said: {error}."]
    plain = {"pod": key, "node": pod.node_name, "held": held, "decided": record, **said, "missing": str(error)}
    return PodExplanation(plain, text, _WAITS if is_announced else 0)


def _disruption(found: Object) -> str:
    """Return why a pod is ended; empty where nobody ends it."""
    if not found["metadata"].get("deletionTimestamp"):
        return ""
    conditions = (found.get("status") or {}).get("conditions") or ()
    disruption: Object = next((each for each in conditions if each.get("type") == "DisruptionTarget"), {})
    return ": ".join(filter(None, (str(disruption.get("reason") or ""), str(disruption.get("message") or ""))))


def _waiting(
    key: str, pod: Pod, condition: Object, advised: ConditionRemedies, error: MissingRightsError
) -> Iterator[str]:
    """Yield the lines about a pod that waits."""
    settings = error.scheduler.settings
    yield f"{key} waits."
    ours = is_ours(pod.scheduler_name, settings)
    if not ours:
        yield f"  {left_to_whom(pod.scheduler_name, settings)}."
    if condition.get("message"):
        yield f"  {condition.get('reason', '')}: {condition['message']}"
    else:
        yield f"  No scheduler has said anything about it yet. It names the scheduler {pod.scheduler_name}."
    if pod.nominated_node_name:
        yield f"  Room is made for it on node {pod.nominated_node_name}: pods of lower priority leave it."
    if advised.near_miss is not None:
        yield f"  {advised.near_miss}"
    if advised.quotas:
        keeps = "keeps" if ours else "would keep"
        with_it = f"; {advised.other_members}" if str(advised.other_members or "") else ""
        yield f"  Its quota {keeps} it waiting: {used_by(pod.namespace, advised.quotas)}{with_it}."
    elif advised.quota_unseen:
        yield "  Its quota keeps it waiting: how far is in its ResourceQuotas and events, which you may not see."
    if advised.remedies:
        yield from ("", "What may help, by what its condition and its event say:")
        yield from (f"  {remedy}" for remedy in advised.remedies)
    yield from ("", f"What its reasons mean: {settings.runbook_url or _RUNBOOK}.")


def scheduled_condition(found: Object) -> Object:
    """Return what the pod says of whether it was placed; empty where nobody has said anything."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "PodScheduled"), {})


def _last_event(cluster: ClusterOptions, namespace: str, found: Object) -> str | None:
    """Return what the last event says that tells why a pod was not placed; empty without one, None if none is seen."""
    uid = found["metadata"].get("uid", "")
    query = f"involvedObject.uid={uid},reason={EventReason.FAILED_SCHEDULING}"
    path = collection_path("/api/v1/events", namespace)
    listed = asyncio.run(get_object(cluster, f"{path}?fieldSelector={query}"))
    if isinstance(listed, str):
        return None
    events = [event for event in listed.get("items") or () if (event.get("involvedObject") or {}).get("uid") == uid]
    return str(max(events, key=_when)["message"]) if events else ""


def _when(event: Object) -> str:
    """Return when an event happened last."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
