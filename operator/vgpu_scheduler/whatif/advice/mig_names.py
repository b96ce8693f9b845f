"""Correct pods that ask for MIG instances as NVIDIA's own device plugin names them, where this scheduler cuts cards."""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami.vendors import nvidia_names as hami
from vgpu_scheduler.dialects.volcano import names as volcano
from vgpu_scheduler.engine.device_names import MIG_INSTANCE
from vgpu_scheduler.kube import AMOUNT_FIELDS, Object, QuantityError, to_int
from vgpu_scheduler.model import GIB
from vgpu_scheduler.whatif.advice.corrected_pod import CorrectedPod, Correction
from vgpu_scheduler.whatif.advice.other_names import Asked
from vgpu_scheduler.whatif.advice.remedy import Action
from vgpu_scheduler.whatif.objects.containers import (
    containers_of,
    with_amounts,
    with_containers,
    without_amounts,
)
from vgpu_scheduler.whatif.objects.objects import annotations_in
from vgpu_scheduler.whatif.world.nodes import with_annotation
from vgpu_scheduler.whatif.world.world import World

_MODES: Final = (hami.MODE, volcano.MODE)
"""The annotations that ask for a mode of cards, one for each dialect that cuts cards."""


def as_pieces_of_cards(world: World, written: Object) -> CorrectedPod | None:
    """Ask for one kind of MIG instance as a card's memory in mode ``mig``.

    Return None if there is no such request, nodes offer the instances themselves, or no card can be cut into them.
    """
    offered = world.engine.state.nodes.offered()
    for _, _, container in containers_of(written):
        limits = (container.get("resources") or {}).get("limits") or {}
        asked = {name: found[1] for name in limits if (found := MIG_INSTANCE.fullmatch(name)) and name not in offered}
        if len(asked) == 1:
            ((name, profile),) = asked.items()
            cut = _cut_into(world, profile)
            corrected = None if cut is None else _corrected(written, str(container.get("name", "")), name, *cut)
            if corrected is not None:
                return corrected
    return None


def piece_of_unknown_cards(world: World, written: Object, container: str, name: str) -> str:
    """Propose to ask for a kind of MIG instance as a card's memory, for readers who may see no cards.

    Return nothing for other resources, or if no dialect can express the request.
    """
    found = MIG_INSTANCE.fullmatch(name)
    for dialect in world.engine.dialects if found else ():
        memory = int(found[2]) * GIB // 16 * 15 if found else 0
        if corrected := _corrected(written, container, name, dialect, memory):
            return str(corrected.changes[0])
    return ""


def _corrected(written: Object, container: str, name: str, dialect: Dialect, memory: int) -> CorrectedPod | None:
    mode = next((each for each in _MODES if each in dialect.claims.pod_annotations), "")
    given = annotations_in(written)
    amounts = _amounts(written, container, name, dialect, memory)
    if not mode or not amounts or given.get(mode, hami.MODE_MIG) != hami.MODE_MIG:
        return None
    what = " and ".join(f"{amount} of {resource}" for resource, amount in amounts.items())
    action = Action(f"ask {what} in container {container}, with annotation {mode}: {hami.MODE_MIG}, instead of {name}")

    def change(each: Object) -> Object:
        if each.get("name") != container:
            return each
        places = [place for place in AMOUNT_FIELDS if place in each["resources"]]
        return with_amounts(without_amounts(each, (name,)), lambda listed: {**listed, **amounts}, places)

    changed = with_annotation({**written, "spec": with_containers(written["spec"], change)}, mode, hami.MODE_MIG)
    return CorrectedPod(changed, (Correction(action, container, next(iter(amounts)), name),))


def _cut_into(world: World, profile: str) -> tuple[Dialect, int] | None:
    """Return a dialect that can cut a card into instances of a profile, and their memory in bytes."""
    for _, dialect, device in world.listed_devices():
        inventory = dialect.inventory
        for piece in device.pieces:
            if piece.profile == profile:
                return dialect, piece.amounts[inventory.memory] * inventory.memory_unit
    return None


def _amounts(written: Object, container: str, name: str, dialect: Dialect, memory: int) -> dict[str, str]:
    """Return what the container has to ask for instead; empty if it asks for cards of the dialect as well."""
    (each,) = (each for _, _, each in containers_of(written) if each.get("name", "") == container)
    limits = each["resources"]["limits"]
    if not dialect.claims.resources.isdisjoint(limits):
        return {}
    try:
        count = to_int(str(limits[name]))
    except QuantityError:
        return {}
    return dict(Asked(count, memory, 0, 0).in_names_of(dialect)) if count else {}
