"""The claims, volumes and classes behind the reasons that nodes give for a pod's volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_scheduler.kube import NodeSelector, Operator, PersistentVolumeClaim, Pod, Requirement
from vgpu_scheduler.model import RejectionReason
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.predicates.volumes.filters import existing_volume_claims
from vgpu_scheduler.whatif.objects.expressions import describe_expression
from vgpu_scheduler.whatif.world.world import World


def awaited_volumes(world: World, pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the claims of a pod whose volumes are being provisioned, each with its selected node."""
    for claim in existing_volume_claims(pod, world.engine.state):
        if not claim.bound and claim.selected_node:
            yield claim.key, claim.selected_node


def volume_causes(world: World, pod: Pod, reasons: Mapping[RejectionReason, int]) -> Iterator[str]:
    """Yield a sentence for each claim of a pod that may be the cause of nodes' reasons.

    Parameters
    ----------
    reasons
        The number of nodes by reason.
    """
    for claim in existing_volume_claims(pod, world.engine.state):
        if not claim.bound:
            yield from _unbound(world, claim, reasons)
        elif filters.VOLUME_ELSEWHERE in reasons:
            volume = world.engine.state.volumes.objects.volumes.get(claim.volume_name)
            if volume is not None and volume.node_affinity is not None:
                where = _format_node_selector(volume.node_affinity)
                yield f"Its claim {claim.key} is bound to volume {volume.name}, which nodes with {where} reach."


def _unbound(world: World, claim: PersistentVolumeClaim, reasons: Mapping[RejectionReason, int]) -> Iterator[str]:
    """Say what the storage class of an unbound claim can provision, and where."""
    found = world.engine.state.volumes.objects.class_of(claim)
    if found is None:
        return
    if filters.NO_VOLUME in reasons and not found.provisions:
        yield (
            f"Its claim {claim.key} waits for a volume of class {found.name}, which provisions none: provide "
            "one that is free, large enough and reachable from a node that fits."
        )
    elif filters.NO_VOLUME in reasons and found.allowed_topologies is not None:
        where = _format_node_selector(found.allowed_topologies)
        yield f"Class {found.name} of its claim {claim.key} makes volumes for nodes with {where} (allowedTopologies)."
    if filters.NO_STORAGE in reasons:
        yield (
            f"Driver {found.provisioner} of its claim {claim.key} says that nodes have no room for a volume of that"
            " size (CSIStorageCapacity)."
        )


def _format_node_selector(selector: NodeSelector) -> str:
    """Format a node selector, whose terms are alternatives."""
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
    """Return a requirement in the API's form."""
    compared = requirement.operator in {Operator.GT, Operator.LT}
    values = [str(requirement.bound)] if compared else sorted(requirement.values)
    return {"key": requirement.key, "operator": str(requirement.operator), "values": values}
