"""What pods add to the quotas that kube-apiserver enforces, and what they must say for these.

The facts are those of ``pkg/quota/v1/evaluator/core/pods.go`` of Kubernetes 1.36:

* A pod adds its effective requests under the plain names of cpu, memory, ephemeral storage and huge pages and under
  ``requests.``, its effective limits of the first three under ``limits.``, and extended resources under ``requests.``
  only.
* A quota on cpu or memory, under any of the three names, requires that each container says its amount, unless the pod
  itself has requests or limits of cpu, memory or huge pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vgpu_scheduler.kube.containers import AMOUNT_FIELDS, typed_containers
from vgpu_scheduler.kube.decoding import Object
from vgpu_scheduler.kube.quantities import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES,
    MEMORY,
    NANO,
    NATIVE_RESOURCES,
    PODS,
    QUOTA_LIMITS,
    QUOTA_REQUESTS,
    in_binary_units,
    is_pod_level,
    nano_to_milli,
    peak_amounts,
    to_nano,
)
from vgpu_scheduler.model.untyped import mapping_of

_LIMITS, _REQUESTS = AMOUNT_FIELDS
_COUNTS: Final = (PODS, "count/pods")
_MILLI: Final = NANO // 1000
_REQUIRED: Final = {
    name: (place, resource)
    for resource in (CPU, MEMORY)
    for name, place in (
        (resource, _REQUESTS),
        (f"{QUOTA_REQUESTS}{resource}", _REQUESTS),
        (f"{QUOTA_LIMITS}{resource}", _LIMITS),
    )
}
"""The keys of quotas that require an amount of each container, each with the place and the name of that amount."""


def quota_usage(pod: Object) -> dict[str, int]:
    """Return what a pod that has not ended adds to quotas, in nanos, by the keys of quotas.

    Parameters
    ----------
    pod
        A well-formed pod as it is written, in which limits are requests already where it has no other.

    Raises
    ------
    QuantityError
        If an amount of the pod is not a quantity.
    """
    usage = dict.fromkeys(_COUNTS, NANO)
    requests, limits = _effective(pod, _REQUESTS), _effective(pod, _LIMITS)
    for name, nanos in _rounded(mapping_of(pod.get("spec")).get("overhead")).items():
        requests[name] = requests.get(name, 0) + nanos
        if limits.get(name):
            limits[name] += nanos
    for name, nanos in requests.items():
        if name in NATIVE_RESOURCES or name.startswith(HUGE_PAGES):
            usage[name] = nanos
        usage[f"{QUOTA_REQUESTS}{name}"] = nanos
    usage |= {f"{QUOTA_LIMITS}{name}": nanos for name, nanos in limits.items() if name in NATIVE_RESOURCES}
    return usage


def missing_amounts(pod: Object, keys: Iterable[str]) -> str:
    """Return what a pod must specify for a quota, in the words of the API server; empty if nothing is missing.

    Parameters
    ----------
    pod
        As for :func:`quota_usage`.
    keys
        The keys of the quota.
    """
    own = mapping_of(mapping_of(pod.get("spec")).get("resources"))
    if any(is_pod_level(name) for place in AMOUNT_FIELDS for name in mapping_of(own.get(place))):
        return ""
    missing = {
        key: ",".join(sorted(_names_without(pod, *_REQUIRED[key]))) for key in sorted(_REQUIRED.keys() & set(keys))
    }
    told = "; ".join(f"{key} for: {names}" for key, names in missing.items() if names)
    return f"must specify {told}" if told else ""


def quota_amount(key: str, nanos: int) -> str:
    """Format an amount of a quota's key as Kubernetes would write it."""
    whole, rest = divmod(nanos, NANO)
    if rest:
        return f"{nano_to_milli(nanos)}m"
    is_in_bytes = key.endswith((MEMORY, EPHEMERAL_STORAGE)) or HUGE_PAGES in key
    return in_binary_units(whole) if is_in_bytes and "/" not in key else str(whole)


def _names_without(pod: Object, place: str, resource: str) -> set[str]:
    return {
        str(each.get("name", ""))
        for _, each in typed_containers(pod)
        if resource not in mapping_of(mapping_of(each.get("resources")).get(place))
    }


def _effective(pod: Object, place: str) -> dict[str, int]:
    amounts = ((kind, _amounts(each, place)) for kind, each in typed_containers(pod))
    return peak_amounts(amounts, _amounts(mapping_of(pod.get("spec")), place))


def _amounts(holder: Object, place: str) -> dict[str, int]:
    return _rounded(mapping_of(holder.get("resources")).get(place))


def _rounded(amounts: object) -> dict[str, int]:
    """Return amounts in nanos, rounded up to thousandths, as the API server stores them."""
    return {name: -(-to_nano(str(text)) // _MILLI) * _MILLI for name, text in mapping_of(amounts).items()}
