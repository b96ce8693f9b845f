"""Makes the shape of a pod: what it asks for, under the policy that is in force for it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from vgpu_scheduler.allocators import Budgets
from vgpu_scheduler.dialects import ClaimError, Dialect, Scorers
from vgpu_scheduler.engine.bounds import LimitError, most_memory
from vgpu_scheduler.engine.shape import Shape
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import PodClaims, claims_devices
from vgpu_scheduler.policy import SETTINGS, ResolvedPolicy, overruled
from vgpu_scheduler.predicates import compile_predicates, refusals
from vgpu_scheduler.scorers import NodeRanking, PlainScorer, WeightedScorer, Workload
from vgpu_scheduler.state import NodeTable

_PLAIN = (WeightedScorer(PlainScorer()),)


def make_shape(pod: Pod, policy: ResolvedPolicy, dialect: Dialect, nodes: NodeTable, budgets: Budgets = ()) -> Shape:
    """Return the shape of a pod: one that can be fitted, or one that says why it never can."""
    unsupported = refusals(pod)
    if unsupported:
        return Shape(policy=policy, refusal=", ".join(unsupported))
    if policy.refusal:
        return Shape(policy=policy, refusal=policy.refusal)
    annotations, warnings = _in_force(pod, policy, dialect)
    allocator, scorers = None, policy.scorers
    try:
        claims = dialect.claims(msgspec.structs.replace(pod, annotations=annotations), policy.terms)
        if claims_devices(claims):
            _check_obeyed(pod, annotations, claims, policy, dialect)
            bound = most_memory(claims, policy.limits, dialect)
            choice = replace(policy.choice, limits=replace(policy.choice.limits, most_memory=bound), budgets=budgets)
            allocator = dialect.allocator(annotations, claims, choice)
            scorers = dialect.rankers(scorers, chosen=policy.source_of.get("nodes") != SETTINGS)
    except (ClaimError, LimitError) as error:
        return Shape(policy=policy, refusal=str(error))
    return Shape(
        policy=policy,
        claims=claims,
        predicates=compile_predicates(pod, nodes, dialect.ignored_resources, policy.node_selectors, policy.managed),
        allocator=allocator,
        ranking=_ranking(pod, claims, scorers, dialect, plain=allocator is None),
        warnings=(*policy.warnings, *warnings),
    )


def _in_force(pod: Pod, policy: ResolvedPolicy, dialect: Dialect) -> tuple[dict[str, str], list[str]]:
    """Return the pod's annotations that may be followed, and warnings about the others."""
    given = {name: pod.annotations[name] for name in dialect.pod_annotations if name in pod.annotations}
    if policy.overrides is None:
        return given, []
    allowed = policy.overrides
    denied = {
        name
        for word, names in dialect.overrides.items()
        if word not in allowed
        for name in names
        if name not in dialect.obeyed or pod.annotations.get(name) != dialect.obeyed[name].nothing
    }
    by = policy.source_of.get("podOverrides", "a policy")
    warnings = [overruled(name, by) for name in given if name in denied]
    return {name: value for name, value in given.items() if name not in denied}, warnings


def _check_obeyed(
    pod: Pod, annotations: dict[str, str], claims: PodClaims, policy: ResolvedPolicy, dialect: Dialect
) -> None:
    """Refuse a pod whose node would do what no policy allows."""
    vendors = {claim.vendor for container in claims for claim in container.claims}
    for name, obeyed in dialect.obeyed.items():
        if name in pod.annotations and name not in annotations and vendors & obeyed.vendors:
            by = policy.source_of.get("podOverrides", "a policy")
            raise ClaimError(
                f"annotation {name}: podOverrides of {by} does not allow it, and the node would follow it: leave it out"
            )


def _ranking(pod: Pod, claims: PodClaims, scorers: Scorers, dialect: Dialect, *, plain: bool) -> NodeRanking:
    """Return what orders the nodes; a pod without device claims has its own order unless a policy says otherwise."""
    if plain:
        scorers = tuple(entry for entry in scorers if entry.weight and entry.scorer.ranks_plain_pods) or _PLAIN
    return NodeRanking(scorers, Workload(pod.spec.requests, claims, dialect.device_resources))
