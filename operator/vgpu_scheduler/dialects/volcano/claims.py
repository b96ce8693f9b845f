"""What the containers of a pod claim, in Volcano's resource names.

Volcano drops in silence what it does not follow, or lets the pod wait for ever; here that is refused by name.
"""

from __future__ import annotations

from vgpu_scheduler.dialects.base import ClaimError
from vgpu_scheduler.dialects.volcano.names import VENDOR, VolcanoNames
from vgpu_scheduler.kube import Container, ContainerKind, Pod, QuantityError, to_exact_int
from vgpu_scheduler.model import NO_TERMS, Claim, ClaimTerms, ContainerClaims, PodClaims

_INT32 = 2**31 - 1
_WHOLE = 100
_MIB = 2**20


def regular_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the containers that the plugin knows: those of ``spec.containers``, by position."""
    return tuple(container for container in pod.spec.containers if container.kind is ContainerKind.APP)


def pod_claims(pod: Pod, names: VolcanoNames, terms: ClaimTerms = NO_TERMS) -> PodClaims:
    """Return the claims of every regular container, and of these only: assignments count no others.

    Parameters
    ----------
    pod
        The pod.
    names
        Resource names.
    terms
        What policies say about claims.

    Raises
    ------
    ClaimError
        If any amount is malformed, beyond a card, or given without a claim, or an init container asks for cards: the
        plugin would hand it those of another container.
    """
    for container in pod.spec.containers:
        given = next((name for name in _all(names) if _text(container, name) is not None), None)
        if container.kind is not ContainerKind.APP and given is not None:
            raise ClaimError(
                f'container "{container.name}": {given} is not supported in an init container: '
                "claim it in a regular container"
            )
    return tuple(
        ContainerClaims(container.name, container.kind, card_claims(container, names, terms))
        for container in regular_containers(pod)
    )


def card_claims(container: Container, names: VolcanoNames, terms: ClaimTerms = NO_TERMS) -> tuple[Claim, ...]:
    """Return the container's claim on cards: one or none.

    A limit of cards makes it one, or a limit of memory, which then is of one card. Memory, its percentage and cores
    are looked up in the limits, then in the requests; the percentage beats the absolute amount (C-09).
    """
    if names.count in container.limits:
        count = _amount(container, names.count) or 0
    elif names.memory in container.limits:
        count = 1
    else:
        given = next((name for name in _all(names) if _text(container, name) is not None), None)
        if given is not None:
            raise ClaimError(
                f'container "{container.name}": {given} is given without a limit of {names.count}: '
                f"add {names.count}: 1 to the limits"
            )
        return ()
    if count == 0:
        return ()
    percent = _percentage(container, names.memory_percent, least=1) if names.memory_percent else None
    memory = 0 if percent else _memory(container, names)
    if not percent and not memory:
        memory = 0 if terms.memory is None else max(terms.memory // (_MIB * names.memory_factor), 1)
        percent = 0 if memory else _WHOLE
    cores = _percentage(container, names.cores, least=0)
    if cores is None:
        cores = terms.cores or 0
    if terms.exclusive:
        cores = _WHOLE
    return (Claim(VENDOR, count, (1, memory, cores), (0, percent or 0, 0)),)


def asks_for_cards(container: Container, names: VolcanoNames) -> bool:
    """Tell whether the container claims cards at all, however malformed the rest may be."""
    text = container.limits.get(names.count)
    if text is None:
        return names.memory in container.limits
    return text.strip() not in {"", "0"}


def _all(names: VolcanoNames) -> tuple[str, ...]:
    return (names.count, *names.amounts)


def _memory(container: Container, names: VolcanoNames) -> int:
    memory = _amount(container, names.memory) or 0
    if memory > _INT32:
        unit = "MiB" if names.memory_factor == 1 else f"{names.memory_factor} MiB"
        better = memory // (_MIB * names.memory_factor)  # what was meant if it was meant in bytes
        raise ClaimError(
            f'container "{container.name}": {names.memory}: {_text(container, names.memory)} is more than any card '
            f"has, because the unit is {unit}: write {better or 'a smaller number'}"
        )
    return memory


def _percentage(container: Container, resource: str, *, least: int) -> int | None:
    amount = _amount(container, resource)
    if amount is not None and not least <= amount <= _WHOLE:
        raise ClaimError(
            f'container "{container.name}": {resource}: {_text(container, resource)} is no percentage of a card: '
            f"write {least} to {_WHOLE}"
        )
    return amount


def _text(container: Container, resource: str) -> str | None:
    """Look a resource up in the limits, then in the requests."""
    value = container.limits.get(resource)
    return container.requests.get(resource) if value is None else value


def _amount(container: Container, resource: str) -> int | None:
    text = _text(container, resource)
    if text is None:
        return None
    where = f'container "{container.name}": {resource}: {text}'
    try:
        amount = to_exact_int(text)
    except QuantityError as error:
        raise ClaimError(f"{where} is not a quantity: {error}") from None
    if amount is None:
        raise ClaimError(f"{where} is not a whole number: write an integer")
    if amount < 0:
        raise ClaimError(f"{where} is negative: write an integer of 0 or more")
    return amount
