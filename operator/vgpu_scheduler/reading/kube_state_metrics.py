"""Deleted pods, from kube-state-metrics in Prometheus: their requests, and when they were created, placed and deleted.

The metrics are those of kube-state-metrics 2. They need no configuration, except that labels and annotations are only
exported where configured (``--metric-labels-allowlist``, ``--metric-annotations-allowlist``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from vgpu_scheduler.kube import CPU, MEMORY, Object, rfc3339
from vgpu_scheduler.reading.options import PrometheusServer
from vgpu_scheduler.reading.prometheus import Prometheus, Sample, TooManySamplesError, ask_prometheus
from vgpu_scheduler.whatif import KNOWN_FROM

_WINDOW: Final = 6 * 3600
"""Seconds per query: one query for a week would exceed Prometheus' limit of samples."""
_LEAST_WINDOW: Final = 300
"""The least seconds per query, if there are too many samples for one query in longer windows."""
_STEP: Final = 60
"""The resolution in seconds of a pod's deletion time."""
_MILLI: Final = 1000
_UNITS: Final = ((2**20, "Mi"), (10**6, "M"), (2**10, "Ki"), (10**3, "k"))
_LEAST_WITH_UNIT: Final = 10**6
_ENDED: Final = ("Succeeded", "Failed")
_KUBE_STATE_METRICS: Final = "kube-state-metrics"
_REQUESTS: Final = "kube_pod_container_resource_requests"
_INIT_REQUESTS: Final = "kube_pod_init_container_resource_requests"
_CREATED: Final = "kube_pod_created"
_EXPORTED: Final = "exported_"
"""The prefix of the labels that Prometheus renames where a scrape does not honor them (``honor_labels``)."""
_JUST_CREATED: Final = 120.0
"""Seconds before the end of the period within which a new pod may be missing from the list of existing pods."""
_NO_CONTAINER: Final[Mapping[str, Mapping[str, float]]] = {"main": {}}
_OF_TOLERATIONS: Final = ("key", "operator", "value", "effect")


@dataclass(frozen=True, slots=True)
class DeletedPodQuery:
    """Which pods to look for.

    Attributes
    ----------
    until, seconds
        The end of the period, and its length in seconds.
    scheduler_names
        The schedulers of the pods. A pod with an unknown scheduler counts for the first of them in alphabetical order.
    resources
        The names of card resources; the pods ask for at least one.
    annotations, labels
        The names of annotations and labels to read, if they are exported.
    known
        The UIDs of pods to skip.
    """

    until: datetime
    seconds: int
    scheduler_names: Collection[str]
    resources: Collection[str]
    annotations: Collection[str] = ()
    labels: Collection[str] = ()
    known: Collection[str] = ()


