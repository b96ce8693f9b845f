"""Explains a pod to users who may see it but no nodes, from its condition, event and annotations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import click
import msgspec

from vgpu_scheduler.apiclient import collection_path, pod_path
from vgpu_scheduler.cli.cluster.messages import fail, print_pod_warnings
from vgpu_scheduler.cli.cluster.namespaces import did_you_mean_namespace, own_namespace
from vgpu_scheduler.cli.cluster.world import open_namespace
from vgpu_scheduler.cli.pod_events import PodEvents, followed_by, last_events, why_gone, why_not_created
from vgpu_scheduler.cli.waiting_pod import WAITS, WaitingPod
from vgpu_scheduler.engine import QuotaReport, quotas_from_event
from vgpu_scheduler.engine.group_attempts import other_member_in
from vgpu_scheduler.kube import API_RESOURCES, LabelSelector, Object, Pod
from vgpu_scheduler.model import CardReason, ConditionReason, EventReason, closest, did_you_mean
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND
from vgpu_scheduler.predicates import without_preemption
from vgpu_scheduler.reading import (
    NAMESPACED_KINDS,
    ClusterOptions,
    MissingRightsError,
    asks_beyond_kubelets,
    describe_decision,
    describe_place,
    describe_terminating,
    get_object,
    is_ours,
    lacks_beyond_kubelets,
    named_anew,
    named_anew_for_cards,
    record_of,
    settings_notes,
    why_no_more,
)
from vgpu_scheduler.whatif import (
    ConditionRemedies,
    InvalidObjectsError,
    NamespaceObjects,
    World,
    as_meant,
    counted_for_quotas,
    held_cards,
    left_to_cards,
    policy_remedies,
    quotas_in_the_way,
    quotas_of,
    remedies_from_condition,
)
from vgpu_scheduler.whatif.advice.remedy import Advice, do
from vgpu_scheduler.whatif.reasons.groups import (
    group_remedies,
    group_remedies_from_condition,
    whom_requests_concern,
)
from vgpu_scheduler.whatif.tenant_advice.earlier_pods import NOBODY_EARLIER, earlier_pods_of
from vgpu_scheduler.whatif.tenant_advice.group_quotas import OtherMembers, other_members_of
from vgpu_scheduler.whatif.tenant_advice.quota_statuses import limiting
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotaStatus
from vgpu_scheduler.whatif.tenant_advice.remedies import OtherRemedies
from vgpu_scheduler.whatif.tenant_advice.unread_groups import note_group

_ENDED: Final = ("Succeeded", "Failed")
_WAIT: Final = "wait: its turn comes, or another node is looked for"
"""What helps a pod that has a node, and waits for its turn there."""
_READ: Final = NAMESPACED_KINDS - {"LimitRange"} | {CLUSTER_KIND, "Namespace", "StorageClass"}
"""The kinds that may tell something about a pod; other pods matter because they count in its quotas."""
_TELLING: Final = ("Pod", "ResourceQuota", "PersistentVolumeClaim", NAMESPACED_KIND)
"""The namespaced kinds that would tell more about a pod."""
_COUNTED: Final = ("Pod", "ResourceQuota")


class PodExplanation(NamedTuple):
    """The explanation of a pod: as plain values, as lines, and the exit status of the command."""

    plain: Mapping[str, Any]
    lines: Sequence[str]
    status: int


class _Reading(NamedTuple):
    """What was read of a namespace.

    Attributes
    ----------
    were_read
        Whether that includes everything that counts in its quotas.
    rights
        The missing rights on objects of the namespace that would tell more.
    events_of
        Returns what the last events of the pod with a UID say; None if they cannot be read.
    """

    world: World
    namespace_objects: NamespaceObjects
    were_read: bool
    rights: Sequence[str]
    events_of: Callable[[str], PodEvents | None]
    error: MissingRightsError


def pod_alone(cluster: ClusterOptions, key: str, error: MissingRightsError) -> Object:
    """Return a pod's object for users who may see nothing else; end the command if they may not see it."""
    namespace, _, name = key.partition("/")
    found = asyncio.run(get_object(cluster, pod_path(namespace, name)))
    if isinstance(found, str):
        if why := why_gone(cluster, key):
            fail(f"pod {key} {why}")
        homes = dict.fromkeys((namespace, own_namespace(cluster)))
        others = [each for home in homes for each in _pods_seen(cluster, home) if each != key]
        meant = did_you_mean_pod(key, others) or did_you_mean_namespace(namespace, cluster)
        meant = followed_by(meant, why_not_created(cluster, namespace, name))
        fail(f"{error}, and the pod itself cannot be read: {found}{meant}")
    return found


