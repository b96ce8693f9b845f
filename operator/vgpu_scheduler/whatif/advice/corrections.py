"""Find likely mistakes in a pod, or requests that no node can satisfy, and how to correct them.

Corrections follow from the pod and the settings alone, so users who may not see nodes get them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vgpu_scheduler.dialects import AmountFix, AnnotationFix, AskForCard, LeaveOutResource
from vgpu_scheduler.engine.device_names import OF_OTHER_PLUGINS, domain_of
from vgpu_scheduler.engine.equivalence import RefusedClass
from vgpu_scheduler.kube import AMOUNT_FIELDS, Object, Pod, QuantityError, has_unit, to_int, to_milli
from vgpu_scheduler.model import MIB, WHOLE, Outcome, by_name
from vgpu_scheduler.predicates import UnsupportedField, unsupported_fields
from vgpu_scheduler.whatif.advice.constraints import annotation_words
from vgpu_scheduler.whatif.advice.corrected_pod import Change, CorrectedPod, Correction
from vgpu_scheduler.whatif.advice.mig_names import as_pieces_of_cards
from vgpu_scheduler.whatif.advice.remedy import Action, leave_out_resources
from vgpu_scheduler.whatif.objects.amounts import AmountChange
from vgpu_scheduler.whatif.objects.card_names import asks_for_cards, card_names, unit_of
from vgpu_scheduler.whatif.objects.containers import (
    amounts_asked,
    amounts_at,
    containers_of,
    with_amount,
    with_amounts,
    with_container,
    with_containers,
)
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError, annotations_in
from vgpu_scheduler.whatif.world.nodes import with_annotation
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.world import World

_MOST_OF_A_CARD: Final = 2**20
"""More MiB than any card has: a larger amount with a unit was meant in bytes."""
_MOST_ROUNDS: Final = 16
"""The most corrections in a row; the scheduler reports one refusal at a time."""
_MILLI: Final = 1000
_GROUP: Final = "schedulingGroup"
_RESOURCE_CLAIMS: Final = "resourceClaims"
_OTHER_GROUP: Final = f"leave out spec.{_GROUP}, or name a PodGroup in spec.{_GROUP}.podGroupName"


def corrected(world: World, written: Object) -> CorrectedPod:
    """Return a pod as it was probably meant, with the corrections.

    Parameters
    ----------
    world
        A world with the scheduler's settings and policies; it may be empty otherwise.
    """
    found = respelt(world, written)
    for _ in range(_MOST_ROUNDS):
        more = (
            as_pieces_of_cards(world, found.written)
            or _accepted(world, found.written)
            or _in_mebibytes(world, found.written)
            or _without_useless_corrections(world, found.written)
        )
        if more is None:
            break
        found = found.corrected_further(more)
    return found


def respelt(world: World, written: Object) -> CorrectedPod:
    """Return a pod with the misspelt names of its device resources corrected."""
    meant_by = world.engine.request_warnings.names.meant_by
    misspelt = [
        (field, index, container, name, meant)
        for field, index, container in containers_of(written)
        for name in sorted(amounts_asked(container))
        if (meant := meant_by(name))
    ]
    choices = range(max((len(meant) for *_, meant in misspelt), default=0))
    forms = [_with_names(written, misspelt, choice) for choice in choices]
    fitting = [choice for choice in choices if len(forms) > 1 and _fits(world, forms[choice])] or list(choices)
    corrections: dict[Correction, None] = {}
    for _, _, container, name, meant in misspelt:
        asked = amounts_asked(container)
        called = str(container.get("name", ""))
        where = f"in container {called}"
        chosen = list(dict.fromkeys(_chosen(meant, choice) for choice in fitting))
        said = Action(f"write {' or '.join(chosen)} instead of {name} {where}")
        correction = Correction(said, called, chosen[0], name)
        if chosen[0] in asked:
            correction = Correction(Action(f"leave out {name} {where}, which asks for {chosen[0]} as well"))
        corrections[correction] = None
    return CorrectedPod(forms[fitting[0]] if forms else written, tuple(corrections))


def _chosen(meant: Sequence[str], choice: int) -> str:
    return meant[min(choice, len(meant) - 1)]


def _with_names(
    written: Object, misspelt: Sequence[tuple[str, int, Object, str, Sequence[str]]], choice: int
) -> Object:
    """Return a pod with each misspelt resource replaced by one of the names that may be meant, chosen by index."""
    for field, index, container, name, meant in misspelt:
        asked = amounts_asked(container)
        chosen = _chosen(meant, choice)
        written = _renamed(written, field, index, name, "" if chosen in asked else chosen)
    return written


def _fits(world: World, written: Object) -> bool:
    """Tell whether another version of the pod would fit now."""
    try:
        read = world.pod(written, again=True)
    except InvalidObjectsError:
        return False
    return world.engine.algorithm.decide(created(world, read, read.uid)).outcome is Outcome.PLACED


def _renamed(written: Object, field: str, index: int, name: str, meant: str) -> Object:
    """Return a pod in which a container's resource is renamed, or removed if the new name is empty."""

    def change(amounts: Object) -> Object:
        return {meant if key == name else key: value for key, value in amounts.items() if key != name or meant}

    return with_container(written, field, index, with_amounts(written["spec"][field][index], change))


