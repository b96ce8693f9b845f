"""What a pod asks for as a whole, resource by resource, from what its containers ask for.

The formula is component-helpers' ``resource.PodRequests``. Sums are kept in nanos and rounded up once, at the end.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from vgpu_scheduler.kube.quantities import nano_to_int, nano_to_milli
from vgpu_scheduler.model import ContainerKind

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "PODS",
    "ContainerKind",
    "amount",
    "is_schedulable",
    "pod_requests",
    "unrequested",
]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

_NATIVE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_HUGEPAGES: Final = "hugepages-"
_NANO: Final = 10**9
_LEAST: Final = {CPU: _NANO // 10, MEMORY: (200 << 20) * _NANO}
"""What kube-scheduler's scores take a container to use that does not say (nanos)."""


def is_schedulable(name: str) -> bool:
    """Whether kube-scheduler compares this resource: the native three, huge pages, volumes and qualified names."""
    if name in _NATIVE or name.startswith((_HUGEPAGES, "attachable-volumes-")):
        return True
    return "/" in name and ("kubernetes.io/" in name or not name.startswith("requests."))


def _is_pod_level(name: str) -> bool:
    """Whether ``spec.resources`` of a pod may set this resource."""
    return name in (CPU, MEMORY) or name.startswith(_HUGEPAGES)


def amount(name: str, nanos: int) -> int:
    """Nanos of a resource in the unit it is compared in: milli for ``cpu``, whole units for all others; rounded up."""
    return nano_to_milli(nanos) if name == CPU else nano_to_int(nanos)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def _raise(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, nanos in other.items():
        if nanos > total.get(name, 0):
            total[name] = nanos


def unrequested(
    containers: Iterable[tuple[ContainerKind, Mapping[str, int]]],
    pod_level: Mapping[str, int],
    overhead: Mapping[str, int],
) -> tuple[int, int]:
    """Return the cpu (milli) and memory (bytes) that kube-scheduler's scores add to what a pod requests.

    They take a container that names no cpu for one of 100m, and one that names no memory for one of 200Mi, so that
    pods without requests do not all go to one node; of pods with requests of their own only where these and the
    containers name none. Parameters are those of :func:`pod_requests`.
    """
    asked = list(containers)
    requested = pod_requests(asked, pod_level, overhead)
    as_whole = any(map(_is_pod_level, pod_level))
    least = {name: nanos for name, nanos in _LEAST.items() if not (as_whole and name in requested)}
    taken = pod_requests([(kind, {**least, **requests}) for kind, requests in asked], pod_level, overhead)
    return taken.get(CPU, 0) - requested.get(CPU, 0), taken.get(MEMORY, 0) - requested.get(MEMORY, 0)


def pod_requests(
    containers: Iterable[tuple[ContainerKind, Mapping[str, int]]],
    pod_level: Mapping[str, int],
    overhead: Mapping[str, int],
) -> dict[str, int]:
    """Effective request of a pod.

    ``max(apps + sidecars, max over init containers of (it + the sidecars declared before it)) + overhead``, where
    pod-level requests replace the containers' for cpu, memory and huge pages.

    Parameters
    ----------
    containers
        Kind and requests (nanos) of each container, init containers first, in the order of the pod.
    pod_level
        ``spec.resources.requests`` in nanos; empty if there are none.
    overhead
        ``spec.overhead`` in nanos.

    Returns
    -------
    dict of str to int
        Amount per resource, cpu in milli and all others in whole units; only resources that kube-scheduler compares and
        only amounts above zero.
    """
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for kind, requests in containers:
        if kind is ContainerKind.APP:
            _add(total, requests)
        elif kind is ContainerKind.SIDECAR:
            _add(total, requests)
            _add(sidecars, requests)
            _raise(peak, sidecars)
        else:
            running = dict(sidecars)
            _add(running, requests)
            _raise(peak, running)
    _raise(total, peak)
    total.update((name, nanos) for name, nanos in pod_level.items() if _is_pod_level(name))
    _add(total, overhead)
    return {name: amount(name, nanos) for name, nanos in total.items() if nanos > 0 and is_schedulable(name)}