def _pods_seen(cluster: ClusterOptions, namespace: str) -> list[str]:
    """Return the pods of a namespace as ``namespace/name``; none if they cannot be listed."""
    listed = asyncio.run(get_object(cluster, collection_path(API_RESOURCES["Pod"].path, namespace)))
    if isinstance(listed, str):
        return []
    return [f"{namespace}/{each['metadata']['name']}" for each in listed.get("items") or ()]


def did_you_mean_pod(key: str, others: Collection[str]) -> str:
    """Return a suggestion of a pod, as the end of a sentence; empty if no pod has a similar name.

    A pod of the same name in another namespace comes first, then one with a similar name in the same namespace.

    Parameters
    ----------
    key, others
        The missing pod and the existing ones, as ``namespace/name``.
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


def did_you_mean_node_or_pod(world: World, text: str) -> str:
    """Return a suggestion of a node or a pod, as in ``pod/NAMESPACE/NAME``; see :func:`did_you_mean_pod`."""
    kind, _, name = text.partition("/")
    pods = [pod.key for pod in world.present_pods]
    return did_you_mean_pod(name, pods) if kind == "pod" else did_you_mean(name, world.nodes)


def pods_alone(
    cluster: ClusterOptions, namespace: str, labels: LabelSelector, error: MissingRightsError
) -> list[Object]:
    """Return the waiting or running pods of a namespace with some labels, by name; see :func:`pod_alone`."""
    found = asyncio.run(get_object(cluster, collection_path(API_RESOURCES["Pod"].path, namespace)))
    if isinstance(found, str):
        meant = did_you_mean_namespace(namespace, cluster)
        fail(f"{error}, and the pods of namespace {namespace} cannot be read: {found}{meant}")
    listed = sorted(found.get("items") or (), key=lambda each: str(each["metadata"]["name"]))
    return [
        each
        for each in listed
        if labels.matches(each["metadata"].get("labels") or {})
        and (each.get("status") or {}).get("phase") not in _ENDED
        and ((each.get("spec") or {}).get("nodeName") or not each["metadata"].get("deletionTimestamp"))
    ]


def explain_from_conditions(
    cluster: ClusterOptions, namespace: str, pods: Sequence[Object], error: MissingRightsError
) -> list[PodExplanation]:
    """Explain pods of a namespace from their own objects, for users who may see little else."""
    error.scheduler = error.scheduler.for_namespace(cluster.overrides)
    keys = [f"{namespace}/{found['metadata']['name']}" for found in pods]
    for key, found in zip(keys, pods, strict=True):
        world = World(error.scheduler.options)
        if why := why_no_more(world, world.pod(found), found, error.scheduler.settings):
            fail(f"pod {key} {why}")
    placed = [_bound(key, found, error) for key, found in zip(keys, pods, strict=True)]
    if all(placed):
        return [each for each in placed if each]
    for line in settings_notes(error.scheduler):
        click.echo(line, err=True)
    reading = _read(cluster, namespace, error, of_all=len(pods) > 1)
    return [each or _explain_waiting(key, found, reading) for each, key, found in zip(placed, keys, pods, strict=True)]


def _explain_waiting(key: str, found: Object, reading: _Reading) -> PodExplanation:
    """Explain a waiting pod."""
    error, condition = reading.error, _condition(found, "PodScheduled")
    events = reading.events_of(found["metadata"].get("uid", ""))
    pod, turn = reading.world.pod(found), events.turn if events else ""
    note_group(reading.world, pod, str(condition.get("message", "")), events.failed if events else "")
    now = {"reason": str(EventReason.WAITING_FOR_NODE), "message": turn} if turn else condition
    ours = _may_be_ours(reading.world, pod, condition, error)
    advised = _advised(reading, found, now, events.failed if events and not turn else "", ours=ours)
    rights = [*(["list events"] if events is None else []), *reading.rights]
    missing = f"{error}, {', '.join(rights)} in namespace {pod.namespace}" if rights else str(error)
    print_pod_warnings(reading.world, [pod], undecided=True)
    said = {"near_miss": str(advised.near_miss or ""), "quotas": [str(each) for each in advised.quotas]}
    answer = {"pod": key, "node": "", "condition": condition, **said, "remedies": list(advised.remedies)}
    answer |= {"waitsForTurn": turn} if turn else {}
    answer |= {"nominatedNode": pod.nominated_node_name} if pod.nominated_node_name else {}
    scheduler = {"named": pod.scheduler_name, "ours": ours}
    plain = {**answer, "scheduler": scheduler, "missing": missing}
    concerned = whom_requests_concern(reading.world, pod) if advised.changes_requests else ""
    plain |= {"group": concerned} if concerned else {}
    waiting = WaitingPod(pod, now, advised, concerned, ours)
    lines = [*waiting.lines(error.scheduler.settings), "", f"The explanation ends here: {missing}."]
    return PodExplanation(plain, lines, waiting.exit_status)


def _may_be_ours(world: World, pod: Pod, condition: Object, error: MissingRightsError) -> bool:
    """Tell whether this scheduler may place a pod: its settings name that scheduler, or are not known.

    Where the settings are assumed, a pod that some scheduler has tried may name this one by a name of the real ones.
    """
    named, scheduler = pod.scheduler_name, error.scheduler
    if is_ours(named, scheduler.settings):
        return True
    message = str(condition.get("message", ""))
    tried = bool(message) and not lacks_beyond_kubelets(world, pod, message)
    return bool(scheduler.is_assumed and tried and named_anew(named, scheduler.settings))


def _read(cluster: ClusterOptions, namespace: str, error: MissingRightsError, *, of_all: bool) -> _Reading:
    """Read what the objects and events of a namespace tell of its pods.

    Parameters
    ----------
    of_all
        Whether to read the events of all pods at once, instead of those of a pod when it is asked about.
    """
    events = last_events(cluster, namespace) if of_all else None

    def events_of(uid: str) -> PodEvents | None:
        found = events if of_all else last_events(cluster, namespace, uid)
        return None if found is None else found.get(uid, PodEvents())

    rights: list[str] = []
    were_read = False
    try:
        world, view = open_namespace(cluster, namespace, (), _READ)
    except InvalidObjectsError:  # an object that cannot be understood is no reason to say nothing
        world, namespace_objects = World(error.scheduler.options), NamespaceObjects()
    else:
        namespace_objects = NamespaceObjects.among(view.objects, view.missing)
        were_read = all(map(view.has_read, _COUNTED))
        missing = (each for kind, each in sorted(view.missing.items()) if kind in _TELLING)
        rights += [each.right for each in missing if each.is_forbidden]
    return _Reading(world, namespace_objects, were_read, rights, events_of, error)


def _advised(reading: _Reading, found: Object, condition: Object, event: str, *, ours: bool) -> ConditionRemedies:
    """Return the remedies for a waiting pod."""
    world, error, message = reading.world, reading.error, str(condition.get("message", ""))
    pod = world.pod(found)
    anew = "" if ours else named_anew_for_cards(world, pod, error.scheduler.settings)
    if anew and asks_beyond_kubelets(world, pod):  # the condition is of a scheduler that does not know these resources
        condition, message, event = {}, "", ""
    of_group = list(group_remedies(world, pod)) or list(group_remedies_from_condition(message))
    turn = [_WAIT] if condition.get("reason") == EventReason.WAITING_FOR_NODE else []
    first = [*map(do, [*([anew] if anew else []), *turn, *of_group]), *_of_other_member(reading, condition)]
    return _remedies(reading, found, message, event, str(condition.get("reason", "")), first)


def _of_other_member(reading: _Reading, condition: Object) -> Iterator[Advice]:
    """Yield remedies for another pod of the group, if the condition says that the group waits for that pod."""
    key, message = other_member_in(str(condition.get("message", ""))) or ("", "")
    for other in (each for each in reading.world.pending.values() if each.key == key):
        found = reading.world.written(other)
        events, reason = reading.events_of(other.uid) or PodEvents(), str(condition.get("reason", ""))
        advised = _remedies(reading, found, message, events.failed, reason)
        if (
            advised.quotas
            and CardReason.ResourceQuotaNotFit.text in message
            and reason != ConditionReason.UNSCHEDULABLE
        ):
            continue  # the quota keeps the whole group, and is advised about with the pod itself
        for first, *others in advised.advice:
            what = f"for pod {key}, which is placed together with this one: {first.what}"
            yield (replace(first, what=what), *others)


def _remedies(
    reading: _Reading, found: Object, message: str, event: str, reason: str, first: Sequence[Advice] = ()
) -> ConditionRemedies:
    """Return the remedies from a pod's condition and event, after those in ``first``."""
    world, settings = reading.world, reading.error.scheduler.settings
    pod, message = world.pod(found), without_preemption(message)
    meant = as_meant(world, pod)
    others = not named_anew(pod.scheduler_name, settings) and not is_ours(pod.scheduler_name, settings)
    ours = reading.were_read and not others  # our quotas do not hold back pods of other schedulers
    other_members = other_members_of(world, pod) if ours else None
    counts = reading.were_read and bool(world.engine.dialects.owners(meant))  # else it is unknown which quotas count
    reports = (_quota_reports(world, meant, message, other_members) if counts and ours else ()) or None
    if reports is None and counts and _has_other_limits(world, pod, event):
        reports = ()
    last = list(policy_remedies(world, pod, message, reading.namespace_objects))
    tried = message or str(_condition(found, "PodScheduled").get("message", ""))
    of_volume_claims = list(map(do, reading.namespace_objects.volume_claim_problems(found, [pod.uid], tried)))
    earlier = earlier_pods_of(world, pod) if counts and ours else NOBODY_EARLIER
    limits = quotas_of(world, pod.namespace) if counts and ours else ()
    known = QuotaStatus(reports, other_members, earlier, limits)
    return remedies_from_condition(
        world, pod, message, event, known, OtherRemedies(first, last, of_volume_claims), reason
    )