def _accepted(world: World, written: Object) -> CorrectedPod | None:
    """Correct the mistake for which a pod is refused; None if it is not refused, or no correction is known."""
    refused = _refused(world, written)
    if refused is None:
        return None
    match refused.fix:
        case AmountFix():
            return _mended(world, written, refused.fix)
        case AskForCard():
            return _with_a_card(world, written, refused.fix, refused.reason)
        case LeaveOutResource(container, resource):
            return _leaving_out(written, container, (resource,))
        case AnnotationFix():
            return _annotated(written, refused.fix)
        case None:
            return _without_unsupported(world, written)


def _refused(world: World, written: Object) -> RefusedClass | None:
    """Return the refusal of a pod that does not depend on nodes; None if there is none, or the pod cannot be read."""
    try:
        read = world.pod(written, again=True)
    except InvalidObjectsError:
        return None
    found = world.engine.algorithm.classes.of(created(world, read, read.uid))
    return found if isinstance(found, RefusedClass) else None


def _with_a_card(world: World, written: Object, fix: AskForCard, refusal: str) -> CorrectedPod | None:
    """Add a card to a container that asks only for amounts of one; if that does not help, drop these amounts.

    If the amounts conflict with each other, drop only one, the last first: it has no effect.
    """
    mended = _mended(world, written, AmountFix(fix.container, fix.resource, "0", 1))
    if mended is None or _is_mendable(world, mended.written, refusal):
        return mended
    for name in reversed(fix.others if len(fix.others) > 1 else ()):
        left = _leaving_out(mended.written, fix.container, (name,))
        if left is not None and _is_mendable(world, left.written, refusal):
            return CorrectedPod(left.written, (*mended.changes, *left.changes))
    return _leaving_out(written, fix.container, fix.others)


def _is_mendable(world: World, written: Object, refusal: str) -> bool:
    """Tell whether a pod is no longer refused, or refused for something that can be corrected next."""
    then = _refused(world, written)
    return then is None or then.fix is not None or then.reason in refusal


def _leaving_out(written: Object, container: str, resources: Sequence[str]) -> CorrectedPod | None:
    """Remove resources from a container; None if there is no such container."""
    for field, index, each in containers_of(written):
        if each.get("name") == container:
            for name in resources:
                written = _renamed(written, field, index, name, "")
            return CorrectedPod(written, (Correction(leave_out_resources(resources, [container])),))
    return None


def _without_unsupported(world: World, written: Object) -> CorrectedPod | None:
    for field in unsupported_fields(world.pod(written, again=True)):
        if (without := _without(written, field)) is not None:
            is_group = field.volume is None and field.name.startswith(_GROUP)
            text = _OTHER_GROUP if is_group else f"leave out {field}"
            if field.name == _RESOURCE_CLAIMS:
                text += _with_the_claims(world, written, without)
            return CorrectedPod(without, (Correction(Action(text)),))
    return None


def _with_the_claims(world: World, written: Object, without: Object) -> str:
    """Say what a pod without ``resourceClaims`` has to leave out as well, and that it may have no cards then."""
    containers = containers_of(written)
    names = [str(each.get("name", "")) for _, _, each in containers if (each.get("resources") or {}).get("claims")]
    text = f" and resources.claims in {by_name('container', names)}" if names else ""
    if not asks_for_cards(card_names(world.engine.dialects), world.pod(without, again=True)):
        text += "; the pod asks for no card then, so if it needs one, ask for it by a resource of a device plugin"
    return text


