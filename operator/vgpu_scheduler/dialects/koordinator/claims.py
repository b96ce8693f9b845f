"""The claims of a pod in Koordinator's resource names.

Claims are per pod, not per container: the requests of its containers are summed up as in Kubernetes, checked as a
whole, and divided over devices. Two containers that request 60 percent each request 120, which is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.fixes import AmountFix, Fix
from vgpu_scheduler.dialects.inventory import MOST_DEVICES
from vgpu_scheduler.dialects.koordinator.hints import NO_HINT, DeviceHint, check_hints, read_hints, takes_gpus_whole
from vgpu_scheduler.dialects.koordinator.joint import read_joint
from vgpu_scheduler.dialects.koordinator.names import (
    CORES,
    DIMENSIONS,
    FPGA,
    FPGA_PERCENT,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_PERCENT,
    GPU_RATIO,
    GPU_SHARED,
    ISOLATION_LABEL,
    MEMORY,
    NAME,
    NPU,
    RATIO,
    RDMA,
    RDMA_PERCENT,
    SHARE,
    TYPE_OF,
    WHOLE_GPUS,
)
from vgpu_scheduler.dialects.koordinator.partitions import read_partition_spec
from vgpu_scheduler.dialects.values import amount_text
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    NO_DEFAULTS,
    WHOLE,
    Amounts,
    Claim,
    ClaimDefaults,
    ContainerClaims,
    ContainerType,
    PodClaims,
    counted,
)

_NOTHING = (0,) * len(DIMENSIONS)
_MOST = MOST_DEVICES * WHOLE
"""Maximum percentage over all devices; a larger number is probably a mistake of the unit."""

_COMBINATIONS = frozenset({
    *(frozenset({name}) for name in (*WHOLE_GPUS, GPU_PERCENT, GPU_MEMORY, GPU_RATIO)),
    frozenset({GPU_CORE, GPU_MEMORY}),
    frozenset({GPU_CORE, GPU_RATIO}),
    frozenset({GPU_SHARED, GPU_MEMORY}),
    frozenset({GPU_SHARED, GPU_RATIO}),
    frozenset({GPU_SHARED, GPU_CORE, GPU_MEMORY}),
    frozenset({GPU_SHARED, GPU_CORE, GPU_RATIO}),
})  # fmt: skip
"""The valid combinations of resource names for GPUs; Koordinator supports no others."""


def device_requests(pod: Pod) -> dict[str, int]:
    """Return the pod's requests for devices, in whole units; zeros are left out."""
    return {name: amount for name, amount in pod.spec.requests.items() if name in TYPE_OF}


def pod_claims(pod: Pod, defaults: ClaimDefaults = NO_DEFAULTS) -> PodClaims:
    """Return the claims by container; one container has the claims of the whole pod.

    It is the first app container or sidecar that requests devices, else the first such init container: the allocation
    is for the pod, but its usage counts while that container runs.

    Raises
    ------
    ClaimError
        If the pod's request is invalid in Koordinator, or not supported by this version.
    """
    requests = device_requests(pod)
    hints = read_hints(pod.annotations) if requests else {}
    try:
        claims = claims_of(requests, defaults, hints)
    except ClaimError as error:
        asking = [container.name for container in pod.spec.containers if container.requests.keys() & TYPE_OF.keys()]
        if len(asking) < 2:
            raise ClaimError(str(error), _of_container(pod, error.fix)) from None
        raise ClaimError(f"{error} (what containers {' and '.join(asking)} ask for is added up)") from None
    if claims:
        check_hints(hints, claims)
        if any(claim.vendor == GPU for claim in claims):
            read_partition_spec(pod.annotations)
        read_joint(pod.annotations, claims, hints)
        claims = tuple(_isolated(claim, pod.labels.get(ISOLATION_LABEL, "")) for claim in claims)
    holder = _holder(pod) if claims else -1
    return tuple(
        ContainerClaims(container.name, container.type, claims if number == holder else (), NAME)
        for number, container in enumerate(pod.spec.containers)
    )


def claims_of(
    requests: Mapping[str, int],
    defaults: ClaimDefaults = NO_DEFAULTS,
    hints: Mapping[str, DeviceHint] = MappingProxyType({}),
) -> tuple[Claim, ...]:
    """Return one claim per device type, ordered by type."""
    of_gpus = {name: amount for name, amount in requests.items() if TYPE_OF.get(name) == GPU}
    claims = []
    if FPGA_PERCENT in requests:
        claims.append(_whole_or_part(FPGA, FPGA_PERCENT, requests[FPGA_PERCENT], hints))
    if of_gpus:
        claims.append(_gpu_claim(of_gpus, defaults))
    if RDMA_PERCENT in requests:
        claims.append(_whole_or_part(RDMA, RDMA_PERCENT, requests[RDMA_PERCENT], hints))
    return tuple(claims)


def normalise(requests: Mapping[str, int]) -> dict[str, int]:
    """Convert a pod's requests for GPUs to the resource names in which GPUs are counted.

    Raises
    ------
    ClaimError
        If the combination of names is invalid, or an amount is not a whole number of devices.
    """
    if foreign := sorted(name for name in NPU if name in requests):
        raise ClaimError(f"{foreign[0]} is not supported by this version: remove it")
    if frozenset(requests) not in _COMBINATIONS:
        raise ClaimError(_advice(requests))
    for name in WHOLE_GPUS:
        if name in requests:
            return {GPU_CORE: requests[name] * WHOLE, GPU_RATIO: requests[name] * WHOLE}
    shared = requests.get(GPU_SHARED)
    for name in (GPU_PERCENT, GPU_CORE, GPU_RATIO):
        if name in requests:
            _check_percent(name, requests[name], shared)
    if GPU_PERCENT in requests:
        return {GPU_CORE: requests[GPU_PERCENT], GPU_RATIO: requests[GPU_PERCENT]}
    return dict(requests)


