"""Makes the parts of a shape: what a pod asks for, under the policy that is in force for it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from vgpu_scheduler.allocators import Budgets
from vgpu_scheduler.dialects import ClaimError, Dialect, Scorers
from vgpu_scheduler.engine.bounds import LimitError, most_memory
from vgpu_scheduler.engine.shape import Claimed, NodePart, Refused
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import PodClaims, claims_devices
from vgpu_scheduler.policy import SETTINGS, ResolvedPolicy, overruled
from vgpu_scheduler.predicates import compile_predicates
from vgpu_scheduler.scorers import NodeRanking, PlainScorer, WeightedScorer, Workload
from vgpu_scheduler.state import NodeTable

_PLAIN = (WeightedScorer(PlainScorer()),)


def read_claims(pod: Pod, policy: ResolvedPolicy, dialect: Dialect) -> Claimed | Refused:
    """Return what a pod asks of devices, or why that cannot be understood."""
    annotations, warnings = _in_force(pod, policy, dialect)
    try:
        claims = dialect.claims.read(msgspec.structs.replace(pod, annotations=annotations), policy.terms)
    except ClaimError as error:
        return Refused(policy, str(error))
    return Claimed(policy, claims, annotations, (*policy.warnings, *warnings))


def make_node_part(
    pod: Pod, claimed: Claimed, dialect: Dialect, nodes: NodeTable, budgets: Budgets = ()
) -> NodePart | Refused:
    """Return what decides about single nodes, or why the pod asks for what it may not have.

    Parameters
    ----------
    budgets
        What quotas leave to the pod.
    """
    policy, claims = claimed.policy, claimed.claims
    allocator, scorers = None, policy.scorers
    try:
        if claims_devices(claims):
            _check_followed_by_node(pod, claimed.annotations, claims, policy, dialect)
            bound = most_memory(claims, policy.limits, dialect)
            choice = replace(policy.choice, limits=replace(policy.choice.limits, most_memory=bound), budgets=budgets)
            allocator = dialect.claims.allocator(claimed.annotations, claims, choice)
            scorers = dialect.claims.scorers(scorers, chosen=policy.source_of.get("nodes") != SETTINGS)
    except (ClaimError, LimitError) as error:
        return Refused(policy, str(error))
    return NodePart(
        compile_predicates(pod, nodes, dialect.inventory.unknown_to_kubelet, policy.node_selectors, policy.managed),
        allocator,
        _ranking(pod, claims, scorers, dialect, plain=allocator is None),
    )


def _in_force(pod: Pod, policy: ResolvedPolicy, dialect: Dialect) -> tuple[dict[str, str], list[str]]:
    """Return the pod's annotations that may be followed, and warnings about the others."""
    given = {name: pod.annotations[name] for name in dialect.claims.pod_annotations if name in pod.annotations}
    if policy.overrides is None:
        return given, []
    allowed, followed = policy.overrides, dialect.claims.followed_by_node
    denied = {
        name
        for word, names in dialect.claims.overrides.items()
        if word not in allowed
        for name in names
        if name not in followed or pod.annotations.get(name) != followed[name].nothing
    }
    by = policy.source_of.get("podOverrides", "a policy")
    warnings = [overruled(name, by) for name in given if name in denied]
    return {name: value for name, value in given.items() if name not in denied}, warnings


def _check_followed_by_node(
    pod: Pod, annotations: dict[str, str], claims: PodClaims, policy: ResolvedPolicy, dialect: Dialect
) -> None:
    """Refuse a pod whose node would do what no policy allows."""
    vendors = {claim.vendor for container in claims for claim in container.claims}
    for name, followed in dialect.claims.followed_by_node.items():
        if name in pod.annotations and name not in annotations and vendors & followed.vendors:
            by = policy.source_of.get("podOverrides", "a policy")
            raise ClaimError(
                f"annotation {name}: podOverrides of {by} does not allow it, and the node would follow it: leave it out"
            )


def _ranking(pod: Pod, claims: PodClaims, scorers: Scorers, dialect: Dialect, *, plain: bool) -> NodeRanking:
    """Return what orders the nodes; a pod without device claims has its own order unless a policy says otherwise."""
    if plain:
        scorers = tuple(entry for entry in scorers if entry.weight and entry.scorer.ranks_plain_pods) or _PLAIN
    return NodeRanking(scorers, Workload(pod.spec.requests, claims, dialect.inventory.device_resources))