def _mended(world: World, written: Object, fix: AmountFix) -> CorrectedPod | None:
    """Set an amount to what was probably meant, naming its unit if the resource's name does not tell it."""
    if not fix.written:
        if (renamed := _with_named_count(world, written, fix)) is not None:
            return renamed
        add = Action(f"add {fix.resource}: {fix.meant} to the limits of container {fix.container}")
        addition = Correction(add, fix.container, fix.resource)
        return _set(written, fix.container, fix.resource, str(fix.meant), addition)
    meant, unit = (fix.meant, "") if fix.meant is not None else _whole(world, fix.resource, to_milli(fix.written))
    change = AmountChange(fix.container, fix.resource, fix.written, str(meant), unit)
    return _set(written, fix.container, fix.resource, str(meant), change)


def _with_named_count(world: World, written: Object, fix: AmountFix) -> CorrectedPod | None:
    """Rename the count of another device plugin, beside which the missing resource is asked; None if there is none."""
    names, offered = world.engine.request_warnings.names, world.engine.state.nodes.offered()
    for field, index, each in containers_of(written):
        asked = amounts_at(each, "limits") if each.get("name") == fix.container else {}
        counts = [
            name
            for name in asked
            if name in OF_OTHER_PLUGINS - names.known - offered and domain_of(name) == domain_of(fix.resource)
        ]
        if len(counts) == 1:
            (name,) = counts
            write = Action(f"write {fix.resource} instead of {name} in container {fix.container}")
            correction = Correction(write, fix.container, fix.resource, name)
            return CorrectedPod(_renamed(written, field, index, name, fix.resource), (correction,))
    return None


