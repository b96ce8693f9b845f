"""Which claim, volume or class is behind the reasons that nodes give for the volumes of a pod, and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_scheduler.kube import NodeSelector, Operator, PersistentVolumeClaim, Pod, Requirement
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.predicates.volumes.filters import existing_volume_claims
from vgpu_scheduler.whatif.objects.expressions import describe_expression
from vgpu_scheduler.whatif.world.world import World

__all__ = ["awaited_volumes", "volume_causes"]


def awaited_volumes(world: World, pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the claims of a pod whose volumes are being made, each with the node that was selected for it."""
    for claim in existing_volume_claims(pod, world.engine.state):
        if not claim.bound and claim.selected_node:
            yield claim.key, claim.selected_node


def volume_causes(world: World, pod: Pod, reasons: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each claim of a pod that may be why nodes reject it.

    Parameters
    ----------
    reasons
        How many nodes there are under each reason.
    """
    for claim in existing_volume_claims(pod, world.engine.state):
        if not claim.bound:
            yield from _unbound(world, claim, reasons)
        elif filters.VOLUME_ELSEWHERE.text in reasons:
            volume = world.engine.state.volumes.objects.volumes.get(claim.volume_name)
            if volume is not None and volume.node_affinity is not None:
                where = _worded(volume.node_affinity)
                yield f"Its claim {claim.key} is bound to volume {volume.name}, which nodes with {where} reach."


def _unbound(world: World, claim: PersistentVolumeClaim, reasons: Mapping[str, int]) -> Iterator[str]:
    """Say what the class of a claim without a volume lets be made, and where."""
    found = world.engine.state.volumes.objects.class_of(claim)
    if found is None:
        return
    if filters.NO_VOLUME.text in reasons and not found.provisions:
        yield (
            f"Its claim {claim.key} waits for a volume of class {found.name}, which makes none: somebody has to provide"
            " one that is free, large enough and reached from a node that fits."
        )
    elif filters.NO_VOLUME.text in reasons and found.allowed_topologies is not None:
        where = _worded(found.allowed_topologies)
        yield f"Class {found.name} of its claim {claim.key} makes volumes for nodes with {where} (allowedTopologies)."
    if filters.NO_STORAGE.text in reasons:
        yield (
            f"Driver {found.provisioner} of its claim {claim.key} says that nodes have no room for a volume of that"
            " size (CSIStorageCapacity)."
        )


def _worded(selector: NodeSelector) -> str:
    """Word a node selector: any of its terms is enough."""
    terms = (
        " and ".join(
            [
                *(describe_expression(_written(each)) for each in term.expressions),
                *(f"{field.key} {'!' if field.negated else ''}= {field.value}" for field in term.fields),
            ]
        )
        for term in selector.terms
    )
    return " or ".join(filter(None, terms)) or "labels that no node can have"


def _written(requirement: Requirement) -> Mapping[str, object]:
    """Return a requirement as the API writes it."""
    compared = requirement.operator in {Operator.GT, Operator.LT}
    values = [str(requirement.bound)] if compared else sorted(requirement.values)
    return {"key": requirement.key, "operator": str(requirement.operator), "values": values}