def _has_other_limits(world: World, pod: Pod, event: str) -> bool:
    """Tell whether the quotas of the pod's namespace have changed since its event reported them."""
    now = {report.resource: report.limit for report in quotas_of(world, pod.namespace)}
    return any(now.get(report.resource) != report.limit for report in quotas_from_event(event))


def _quota_reports(world: World, pod: Pod, message: str, other_members: OtherMembers | None) -> tuple[QuotaReport, ...]:
    """Return the quotas that keep a pod waiting.

    For a pod whose amounts depend on the card, the condition tells whether quotas keep it waiting.
    """
    if found := quotas_in_the_way(world, pod, other_members=other_members):
        return found
    claims, asked = world.engine.algorithm.classes.claims(pod), counted_for_quotas(world, pod)
    with_it = other_members.asked if other_members is not None else {}
    reports = limiting(world, claims, quotas_of(world, pod.namespace), with_it)
    is_of_quota = CardReason.ResourceQuotaNotFit.text in message
    depends = bool(left_to_cards(world, pod)) or any(report.resource not in asked for report in reports)
    return reports if is_of_quota and depends else ()


def _bound(key: str, found: Object, error: MissingRightsError) -> PodExplanation | None:
    """Explain where a bound pod is, or one that another scheduler has announced; None for a waiting pod."""
    world = World(error.scheduler.options)
    read = world.pod(found)
    pod = msgspec.structs.replace(read, node_name=world.home_of(read))
    if not pod.node_name:
        return None
    is_announced = not read.node_name
    print_pod_warnings(world, [pod], undecided=True)
    said: dict[str, Any] = {"announcedBy": pod.scheduler_name} if is_announced else {}
    record = {} if is_announced else record_of(pod.annotations)
    held, lines = held_cards(world, pod), describe_decision(pod, is_announced=is_announced)
    if disruption := _disruption(found):
        said |= {"disruption": disruption}
        lines = [*lines, f"It is being deleted: its condition DisruptionTarget says {disruption}."]
    elif ending := describe_terminating(pod):
        said |= {"deleting": True}
        lines = [*lines, ending]
    where = describe_place(pod, is_announced=is_announced)
    text = [where, *(f"  {line}" for line in (*held, *lines)), "", f"The explanation ends here: {error}."]
    plain = {"pod": key, "node": pod.node_name, "held": held, "decided": record, **said, "missing": str(error)}
    return PodExplanation(plain, text, WAITS if is_announced else 0)


def _disruption(found: Object) -> str:
    """Return why a pod is being deleted; empty if it is not."""
    if not found["metadata"].get("deletionTimestamp"):
        return ""
    disruption = _condition(found, "DisruptionTarget")
    return ": ".join(filter(None, (str(disruption.get("reason") or ""), str(disruption.get("message") or ""))))


def _condition(found: Object, name: str) -> Object:
    """Return a pod's condition of a type as it is written; empty if it has none."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == name), {})
