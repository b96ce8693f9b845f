"""Makes the parts of a class: what a pod asks for, under the policy that is in force for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from vgpu_scheduler.allocators import Budgets
from vgpu_scheduler.dialects import ClaimError, Dialect, Dialects, Scorers
from vgpu_scheduler.engine.equivalence import Claimed, NodePart, Refused
from vgpu_scheduler.engine.policy_limits import LimitError, most_memory
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import PodClaims, claims_devices
from vgpu_scheduler.policy import SETTINGS, ResolvedPolicy, overruled
from vgpu_scheduler.predicates import compile_predicates
from vgpu_scheduler.scorers import NodeRanking, PlainScorer, WeightedScorer, Workload
from vgpu_scheduler.state import NodeTable

_PLAIN = (WeightedScorer(PlainScorer()),)


def read_claims(pod: Pod, policy: ResolvedPolicy, dialects: Dialects) -> Claimed | Refused:
    """Return what a pod asks of devices, or why that cannot be understood."""
    try:
        dialect = dialects.of_waiting(pod)
        annotations, warnings = _followed_annotations(pod, policy, dialect)
        claims = dialect.claims.read(msgspec.structs.replace(pod, annotations=annotations), policy.terms)
        odd = _odd(pod, annotations, claims, dialect, strict=policy.strict)
    except ClaimError as error:
        return Refused(policy, str(error))
    choice, scorers = policy.choice, policy.scorers
    if claims_devices(claims):
        choice, unknown_order = dialect.claims.known_choice(choice)
        scorers, unknown_scorers = dialect.claims.scorers(scorers)
        warnings += _left_out(policy, dialect, unknown_order, unknown_scorers)
    return Claimed(policy, claims, choice, scorers, annotations, (*policy.warnings, *warnings, *odd))


def _odd(
    pod: Pod, annotations: Mapping[str, str], claims: PodClaims, dialect: Dialect, *, strict: bool
) -> tuple[str, ...]:
    """Return what is odd about the values of annotations.

    Raises
    ------
    ClaimError
        If a value cannot be followed, or if anything about annotations or amounts is odd and must not be.
    """
    odd = tuple(dialect.claims.odd_annotations(annotations, claims)) if claims_devices(claims) else ()
    if strict:
        amounts = [
            f"container {container.name}: {text}"
            for container in pod.spec.containers
            for text in dialect.claims.usage_warnings(container, annotations)
        ]
        if odd or amounts:
            raise ClaimError("; ".join((*odd, *amounts)))
    return odd


def _left_out(policy: ResolvedPolicy, dialect: Dialect, order: str, scorers: tuple[str, ...]) -> list[str]:
    """Say which parts of a policy a dialect does not know; the settings are for all dialects and name nothing wrong."""
    by_nodes, by_devices = (policy.source_of.get(section, SETTINGS) for section in ("nodes", "devices"))
    found = []
    if scorers and by_nodes != SETTINGS:
        names = ", ".join(scorers)
        found.append(f"nodes: {by_nodes} names {names}, which knows nothing of {dialect.name}'s devices: left out")
    if order and by_devices != SETTINGS:
        found.append(f"devices: {order} of {by_devices} means nothing for {dialect.name}'s devices: left out")
    return found


def make_node_part(
    pod: Pod, claimed: Claimed, dialects: Dialects, nodes: NodeTable, budgets: Budgets = ()
) -> NodePart | Refused:
    """Return what decides about single nodes, or why the pod asks for what it may not have.

    Parameters
    ----------
    budgets
        What quotas leave to the pod.
    """
    policy, claims, allocator = claimed.policy, claimed.claims, None
    try:
        check_asked(pod, claimed, dialects)
        if claims_devices(claims):
            dialect = dialects[claimed.dialect]
            bound = most_memory(claims, policy.limits, dialect, idle=claimed.choice.takes_idle_cards)
            limits = replace(claimed.choice.limits, most_memory=bound)
            choice = replace(claimed.choice, limits=limits, budgets=budgets)
            allocator = dialect.claims.allocator(claimed.annotations, claims, choice)
    except (ClaimError, LimitError) as error:
        return Refused(policy, str(error))
    return NodePart(
        compile_predicates(pod, nodes, dialects.unknown_to_kubelet, policy.node_selectors, policy.managed),
        allocator,
        _ranking(pod, claimed, dialects),
        claimed.dialect,
    )


def check_asked(pod: Pod, claimed: Claimed, dialects: Dialects) -> None:
    """Refuse a pod that says what its node would take for something else, or do although no policy allows it.

    Raises
    ------
    ClaimError
        If it does; the message names the annotation.
    """
    for owner in dialects.owners(pod):  # a pod that names amounts may claim nothing, and see all cards
        owner.node_side.check(pod, claimed.claims)
    if claims_devices(claimed.claims):
        dialect = dialects[claimed.dialect]
        _check_followed_by_node(pod, claimed.annotations, claimed.claims, claimed.policy, dialect)


def _followed_annotations(pod: Pod, policy: ResolvedPolicy, dialect: Dialect) -> tuple[dict[str, str], list[str]]:
    """Return the pod's annotations that may be followed, and warnings about the others."""
    given = {name: pod.annotations[name] for name in dialect.claims.pod_annotations if name in pod.annotations}
    if policy.overrules_nothing:
        return given, []
    denied = _overruled(pod, policy, dialect)
    warnings = [overruled(name, denied[name]) for name in given if name in denied]
    return {name: value for name, value in given.items() if name not in denied}, warnings


def _overruled(pod: Pod, policy: ResolvedPolicy, dialect: Dialect) -> dict[str, str]:
    """Return the annotations of a pod that are not followed, each with the reason."""
    followed = dialect.claims.followed_by_node
    return {
        name: why
        for word, names in dialect.claims.overrides.items()
        if (why := policy.overruled(word))
        for name in names
        if name not in followed or pod.annotations.get(name) != followed[name].nothing
    }


def _check_followed_by_node(
    pod: Pod, annotations: dict[str, str], claims: PodClaims, policy: ResolvedPolicy, dialect: Dialect
) -> None:
    """Refuse a pod whose node would do what no policy allows."""
    vendors = {claim.vendor for container in claims for claim in container.claims}
    for name, followed in dialect.claims.followed_by_node.items():
        if name in pod.annotations and name not in annotations and vendors & followed.vendors:
            why = _overruled(pod, policy, dialect).get(name, "policies overrule it")
            raise ClaimError(f"annotation {name}: {why}, and the node would follow it: leave it out")


def _ranking(pod: Pod, claimed: Claimed, dialects: Dialects) -> NodeRanking:
    """Return what orders the nodes; a pod without device claims has its own order unless a policy says otherwise."""
    scorers: Scorers = claimed.scorers
    seen: Iterable[Dialect] = (dialects[claimed.dialect],)
    if not claimed.dialect:
        scorers = tuple(entry for entry in scorers if entry.weight and entry.scorer.ranks_plain_pods) or _PLAIN
        seen = dialects
    spec = pod.spec
    facts = Workload(
        spec.requests,
        claimed.claims,
        unrequested=spec.unrequested,
        images=spec.images,
        containers=len(spec.containers),
    )
    workloads = (replace(facts, resources=d.inventory.device_resources, dialect=d.name) for d in seen)
    return NodeRanking(scorers, *workloads)
