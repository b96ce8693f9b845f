"""The claims of a pod's containers, in Volcano's resource names.

Volcano silently ignores unsupported requests, or lets the pod wait forever; here they are refused by name.
"""

from __future__ import annotations

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.values import amount_text, is_asked, memory_amount, percentage, whole_amount, without_count
from vgpu_scheduler.dialects.volcano.names import NAME, VENDOR, VolcanoRequests
from vgpu_scheduler.kube import Container, Pod
from vgpu_scheduler.model import (
    MIB,
    NO_DEFAULTS,
    WHOLE,
    Claim,
    ClaimDefaults,
    ContainerClaims,
    ContainerType,
    PodClaims,
)


def regular_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the containers of ``spec.containers``, which are all that the plugin knows."""
    return tuple(container for container in pod.spec.containers if container.type is ContainerType.APP)


def pod_claims(pod: Pod, requests: VolcanoRequests, defaults: ClaimDefaults = NO_DEFAULTS) -> PodClaims:
    """Return the claims of the regular containers; assignments have entries only for these.

    Parameters
    ----------
    pod
        The pod.
    requests
        The resource names and their units.
    defaults
        Defaults for claims that policies set.

    Raises
    ------
    ClaimError
        If any amount is malformed, beyond a card, or given without a claim, or an init container claims cards: the
        plugin would give it those of another container.
    """
    for container in pod.spec.containers:
        given = next((name for name in _all(requests) if amount_text(container, name) is not None), None)
        if container.type is not ContainerType.APP and given is not None:
            raise ClaimError(
                f'container "{container.name}": {given} is not supported in an init container: '
                "claim it in a regular container"
            )
    return tuple(
        ContainerClaims(container.name, container.type, card_claims(container, requests, defaults), NAME)
        for container in regular_containers(pod)
    )


def card_claims(
    container: Container, requests: VolcanoRequests, defaults: ClaimDefaults = NO_DEFAULTS
) -> tuple[Claim, ...]:
    """Return the container's claim on cards: one or none.

    It needs a limit of cards, or a limit of memory, which then claims one card. Memory, its percentage and cores are
    read from the limits, then from the requests; the percentage takes precedence over the absolute amount.
    """
    if requests.count in container.limits:
        count = whole_amount(container, requests.count) or 0
    elif requests.memory in container.limits:
        count = 1
    else:
        given = next((name for name in _all(requests) if amount_text(container, name) is not None), None)
        if given is not None:
            missing = f"{given} is given without a limit of {requests.count}:"
            raise without_count(container, missing, requests.count, in_limits=True)
        return ()
    if count == 0:
        return ()
    percent = percentage(container, requests.memory_percent, 1) if requests.memory_percent else None
    memory = 0 if percent else memory_amount(container, requests.memory, requests.memory_factor) or 0
    if not percent and not memory:
        memory = defaults.memory_in(MIB * requests.memory_factor)
        percent = 0 if memory else WHOLE
    cores = percentage(container, requests.cores, 0)
    if cores is None:
        cores = defaults.cores or 0
    if defaults.exclusive:
        cores = WHOLE
    return (Claim(VENDOR, count, (1, memory, cores), (0, percent or 0, 0)),)


def asks_for_cards(container: Container, requests: VolcanoRequests) -> bool:
    """Tell whether the container claims cards, even if other amounts are malformed."""
    if requests.count not in container.limits:
        return requests.memory in container.limits
    return is_asked(container, requests.count)


def _all(requests: VolcanoRequests) -> tuple[str, ...]:
    return (requests.count, *requests.amounts)