def split(requests: Mapping[str, int]) -> tuple[int, Amounts]:
    """Divide normalised requests over GPUs: return their number, and the amounts of each; divisions truncate.

    The number comes from ``gpu.shared`` or from the memory ratio, never from compute or memory in bytes.
    """
    shared, ratio = requests.get(GPU_SHARED, 0), requests.get(GPU_RATIO, 0)
    count = shared or (ratio // WHOLE if ratio > WHOLE and ratio % WHOLE == 0 else 1)
    amounts = list(_NOTHING)
    amounts[CORES] = requests.get(GPU_CORE, 0) // count
    amounts[RATIO] = ratio // count
    amounts[MEMORY] = requests.get(GPU_MEMORY, 0) // count
    return count, tuple(amounts)


def _gpu_claim(requests: Mapping[str, int], defaults: ClaimDefaults) -> Claim:
    """Return the claim on GPUs.

    A claim in percent of memory has both an amount of the ratio, which the fit compares, and a percentage of memory,
    which is checked against limits. An exclusive claim also takes all memory, because claims without compute could
    share the card otherwise.
    """
    silent = not requests.keys() - {GPU_SHARED, GPU_CORE}
    if silent and defaults.memory is not None:
        requests = {**requests, GPU_MEMORY: defaults.memory * requests.get(GPU_SHARED, 1)}
    normal = normalise(requests)
    count, per_device = split(normal)
    if per_device[CORES] > WHOLE:
        raise ClaimError(
            f"{GPU_CORE}: {normal[GPU_CORE]} is not a percentage of {counted(count, 'GPU')}: "
            f"write up to {count * WHOLE}, or say by {GPU_SHARED} how many there are to be"
        )
    amounts, percent = list(per_device), list(_NOTHING)
    if not amounts[CORES] and defaults.cores is not None:
        amounts[CORES] = defaults.cores
    if defaults.exclusive:
        amounts[CORES] = amounts[RATIO] = WHOLE
        amounts[MEMORY] = 0
    percent[MEMORY] = amounts[RATIO]
    return Claim(GPU, count, tuple(amounts), tuple(percent))


def _whole_or_part(kind: str, name: str, asked: int, hints: Mapping[str, DeviceHint]) -> Claim:
    """Return the claim on devices other than GPUs; 100 percent per device, unless the hint makes the amount a count."""
    _check_percent(name, asked, None)
    each = hints.get(kind, NO_HINT).each
    amounts = list(_NOTHING)
    amounts[SHARE] = min(asked, WHOLE)
    if each is None or asked > WHOLE:
        return Claim(kind, max(asked // WHOLE, 1), tuple(amounts), _NOTHING)
    amounts[SHARE] = each
    return Claim(kind, asked, tuple(amounts), _NOTHING)


def _check_percent(name: str, asked: int, shared: int | None) -> None:
    """Refuse an invalid percentage of devices; the caller adds the container to the fix."""
    if shared is not None:
        if shared == 1 and asked > WHOLE:
            raise ClaimError(f"{name}: {asked} over {GPU_SHARED}: 1 is more than one device: write up to {WHOLE}")
        if asked % shared or asked // shared > WHOLE:
            raise ClaimError(
                f"{name}: {asked} over {GPU_SHARED}: {shared} is not a whole percentage of a device up to {WHOLE}: "
                f"write a multiple of {shared} up to {WHOLE * shared}"
            )
    elif asked > WHOLE and asked % WHOLE:
        message = (
            f"{name}: {asked} is more than one device and no whole number of them: write up to {WHOLE}, or a multiple"
            f" of {WHOLE}"
        )
        raise ClaimError(message, AmountFix("", name, str(asked), asked // WHOLE * WHOLE) if asked <= _MOST else None)


def _of_container(pod: Pod, fix: Fix | None) -> Fix | None:
    """Complete a fix with the container that requests the resource, and with its current text."""
    if not isinstance(fix, AmountFix):
        return fix
    for container in pod.spec.containers:
        if fix.resource in container.requests:
            written = amount_text(container, fix.resource) or fix.written
            return replace(fix, container=container.name, written=written)
    return None


def _advice(requests: Mapping[str, int]) -> str:
    names = ", ".join(sorted(requests))
    if requests.keys() <= {GPU_CORE, GPU_SHARED}:
        return f"{names} does not say how much memory: add {GPU_MEMORY} or {GPU_RATIO}"
    if {GPU_MEMORY, GPU_RATIO} <= requests.keys():
        return f"{GPU_MEMORY} and {GPU_RATIO} are both given: remove one of them"
    single = ", ".join((*WHOLE_GPUS, GPU_PERCENT))
    several = f"{GPU_MEMORY} or {GPU_RATIO} (with {GPU_CORE} and {GPU_SHARED} or without)"
    return f"{names} cannot be asked for together: ask for one of {single} alone, or for {several}"


def _isolated(claim: Claim, provider: str) -> Claim:
    """Return a claim on GPU shares that requires nodes with the same isolation provider as the pod (or none)."""
    return replace(claim, mode=provider) if claim.vendor == GPU and not takes_gpus_whole(claim) else claim


def _holder(pod: Pod) -> int:
    asking = [number for number, c in enumerate(pod.spec.containers) if c.requests.keys() & TYPE_OF.keys()]
    lasting = [number for number in asking if pod.spec.containers[number].type is not ContainerType.INIT]
    return next(iter((*lasting, *asking)), len(pod.spec.containers) - 1)
