"""What the containers of a pod claim, in HAMi's resource names.

The documented defaults hold (D3-21 to D3-29). What HAMi would drop in silence, and the API server would refuse
anyway, is refused here with the field's name and the fix.
"""

from __future__ import annotations

from vgpu_scheduler.dialects.amounts import amount_text, whole_amount
from vgpu_scheduler.dialects.base import ClaimError
from vgpu_scheduler.dialects.hami.vendors.nvidia import VENDOR, NvidiaNames
from vgpu_scheduler.kube import Container, Pod
from vgpu_scheduler.model import NO_TERMS, Claim, ClaimTerms, ContainerClaims, PodClaims

_INT32 = 2**31 - 1
_WHOLE = 100
_MIB = 2**20


def pod_claims(pod: Pod, names: NvidiaNames, terms: ClaimTerms = NO_TERMS) -> PodClaims:
    """Return the claims of every container, init containers first.

    Parameters
    ----------
    pod
        The pod.
    names
        Resource names and defaults.
    terms
        What policies say about claims; they rank above the defaults.

    Raises
    ------
    ClaimError
        If any amount is malformed or given without a count.
    """
    return tuple(
        ContainerClaims(container.name, container.kind, nvidia_claims(container, names, terms))
        for container in pod.spec.containers
    )


def nvidia_claims(container: Container, names: NvidiaNames, terms: ClaimTerms = NO_TERMS) -> tuple[Claim, ...]:
    """Return the container's claim on NVIDIA cards: one or none."""
    count = whole_amount(container, names.count)
    if count is None:
        given = next((name for name in names.amounts if amount_text(container, name) is not None), None)
        if given is not None:
            raise ClaimError(
                f'container "{container.name}": {given} is given without {names.count}: add {names.count}: 1'
            )
        return ()
    if count == 0:
        return ()
    memory = _memory(container, names)
    percent = min(whole_amount(container, names.memory_percent) or 0, _WHOLE)
    if not percent and not memory:
        memory = names.default_memory if terms.memory is None else max(terms.memory // _MIB, 1)
        percent = 0 if memory else _WHOLE
    cores = whole_amount(container, names.cores)
    if cores is None:
        cores = names.default_cores if terms.cores is None else terms.cores
    if terms.exclusive:
        cores = _WHOLE
    return (Claim(VENDOR, count, (1, memory, cores), (0, percent, 0)),)


def asks_for_devices(container: Container, names: NvidiaNames) -> bool:
    """Tell whether the container names the count resource at all, however malformed the rest may be."""
    text = amount_text(container, names.count)
    return text is not None and text.strip() not in {"", "0"}


def _memory(container: Container, names: NvidiaNames) -> int:
    largest = _INT32 // names.memory_factor
    memory = whole_amount(container, names.memory)
    if memory is None:
        return 0
    if memory > largest:
        text = amount_text(container, names.memory)
        unit = "MiB" if names.memory_factor == 1 else f"{names.memory_factor} MiB"
        better = memory // (_MIB * names.memory_factor)  # what was meant if it was meant in bytes
        raise ClaimError(
            f'container "{container.name}": {names.memory}: {text} is more than any card has, '
            f"because the unit is {unit}: write {better or 'a smaller number'}"
        )
    return memory * names.memory_factor
