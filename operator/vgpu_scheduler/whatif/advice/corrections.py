"""What of a pod is hardly meant, or keeps it from every node, and how it would have to be written instead.

That follows from the pod and the settings alone, so that users who may see no node are told it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.dialects import AmountFix, AnnotationFix, AskForCard, LeaveOutResource
from vgpu_scheduler.engine.equivalence import Refused
from vgpu_scheduler.kube import Object, Pod, QuantityError, has_unit, to_int, to_milli
from vgpu_scheduler.model import MIB, WHOLE, Outcome
from vgpu_scheduler.predicates import UnsupportedField, unsupported_fields
from vgpu_scheduler.whatif.advice.remedy import Action, Advice
from vgpu_scheduler.whatif.objects.amounts import AmountChange
from vgpu_scheduler.whatif.objects.containers import containers_of, with_containers
from vgpu_scheduler.whatif.objects.objects import WorldError
from vgpu_scheduler.whatif.world.nodes import with_annotation
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.world import World

__all__ = ["CorrectedPod", "corrected", "refusal_of"]


_AMOUNTS: Final = ("limits", "requests")
_MOST_OF_A_CARD: Final = 2**20
"""MiB that no card has: an amount beyond, with a unit, was meant in bytes."""
_MOST_ROUNDS: Final = 16
"""What is refused is told one after the other."""
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class CorrectedPod:
    """A pod as it would have to be written.

    Attributes
    ----------
    changes
        What is to be changed, in words where it is no amount; empty where nothing is.
    """

    written: Object
    changes: tuple[AmountChange | str, ...] = ()

    @property
    def amounts(self) -> tuple[AmountChange, ...]:
        """The amounts that are to be changed."""
        return tuple(each for each in self.changes if isinstance(each, AmountChange))

    def and_then(self, advice: Iterable[Action] = ()) -> Advice:
        """Return what is to be done after the corrections, with them before it.

        An amount that is asked otherwise then is not corrected before.
        """
        then = tuple(advice)
        asked = [each.amount for each in then]
        kept = (each for each in self.changes if isinstance(each, str) or not any(map(each.is_of, asked)))
        return (*(Action(str(each)) for each in kept), *then)


def corrected(world: World, written: Object) -> CorrectedPod:
    """Return a pod as it is probably meant, with what had to be changed for that.

    Parameters
    ----------
    world
        Knows the scheduler's settings and policies; nothing else need be in it.
    """
    found = _respelt(world, written)
    for _ in range(_MOST_ROUNDS):
        more = (
            _accepted(world, found.written)
            or _in_mebibytes(world, found.written)
            or _without_useless_corrections(world, found.written)
        )
        if more is None:
            break
        found = CorrectedPod(more.written, _made_once(found.changes, more.changes))
    return found


def _made_once(
    before: tuple[AmountChange | str, ...], after: tuple[AmountChange | str, ...]
) -> tuple[AmountChange | str, ...]:
    """Return corrections without those of amounts that are corrected again: the last one is meant."""
    kept = list(before)
    for change in after:
        made = change
        for earlier in before:
            if isinstance(change, AmountChange) and isinstance(earlier, AmountChange):
                both = change.after(earlier)
                if both is not None:
                    kept.remove(earlier)
                    made = both
        kept.append(made)
    return tuple(kept)


def _respelt(world: World, written: Object) -> CorrectedPod:
    """Write the resources of devices whose names are misspelt as they are called."""
    meant_by = world.engine.usage_warnings.meant_by
    misspelt = [
        (field, index, container, name, meant)
        for field, index, container in containers_of(written)
        for name in sorted({name for places in _AMOUNTS for name in _listed(container, places)})
        if (meant := meant_by(name))
    ]
    choices = range(max((len(meant) for *_, meant in misspelt), default=0))
    forms = [_with_names(written, misspelt, choice) for choice in choices]
    fitting = [choice for choice in choices if len(forms) > 1 and _fits(world, forms[choice])] or list(choices)
    texts: dict[str, None] = {}
    for _, _, container, name, meant in misspelt:
        asked = {name for places in _AMOUNTS for name in _listed(container, places)}
        where = f"in container {container.get('name', '')}"
        chosen = list(dict.fromkeys(_chosen(meant, choice) for choice in fitting))
        said = f"write {' or '.join(chosen)} instead of {name} {where}"
        if chosen[0] in asked:
            said = f"leave out {name} {where}, which asks for {chosen[0]} as well"
        texts[said] = None
    return CorrectedPod(forms[fitting[0]] if forms else written, tuple(texts))


def _chosen(meant: Sequence[str], choice: int) -> str:
    return meant[min(choice, len(meant) - 1)]


def _with_names(
    written: Object, misspelt: Sequence[tuple[str, int, Object, str, Sequence[str]]], choice: int
) -> Object:
    """Return a pod whose misspelt resources are called as one of those that may be meant, in the order of these."""
    for field, index, container, name, meant in misspelt:
        asked = {name for places in _AMOUNTS for name in _listed(container, places)}
        chosen = _chosen(meant, choice)
        written = _renamed(written, field, index, name, "" if chosen in asked else chosen)
    return written


def _fits(world: World, written: Object) -> bool:
    """Tell whether a pod would fit now if it were written so."""
    try:
        read = world.pod(written, again=True)
    except WorldError:
        return False
    return world.engine.algorithm.decide(created(world, read, read.uid)).outcome is Outcome.PLACED


def _renamed(written: Object, field: str, index: int, name: str, meant: str) -> Object:
    """Return a pod of which a container asks for another resource, or for none instead of it."""

    def change(amounts: Object) -> Object:
        return {meant if key == name else key: value for key, value in amounts.items() if key != name or meant}

    return _with_amounts(written, field, index, dict.fromkeys(_AMOUNTS, change))


def _with_amounts(written: Object, field: str, index: int, changes: Mapping[str, Any]) -> Object:
    """Return a pod with other limits or requests of a container."""
    spec = written["spec"]
    containers = list(spec[field])
    resources = dict(containers[index].get("resources") or {})
    for place, change in changes.items():
        if (after := change(resources.get(place) or {})) or place in resources:
            resources[place] = after
    containers[index] = {**containers[index], "resources": resources}
    return {**written, "spec": {**spec, field: containers}}


def _accepted(world: World, written: Object) -> CorrectedPod | None:
    """Mend one of the things that a pod is refused for; None where it is for none of which it is known how."""
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


def _refused(world: World, written: Object) -> Refused | None:
    """Return what a pod is refused for before any node is looked at; None where it is not, or cannot be read."""
    try:
        read = world.pod(written, again=True)
    except WorldError:
        return None
    found = world.engine.algorithm.classes.of(created(world, read, read.uid))
    return found if isinstance(found, Refused) else None


def _with_a_card(world: World, written: Object, fix: AskForCard, refusal: str) -> CorrectedPod | None:
    """Ask for a card in a container that asks for none, and amounts of it; where nothing mends that, not for these.

    Where one of the amounts is in the way of another, only that one is left out, the last first: it has no effect.
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
    """Tell whether a pod is refused no more, or for something else that is mended after that."""
    then = _refused(world, written)
    return then is None or then.fix is not None or then.reason in refusal