@dataclass(slots=True)
class _SeenPod:
    """What the samples say about a pod so far; times are seconds since the epoch."""

    namespace: str = ""
    name: str = ""
    node: str = ""
    priority_class: str = ""
    scheduler: str = ""
    created: float | None = None
    scheduled: float | None = None
    completed: float | None = None
    seen: float = 0.0
    phase: str = ""
    containers: dict[str, dict[str, float]] = field(default_factory=dict)
    init_containers: dict[str, dict[str, float]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    tolerations: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletedPods:
    """The deleted pods that Prometheus knows.

    Attributes
    ----------
    pods
        The pods as manifests, in order of creation.
    since
        Since when there are metrics of kube-state-metrics in the period; None if there are none.
    """

    pods: Sequence[Object]
    since: datetime | None


_Take = Callable[[_SeenPod, Sample], None]


def deleted_pods(server: PrometheusServer, query: DeletedPodQuery) -> DeletedPods:
    """Return the deleted pods with cards that Prometheus knows.

    Each pod has ended: when its containers ended or when it was deleted, to the minute. What kube-state-metrics does
    not export is left out: affinity, node selectors, volumes, and other fields besides container requests.

    Parameters
    ----------
    server
        Prometheus.
    query
        Which pods to look for.

    Raises
    ------
    InvalidObjectsError
        If it cannot be queried, or its answer is not understood; the message names the address.
    """
    seen: dict[str, _SeenPod] = defaultdict(_SeenPod)
    reader = _Reader(query, seen)
    ask_prometheus(server, reader.read)
    names = sorted(query.scheduler_names)
    found = [
        (pod.created, uid, pod)
        for uid, pod in seen.items()
        if pod.created is not None
        and uid not in query.known
        and pod.created < query.until.timestamp() - _JUST_CREATED
        and (not pod.scheduler or pod.scheduler in names)
    ]
    found.sort(key=lambda each: each[:2])
    since = None if reader.since is None else datetime.fromtimestamp(reader.since, UTC)
    return DeletedPods([_manifest(uid, pod, pod.scheduler or names[0]) for _, uid, pod in found], since)


class _Reader:
    """Queries one time window after the other, the newest last, so that later values replace earlier ones.

    Parameters
    ----------
    query
        Which pods to look for.
    seen
        What is known of the pods, by UID.

    Attributes
    ----------
    since
        The time of the first sample in the period, in seconds since the epoch; None before one is found.
    """

    def __init__(self, query: DeletedPodQuery, seen: dict[str, _SeenPod]) -> None:
        self.since: float | None = None
        self._until = query.until.timestamp()
        self._seconds = query.seconds
        self._seen = seen
        self._resources = {_sanitized(name): name for name in (*query.resources, CPU, MEMORY)}
        self._cards = "|".join(sorted(map(_sanitized, query.resources)))
        self._labels = {_label_of("label", name): name for name in query.labels}
        self._annotations = {_label_of("annotation", name): name for name in query.annotations}
        requests = f'resource=~"{self._cards}|{CPU}|{MEMORY}"'
        self._series: Sequence[tuple[str, tuple[str, ...], _Take]] = (
            (_REQUESTS, (requests,), self._take_request),
            (_INIT_REQUESTS, (requests,), self._take_init_request),
            ("kube_pod_info", (), _take_info),
            (_CREATED, (), _take_created),
            ("kube_pod_status_scheduled_time", (), _take_scheduled),
            ("kube_pod_completion_time", (), _take_completed),
            ("kube_pod_status_phase", (f'phase=~"{"|".join(_ENDED)}"',), _take_phase),
            ("kube_pod_scheduler", (), _take_scheduler),
            ("kube_pod_tolerations", (), _take_toleration),
            ("kube_pod_labels", (), self._take_labels),
            ("kube_pod_annotations", (), self._take_annotations),
        )

    async def read(self, prometheus: Prometheus) -> None:
        """Read all windows; halve those in which there are too many samples for one query."""
        began, length = self._until - self._seconds, float(_WINDOW)
        while began < self._until:
            ended = min(began + length, self._until)
            try:
                await self._read_window(prometheus, ended, max(round(ended - began), 1))
            except TooManySamplesError:
                if ended - began <= _LEAST_WINDOW:
                    raise
                length = max((ended - began) / 2, _LEAST_WINDOW)
            else:
                began = ended

    async def _read_window(self, prometheus: Prometheus, at: float, seconds: int) -> None:
        query, select = partial(prometheus.query, at=at), prometheus.select
        over = f"[{seconds}s]"
        scraped = f"timestamp({select(_CREATED)})[{seconds}s:{_STEP}s]"
        if self.since is None:
            first = await query(f"min(min_over_time({scraped}))")
            if not first:
                return  # nothing was scraped so long ago
            self.since = first[0].value
        cards = f'resource=~"{self._cards}"'
        requests, init_requests = (
            f"last_over_time({select(each, cards)}{over})" for each in (_REQUESTS, _INIT_REQUESTS)
        )
        with_cards = f"and on (uid) ({requests} or {init_requests})"
        for metric, matchers, take in self._series:
            self._take(await query(f"last_over_time({select(metric, *matchers)}{over}) {with_cards}"), take)
        self._take(await query(f"max_over_time({scraped}) {with_cards}"), _take_seen)

    def _take(self, samples: Iterable[Sample], take: _Take) -> None:
        for sample in map(_with_own_labels, samples):
            uid, namespace, name = (sample.labels.get(key, "") for key in ("uid", "namespace", "pod"))
            if uid and namespace and name:
                pod = self._seen[uid]
                pod.namespace, pod.name = namespace, name
                take(pod, sample)

    def _take_request(self, pod: _SeenPod, sample: Sample) -> None:
        self._add_request(pod.containers, sample)

    def _take_init_request(self, pod: _SeenPod, sample: Sample) -> None:
        self._add_request(pod.init_containers, sample)

    def _add_request(self, containers: dict[str, dict[str, float]], sample: Sample) -> None:
        resource = self._resources.get(sample.labels.get("resource", ""))
        if resource is not None:
            containers.setdefault(sample.labels.get("container", ""), {})[resource] = sample.value

    def _take_labels(self, pod: _SeenPod, sample: Sample) -> None:
        pod.labels = _named(self._labels, sample)

    def _take_annotations(self, pod: _SeenPod, sample: Sample) -> None:
        pod.annotations = _named(self._annotations, sample)


def _with_own_labels(sample: Sample) -> Sample:
    """Return a sample with the labels of kube-state-metrics where Prometheus has renamed them."""
    own = {name.removeprefix(_EXPORTED): text for name, text in sample.labels.items() if name.startswith(_EXPORTED)}
    return Sample({**sample.labels, **own}, sample.value) if own else sample


def _take_info(pod: _SeenPod, sample: Sample) -> None:
    pod.node = sample.labels.get("node") or pod.node  # the label is empty until the pod is placed
    pod.priority_class = sample.labels.get("priority_class", "")


def _take_created(pod: _SeenPod, sample: Sample) -> None:
    pod.created = sample.value


def _take_scheduled(pod: _SeenPod, sample: Sample) -> None:
    pod.scheduled = sample.value


def _take_completed(pod: _SeenPod, sample: Sample) -> None:
    pod.completed = sample.value


def _take_seen(pod: _SeenPod, sample: Sample) -> None:
    pod.seen = max(pod.seen, sample.value)


def _take_phase(pod: _SeenPod, sample: Sample) -> None:
    if sample.value:
        pod.phase = sample.labels.get("phase", "")


def _take_scheduler(pod: _SeenPod, sample: Sample) -> None:
    pod.scheduler = sample.labels.get("name", "")


def _take_toleration(pod: _SeenPod, sample: Sample) -> None:
    toleration = {key: sample.labels[key] for key in _OF_TOLERATIONS if key in sample.labels}
    pod.tolerations[tuple(toleration.values())] = toleration


def _sanitized(name: str) -> str:
    """Return a name as kube-state-metrics sanitizes it for labels."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _label_of(prefix: str, name: str) -> str:
    """Return the metric label for a label or annotation of a pod."""
    return f"{prefix}_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", _sanitized(name)).lower()


def _named(names: Mapping[str, str], sample: Sample) -> dict[str, str]:
    return {names[label]: text for label, text in sample.labels.items() if label in names}


def _manifest(uid: str, pod: _SeenPod, scheduler: str) -> Object:
    assert pod.created is not None
    has_run = pod.phase in _ENDED and pod.completed is not None
    ended = pod.completed if has_run and pod.completed is not None else pod.seen
    ended = max(ended, pod.scheduled or 0.0, pod.created)  # a pod may live between two samples
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": uid,
            "creationTimestamp": _stamp(pod.created),
            "labels": pod.labels,
            "annotations": {**pod.annotations, KNOWN_FROM: _KUBE_STATE_METRICS},
        },
        "spec": {
            "schedulerName": scheduler,
            **({"nodeName": pod.node} if pod.node else {}),
            **({"priorityClassName": pod.priority_class} if pod.priority_class else {}),
            "tolerations": [pod.tolerations[key] for key in sorted(pod.tolerations)],
            "initContainers": list(_containers(pod.init_containers)),
            "containers": list(_containers(pod.containers or _NO_CONTAINER)),
        },
        "status": _status(pod, ended),
    }


def _status(pod: _SeenPod, ended: float) -> dict[str, Any]:
    """Return the status of an ended pod with, if it was placed, the time when it got its node."""
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _stamp(pod.scheduled or ended)}
    terminated = {"terminated": {"finishedAt": _stamp(ended)}}
    return {
        "phase": pod.phase or "Succeeded",
        "conditions": [placed] if pod.node else [],
        "containerStatuses": [{"name": name, "state": terminated} for name in pod.containers or _NO_CONTAINER],
    }


def _containers(requests: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    for name, amounts in sorted(requests.items()):  # samples come in no particular order
        asked = {resource: _quantity(resource, amount) for resource, amount in sorted(amounts.items())}
        cards = {resource: amount for resource, amount in asked.items() if resource not in {CPU, MEMORY}}
        yield {"name": name, "resources": {"requests": asked, "limits": cards}}


def _quantity(resource: str, amount: float) -> str:
    """Return an amount as a pod may have written it.

    Some vendors read a number without a unit as GiB: kube-state-metrics shows their ``8Gi`` as bytes.
    """
    if resource == CPU:
        return f"{round(amount * _MILLI)}m"
    whole = round(amount)
    for size, unit in _UNITS:
        if whole >= _LEAST_WITH_UNIT and whole % size == 0:
            return f"{whole // size}{unit}"
    return str(whole)


def _stamp(at: float) -> str:
    return rfc3339(datetime.fromtimestamp(at, UTC))