def _whole(world: World, resource: str, milli: int) -> tuple[int, str]:
    """Return the amount probably meant by a fraction of a device resource (in thousandths), with its unit.

    A fraction of compute is meant as one of a card. For memory in MiB, the suffix ``m`` was meant as ``M``.
    """
    rounded_up = -(-milli // _MILLI)
    dialect = next((each for each in world.engine.dialects if resource in each.inventory.device_resources), None)
    if dialect is None:
        return rounded_up, ""
    inventory, about = dialect.inventory, dialect.inventory.device_resources[resource]
    if about.percent or about.dimension == inventory.cores:
        of_card = WHOLE if about.percent else inventory.compute_units.get(about.vendor, WHOLE)
        unit = "in percent of a card" if of_card == WHOLE else f"in {of_card} parts of a card"
        return (-(-milli * of_card // _MILLI) if milli <= _MILLI else rounded_up), unit
    if about.dimension == inventory.memory:
        if unit := unit_of((dialect,), resource):
            return rounded_up, unit
        return (milli if milli < _MILLI else rounded_up), "in MiB"
    counts = [name for name, other in inventory.device_resources.items() if replace(other, percent=False) == about]
    return rounded_up, "a number of cards" if counts == [resource] else ""


def refusal_of(world: World, written: Object) -> str:
    """Return why a pod is refused on all nodes; empty if it is not."""
    try:
        pod = world.pod(written, again=True)
        decision = world.engine.algorithm.decide(created(world, pod, pod.uid))
    except InvalidObjectsError:
        return ""
    return "; ".join(reason.text for reason in decision.reasons) if decision.outcome is Outcome.REFUSED else ""


def _set(written: Object, container: str, resource: str, amount: str, change: Change) -> CorrectedPod | None:
    """Set a container's amount of a resource; None if there is no such container."""
    for field, index, each in containers_of(written):
        if each.get("name") == container:
            asking = with_amount(each, resource, amount)
            return CorrectedPod(with_container(written, field, index, asking), (change,))
    return None


def _annotated(written: Object, fix: AnnotationFix) -> CorrectedPod | None:
    """Replace or remove an annotation; None if the pod does not have it."""
    name, given = fix.annotation, annotations_in(written)
    if name not in given:
        return None
    correction = Correction(Action(f"leave out its annotation {name}"))
    if fix.meant:
        write, was = Action(f"write {fix.meant} as its annotation {name}"), annotation_words(name, given[name])
        correction = Correction(write, writes=annotation_words(name, fix.meant), was=was)
    return CorrectedPod(with_annotation(written, name, fix.meant), (correction,))


def _without(written: Object, unsupported: UnsupportedField) -> Object | None:
    """Return a pod without an unsupported field; None if it does not have it."""
    spec = dict(written.get("spec") or {})
    if unsupported.volume is not None:
        volumes = list(spec.get("volumes") or ())
        if unsupported.volume >= len(volumes):
            return None
        gone = volumes.pop(unsupported.volume).get("name")
        spec["volumes"] = volumes
        return {**written, "spec": with_containers(spec, lambda each: _without_mounts(each, gone))}
    name = _GROUP if unsupported.name.startswith(_GROUP) else unsupported.name
    if name not in spec:
        return None
    del spec[name]
    if name == _RESOURCE_CLAIMS:
        spec = with_containers(spec, _without_claims)
    return {**written, "spec": spec}


def _without_mounts(container: Object, volume: object) -> Object:
    mounts = [each for each in container.get("volumeMounts") or () if each.get("name") != volume]
    return {**container, "volumeMounts": mounts}


def _without_claims(container: Object) -> Object:
    resources = {key: value for key, value in (container.get("resources") or {}).items() if key != "claims"}
    return {**container, "resources": resources}


def _in_mebibytes(world: World, written: Object) -> CorrectedPod | None:
    """Convert one memory amount that exceeds any card from bytes to MiB; None if there is none."""
    for _, _, container in containers_of(written):
        for place in AMOUNT_FIELDS:
            for name, quantity in amounts_at(container, place).items():
                called = str(container.get("name", ""))
                meant = _meant_in_bytes(world, written, called, name, str(quantity))
                if meant:
                    change = AmountChange(called, name, str(quantity), str(meant))
                    return _set(written, called, name, str(meant), change)
    return None


def _meant_in_bytes(world: World, written: Object, container: str, name: str, quantity: str) -> int:
    """Return the MiB meant by a memory amount in bytes; 0 if it was not meant in bytes."""
    dialect = next((each for each in world.engine.dialects if name in each.inventory.device_resources), None)
    if dialect is None or not has_unit(quantity):
        return 0
    about, limited = dialect.inventory.device_resources[name], dialect.allocation.quota_resources.get(name)
    if about.percent or about.dimension != dialect.inventory.memory or dialect.inventory.memory_unit != MIB:
        return 0
    try:
        amount = to_int(quantity)
        claims = world.engine.algorithm.classes.claims(world.pod(written, again=True))
    except (QuantityError, InvalidObjectsError):
        return 0
    own = [claim for each in claims if each.name == container for claim in each.claims if claim.vendor == about.vendor]
    most = max((claim.amounts[about.dimension] for claim in own), default=0)
    if (limited is not None and limited.bytes) or most < _MOST_OF_A_CARD or amount < _MOST_OF_A_CARD:
        return 0
    return amount // (MIB * max(most // amount, 1))


def _without_useless_corrections(world: World, written: Object) -> CorrectedPod | None:
    """Remove one amount that the vendor's device plugin ignores beside others; None if there is none.

    If the pod would get whole cards without it, that is no correction, since asking for fewer cards may help instead.
    """
    try:
        pod = world.pod(written, again=True)
    except InvalidObjectsError:
        return None
    fixes = (warning.fix for warning in world.engine.request_warnings.found_in(pod))
    of_no_use = (fix for fix in fixes if isinstance(fix, LeaveOutResource))
    found = (_leaving_out(written, fix.container, (fix.resource,)) for fix in of_no_use)
    return next((each for each in found if each and not _takes_more(world, pod, each.written)), None)


def _takes_more(world: World, pod: Pod, written: Object) -> bool:
    """Tell whether another version of the pod would get whole cards where it asks for parts of them now."""
    claims = world.engine.algorithm.classes.claims

    def parts(of: Pod) -> int:
        asked = (claim for container in claims(of) for claim in container.claims)
        return sum(claim.amounts[world.engine.dialects[claims(of)[0].dialect].inventory.memory] > 0 for claim in asked)

    return parts(pod) > parts(world.pod(written, again=True))