def _leaving_out(written: Object, container: str, resources: Sequence[str]) -> CorrectedPod | None:
    """Ask for nothing of some resources in a container; None where there is no such container."""
    for field, index, each in containers_of(written):
        if each.get("name") == container:
            for name in resources:
                written = _renamed(written, field, index, name, "")
            return CorrectedPod(written, (f"leave out {' and '.join(resources)} in container {container}",))
    return None


def _without_unsupported(world: World, written: Object) -> CorrectedPod | None:
    for field in unsupported_fields(world.pod(written, again=True)):
        if (without := _without(written, field)) is not None:
            return CorrectedPod(without, (f"leave out {field}",))
    return None


def _mended(world: World, written: Object, fix: AmountFix) -> CorrectedPod | None:
    """Write an amount as it was probably meant, and say what its unit is where that is not plain."""
    if not fix.written:
        text = f"add {fix.resource}: {fix.meant} to the limits of container {fix.container}"
        return _set(written, fix.container, fix.resource, str(fix.meant), text)
    meant, unit = (fix.meant, "") if fix.meant is not None else _whole(world, fix.resource, to_milli(fix.written))
    change = AmountChange(fix.container, fix.resource, fix.written, str(meant), unit)
    return _set(written, fix.container, fix.resource, str(meant), change)


