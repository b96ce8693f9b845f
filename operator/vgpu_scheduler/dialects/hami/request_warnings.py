"""Warnings about requests for HAMi's cards that have an unexpected effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.fixes import AmountFix, RequestWarning
from vgpu_scheduler.dialects.hami.vendors import Vendor
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import NUMA_BIND
from vgpu_scheduler.dialects.values import no_boolean, no_card, no_such_word, number_of, suspicious_modes
from vgpu_scheduler.kernels import CORES, MEMORY
from vgpu_scheduler.kube import Container, go_bool
from vgpu_scheduler.model import NO_DEFAULTS, WHOLE


def suspicious_annotations(annotations: Mapping[str, str], vendors: Iterable[Vendor]) -> Iterator[RequestWarning]:
    """Yield warnings about the annotations that these vendors read.

    Raises
    ------
    ClaimError
        If one names an unknown sharing mode.
    """
    if NUMA_BIND in annotations and go_bool(annotations[NUMA_BIND]) is None:
        yield no_boolean(NUMA_BIND, annotations[NUMA_BIND])
    said: set[str] = set()
    for vendor in vendors:
        mode = annotations.get(vendor.rules.mode)
        if mode is not None and (text := suspicious_modes(vendor.rules.mode, mode, vendor.rules.modes)):
            yield text
        for name, words in vendor.options.known.items() if vendor.options else ():
            if name in annotations and name not in said:
                said.add(name)  # several vendors may read the same annotation
                yield from _suspicious_word(name, annotations[name], words, vendor)


def _suspicious_word(name: str, value: str, words: tuple[str, ...], vendor: Vendor) -> Iterator[RequestWarning]:
    if not words:
        if go_bool(value) is None:
            yield no_boolean(name, value)
    elif value not in words and (vendor.options is None or vendor.options.followed_by_node.get(name) != value):
        yield no_such_word(name, value, words)


def suspicious_amounts(container: Container, vendor: Vendor, mode: str) -> Iterator[RequestWarning]:
    """Yield warnings about the amounts of a vendor's cards that a container requests, for a pod's sharing mode."""
    claims = vendor.claims
    asked = {**container.requests, **container.limits}
    amounts = {name: number_of(asked[name]) for name in (*claims.resources, *claims.choices) if name in asked}
    given = [name for name in claims.resources if amounts.get(name)]
    first, *others = claims.counts
    if amounts.get(first) == 0 and given:
        yield no_card(container, first, given)
    elif amounts.get(first):
        beaten = [name for name in others if name in given]
        if beaten:
            yield RequestWarning(f"{', '.join(beaten)} {'have' if len(beaten) > 1 else 'has'} no effect beside {first}")
        yield from _suspicious_memory(amounts, vendor)
        if vendor.suspicious is not None:
            yield from vendor.suspicious({name: amount for name, amount in amounts.items() if amount}, mode)
    for name, dimension, percent in claims.dimensions:
        of_whole = percent or (dimension == CORES and claims.units == WHOLE)
        most = WHOLE * (amounts.get(first) or 1) if vendor.sums_cores and dimension == CORES else WHOLE
        if of_whole and (amounts.get(name) or 0) > most and _is_understood(container, vendor, mode):
            what = f"{name}: {asked[name]} is more than a whole card"
            fix = AmountFix(container.name, name, str(asked[name]), WHOLE)
            yield RequestWarning(f"{what}, and counts as {WHOLE}", f"{what}: write {WHOLE}", fix)
    for name, numbers in claims.choices.items():
        if name in amounts and amounts[name] not in numbers:
            what = f"{name}: {asked[name]} is not one of {', '.join(map(str, numbers))}"
            yield RequestWarning(f"{what}: only the plugin knows its meaning", f"{what}: write one of them")


def _is_understood(container: Container, vendor: Vendor, mode: str) -> bool:
    """Tell whether a container's claim on a vendor is valid; a refused pod needs no warning that an amount is cut."""
    try:
        vendor.claims.read(vendor.key, container, NO_DEFAULTS, mode)
    except ClaimError:
        return False
    return True


def _suspicious_memory(amounts: Mapping[str, int | None], vendor: Vendor) -> Iterator[RequestWarning]:
    """Yield warnings about memory: 0, or both an amount and a percentage."""
    named = [name for name, dimension, _ in vendor.claims.dimensions if dimension == MEMORY and name in amounts]
    given = [name for name in named if amounts[name]]
    if named and not given:
        what = f"{', '.join(named)}: 0 is not an amount"
        yield RequestWarning(f"{what}, so it gets {vendor.claims.of_zero}", f"{what}: write how much, or leave it out")
    for name in given[1:]:
        yield RequestWarning(f"{name} has no effect beside {given[0]}")