def _whole(world: World, resource: str, milli: int) -> tuple[int, str]:
    """Return what was probably meant by thousandths of a resource of devices, and what is counted of it.

    A fraction of compute is one of a card. Of memory nobody means thousandths: the m was meant as M.
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
        return (milli if milli < _MILLI else rounded_up), f"in {inventory.dimensions[about.dimension].unit}"
    return rounded_up, "a number of cards"


def refusal_of(world: World, written: Object) -> str:
    """Return what a pod is refused for whatever the nodes are; empty where it is not."""
    try:
        pod = world.pod(written, again=True)
        decision = world.engine.algorithm.decide(created(world, pod, pod.uid))
    except WorldError:
        return ""
    return "; ".join(decision.reasons) if decision.outcome is Outcome.REFUSED else ""


def _set(
    written: Object, container: str, resource: str, amount: str, change: AmountChange | str
) -> CorrectedPod | None:
    """Return a pod of which a container asks for an amount of a resource; None where there is no such container."""
    for field, index, each in containers_of(written):
        if each.get("name") == container:
            places = [place for place in _AMOUNTS if resource in _listed(each, place)] or ["limits"]

            def asking(amounts: Object) -> Object:
                return {**amounts, resource: amount}

            return CorrectedPod(_with_amounts(written, field, index, dict.fromkeys(places, asking)), (change,))
    return None


def _annotated(written: Object, fix: AnnotationFix) -> CorrectedPod | None:
    """Return a pod with another value of an annotation, or without it; None where it has none of that name."""
    name = fix.annotation
    if name not in ((written.get("metadata") or {}).get("annotations") or {}):
        return None
    text = f"write {fix.meant} as its annotation {name}" if fix.meant else f"leave out its annotation {name}"
    return CorrectedPod(with_annotation(written, name, fix.meant), (text,))


def _without(written: Object, unsupported: UnsupportedField) -> Object | None:
    """Return a pod without a field that is not supported; None where it has none."""
    spec = dict(written.get("spec") or {})
    if unsupported.volume is not None:
        volumes = list(spec.get("volumes") or ())
        if unsupported.volume >= len(volumes):
            return None
        gone = volumes.pop(unsupported.volume).get("name")
        spec["volumes"] = volumes
        return {**written, "spec": with_containers(spec, lambda each: _without_mounts(each, gone))}
    name = unsupported.name
    if name not in spec:
        return None
    del spec[name]
    if name == "resourceClaims":
        spec = with_containers(spec, _without_claims)
    return {**written, "spec": spec}


def _without_mounts(container: Object, volume: object) -> Object:
    mounts = [each for each in container.get("volumeMounts") or () if each.get("name") != volume]
    return {**container, "volumeMounts": mounts}


def _without_claims(container: Object) -> Object:
    resources = {key: value for key, value in (container.get("resources") or {}).items() if key != "claims"}
    return {**container, "resources": resources}


def _in_mebibytes(world: World, written: Object) -> CorrectedPod | None:
    """Ask one amount of memory in MiB that says more with its unit than any card has; None where none does."""
    for _, _, container in containers_of(written):
        for place in _AMOUNTS:
            for name, quantity in _listed(container, place).items():
                called = str(container.get("name", ""))
                meant = _meant_in_bytes(world, written, called, name, str(quantity))
                if meant:
                    change = AmountChange(called, name, str(quantity), str(meant))
                    return _set(written, called, name, str(meant), change)
    return None


def _meant_in_bytes(world: World, written: Object, container: str, name: str, quantity: str) -> int:
    """Return how much of the memory of cards was meant by an amount in bytes; 0 where it was not meant so."""
    dialect = next((each for each in world.engine.dialects if name in each.inventory.device_resources), None)
    if dialect is None or not has_unit(quantity):
        return 0
    about, limited = dialect.inventory.device_resources[name], dialect.allocation.quota_resources.get(name)
    if about.percent or about.dimension != dialect.inventory.memory or dialect.inventory.memory_unit != MIB:
        return 0
    try:
        amount = to_int(quantity)
        claims = world.engine.algorithm.classes.claims(world.pod(written, again=True))
    except (QuantityError, WorldError):
        return 0
    own = [claim for each in claims if each.name == container for claim in each.claims if claim.vendor == about.vendor]
    most = max((claim.amounts[about.dimension] for claim in own), default=0)
    if (limited is not None and limited.bytes) or most < _MOST_OF_A_CARD or amount < _MOST_OF_A_CARD:
        return 0
    return amount // (MIB * max(most // amount, 1))


def _without_useless_corrections(world: World, written: Object) -> CorrectedPod | None:
    """Leave out one amount that a vendor's plugin has no use for beside the others; None where there is none.

    Where the pod would get whole cards without it, that is no correction: fewer cards may do as they are asked.
    """
    try:
        pod = world.pod(written, again=True)
    except WorldError:
        return None
    fixes = (warning.fix for warning in world.engine.usage_warnings.found_in(pod))
    of_no_use = (fix for fix in fixes if isinstance(fix, LeaveOutResource))
    found = (_leaving_out(written, fix.container, (fix.resource,)) for fix in of_no_use)
    return next((each for each in found if each and not _takes_more(world, pod, each.written)), None)


def _takes_more(world: World, pod: Pod, written: Object) -> bool:
    """Tell whether a pod would get the memory of whole cards if it were written so, and asks for parts of it now."""
    claims = world.engine.algorithm.classes.claims

    def parts(of: Pod) -> int:
        asked = (claim for container in claims(of) for claim in container.claims)
        return sum(claim.amounts[world.engine.dialects[claims(of)[0].dialect].inventory.memory] > 0 for claim in asked)

    return parts(pod) > parts(world.pod(written, again=True))


def _listed(container: Object, place: str) -> Object:
    found = (container.get("resources") or {}).get(place)
    return found if isinstance(found, Mapping) else {}
