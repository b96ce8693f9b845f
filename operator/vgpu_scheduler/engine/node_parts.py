"""Makes the node parts of classes, and limits how many parts and columns are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import msgspec

from vgpu_scheduler.allocators import QuotaRemainders
from vgpu_scheduler.dialects import ClaimError, Dialect, Dialects, Scorers
from vgpu_scheduler.dialects.values import to_be_removed
from vgpu_scheduler.engine.equivalence import NodeColumns, NodePart, RefusedClass, ResolvedClaims
from vgpu_scheduler.engine.policy_limits import LimitError, check_limits
from vgpu_scheduler.kernels.columns import CORES
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache, Claim, PodClaims, bytes_of, claims_devices, vendors_of
from vgpu_scheduler.policy import NO_POD_LIMITS, SETTINGS, EffectivePolicy, overruled, refused_as_strict
from vgpu_scheduler.predicates import CompiledPredicates
from vgpu_scheduler.scorers import NodeRanking, PlainScorer, ScoredPod, WeightedScorer
from vgpu_scheduler.state import PeerKeys, State


class ColumnCache:
    """Keeps the columns of as many node parts as memory allows.

    Recently used columns stay. Of the older half, columns are evicted in rotation, not always the oldest: if parts take
    turns and do not all fit, the oldest part is the next one needed, and every part would be computed anew each time.

    Parameters
    ----------
    most
        Returns how many may be kept.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._parts: OrderedDict[NodePart, None] = OrderedDict()
        self._turn = 0

    def __contains__(self, part: object) -> bool:
        return part in self._parts

    def use(self, part: NodePart) -> None:
        """Note that a part is about to be used; columns of another part may be evicted for it."""
        if part in self._parts:
            self._parts.move_to_end(part)
            return
        self._parts[part] = None
        while len(self._parts) > max(self._most(), 1):
            self._turn += 1
            older = max(len(self._parts) // 2, 1)
            victim = next(islice(self._parts, self._turn % older, None))
            self.discard(victim)

    def discard(self, part: NodePart) -> None:
        """Drop the columns of a part."""
        if part in self._parts:
            del self._parts[part]
            part.drop()


_PARTS_BYTES: Final = 32 * 2**20
"""Memory for parts without their columns."""
_PART: Final = 16 * 2**10
"""Estimated bytes of a part, without specs and annotations of its pods: claims, and what filters keep per node."""
_COLUMNS_BYTES: Final = 40 * 2**20
"""Memory for columns beyond :data:`_FEWEST_COLUMNS`."""
_FEWEST_COLUMNS, _MOST_COLUMNS = 32, 512
_BYTES_PER_NODE: Final = 86
"""Bytes of a part's columns per node row."""


class NodeParts:
    """Makes node parts, and keeps them.

    A part without its columns is small, and thousands are kept; columns are large, and kept as memory allows (see
    :class:`ColumnCache`).

    Parameters
    ----------
    state
        The cluster's state.
    dialects
        The dialects of claims and registrations.
    """

    def __init__(self, state: State, dialects: Dialects) -> None:
        self._state = state
        self._dialects = dialects
        self._parts: BoundedCache[Hashable, NodePart | RefusedClass] = BoundedCache(
            _PARTS_BYTES, forgotten=self._forgotten
        )
        self._kept = ColumnCache(self._most_columns)
        self._scratch = NodeColumns()

    def of(self, pod: Pod, claimed: ResolvedClaims, remainders: QuotaRemainders) -> NodePart | RefusedClass:
        """Return the node part of a pod, and keep its columns."""
        part = self._part(pod, claimed, remainders)
        if isinstance(part, NodePart):
            self._kept.use(part)
        return part

    def transient(self, pod: Pod, claimed: ResolvedClaims, remainders: QuotaRemainders) -> NodePart | RefusedClass:
        """Return a node part for one question about a few nodes; the next question overwrites its columns."""
        part = self._part(pod, claimed, remainders)
        if isinstance(part, RefusedClass):
            return part
        if self._scratch.capacity != self._state.nodes.capacity:
            self._scratch = NodeColumns(self._state.nodes.capacity)
        return part.with_columns(self._scratch)

    def beyond_any_card(self, pod: Pod, claimed: ResolvedClaims, remainders: QuotaRemainders) -> NodePart | None:
        """Return a node part shared by all pods that ask for more than any card has and are otherwise the same.

        All amounts beyond the largest card are treated alike. The shared part's answers hold for the pod only if it
        fits on no node; otherwise the pod's own part has to be asked.

        Returns
        -------
        NodePart or None
            None for a pod that asks for no such amount, whose own part has its columns already, or whose amounts are
            limited by more than cards (quotas, policies).
        """
        if remainders or claimed.peer_keys or self._parts.get((claimed, remainders, ())) in self._kept:
            return None
        if not claimed.dialect or claimed.policy.limits != NO_POD_LIMITS:
            return None
        dialect = self._dialects[claimed.dialect]
        claims = self._just_beyond(claimed.claims, dialect)
        if claims is claimed.claims:
            return None
        try:
            check_asked(pod, claimed, self._dialects)  # the shared part does not know the pod's other annotations
        except ClaimError:
            return None
        asked = (*_asked_of_node(pod, self._dialects.unknown_to_kubelet), *sorted(claimed.annotations.items()))
        part = self._made(
            (claimed.dialect, claimed.policy.number, claims, asked), pod, replace(claimed, claims=claims), ()
        )
        if isinstance(part, RefusedClass):
            return None
        self._kept.use(part)
        return part

    def _part(self, pod: Pod, claimed: ResolvedClaims, remainders: QuotaRemainders) -> NodePart | RefusedClass:
        return self._made((claimed, remainders, claimed.peers(pod)), pod, claimed, remainders)

    def _made(
        self, key: Hashable, pod: Pod, claimed: ResolvedClaims, remainders: QuotaRemainders
    ) -> NodePart | RefusedClass:
        """Return the part of a key; make it if it is not kept."""
        part = self._parts.get(key)
        if part is None:
            part = make_node_part(without_node(pod), claimed, self._dialects, self._state, remainders)
            self._parts.put(key, part, pod.spec.node_size + bytes_of(claimed.annotations) + _PART)
        return part

    def _forgotten(self, part: NodePart | RefusedClass) -> None:
        if isinstance(part, NodePart):
            self._kept.discard(part)

    def _just_beyond(self, claims: PodClaims, dialect: Dialect) -> PodClaims:
        """Return claims with all amounts that no card has reduced to the smallest such amount; else the same object."""
        matrix = self._state.matrix(dialect.name)

        def least(claim: Claim) -> Claim:
            amounts = tuple(  # cores may be asked for in percent although the card counts them in units
                amount if dimension == CORES else min(amount, max(matrix.largest(claim.vendor, dimension)) + 1)
                for dimension, amount in enumerate(claim.amounts)
            )
            return claim if amounts == claim.amounts else replace(claim, amounts=amounts)

        changed = tuple(
            replace(container, claims=tuple(least(claim) for claim in container.claims)) for container in claims
        )
        return claims if changed == claims else changed

    def _most_columns(self) -> int:
        found = _COLUMNS_BYTES // (_BYTES_PER_NODE * self._state.nodes.capacity)
        return max(_FEWEST_COLUMNS, min(found, _MOST_COLUMNS))


def without_node(pod: Pod) -> Pod:
    """Return a pod without its node, as it was while it waited."""
    return msgspec.structs.replace(pod, node_name="") if pod.node_name else pod


def _asked_of_node(pod: Pod, ignored: frozenset[str]) -> tuple[Hashable, ...]:
    """Return the fields of a pod that filters of single nodes read."""
    spec = pod.spec
    requests = tuple(sorted((name, amount) for name, amount in spec.requests.items() if name not in ignored))
    selector = tuple(sorted(spec.node_selector.items()))
    return requests, selector, spec.node_affinity, spec.tolerations, spec.host_ports, spec.required_features


_PLAIN = (WeightedScorer(PlainScorer()),)


def read_claims(pod: Pod, policy: EffectivePolicy, dialects: Dialects) -> ResolvedClaims | RefusedClass:
    """Return what a pod claims of devices, or why its claims are refused."""
    try:
        dialect = dialects.of_waiting(pod)
        annotations, warnings = _followed_annotations(pod, policy, dialect)
        claims = dialect.claims.read(msgspec.structs.replace(pod, annotations=annotations), policy.defaults)
        suspicious = _suspicious(pod, annotations, claims, dialect, strict=policy.strict)
    except ClaimError as error:
        return RefusedClass(policy, str(error), error.fix)
    choice, scorers = policy.choice, policy.scorers
    peer_keys: tuple[PeerKeys, ...] = ()
    if claims_devices(claims):
        of_policies = (PeerKeys(labels=keys) for keys in policy.apart)
        peer_keys = tuple(filter(None, (*of_policies, dialect.claims.apart_from(annotations))))
        choice, unknown_order = dialect.claims.known_choice(choice)
        scorers, unknown_scorers = dialect.claims.scorers(scorers)
        warnings += _left_out(policy, dialect, unknown_order, unknown_scorers)
    return ResolvedClaims(
        policy, claims, choice, scorers, annotations, (*policy.warnings, *warnings, *suspicious), peer_keys
    )


def _suspicious(
    pod: Pod, annotations: Mapping[str, str], claims: PodClaims, dialect: Dialect, *, strict: bool
) -> tuple[str, ...]:
    """Return warnings about values of annotations.

    Raises
    ------
    ClaimError
        If a value cannot be followed, or if ``strict`` is set and there are warnings about annotations or amounts.
    """
    suspicious = tuple(dialect.claims.suspicious_annotations(annotations, claims)) if claims_devices(claims) else ()
    if strict:
        amounts = [
            warning.in_container(container.name)
            for container in pod.spec.containers
            for warning in dialect.claims.request_warnings(container, annotations)
        ]
        if found := (*suspicious, *amounts):
            fix = next((warning.fix for warning in found if warning.fix is not None), None)
            raise ClaimError(refused_as_strict(warning.refused for warning in found), fix)
    return tuple(map(str, suspicious))


def _left_out(policy: EffectivePolicy, dialect: Dialect, order: str, scorers: tuple[str, ...]) -> list[str]:
    """Warn of the parts of a policy that a dialect does not know; settings are for all dialects, so never warned of."""
    by_nodes, by_devices = ((*policy.titles(section), SETTINGS)[0] for section in ("nodes", "devices"))
    found = []
    if scorers and by_nodes != SETTINGS:
        names = ", ".join(scorers)
        found.append(
            f"nodes: {by_nodes} names {names}, which does not support devices of dialect {dialect.name}: ignored"
        )
    if order and by_devices != SETTINGS:
        found.append(f"devices: {order} of {by_devices} does not apply to devices of dialect {dialect.name}: ignored")
    return found


def make_node_part(
    pod: Pod, claimed: ResolvedClaims, dialects: Dialects, state: State, remainders: QuotaRemainders = ()
) -> NodePart | RefusedClass:
    """Return the node part of a pod, or why the pod is refused.

    Parameters
    ----------
    remainders
        The quota that is left to the pod.
    """
    policy, claims, allocator = claimed.policy, claimed.claims, None
    try:
        check_asked(pod, claimed, dialects)
        if claims_devices(claims):
            dialect = dialects[claimed.dialect]
            bound = check_limits(claims, policy.limits, dialect, idle=claimed.choice.takes_idle_cards)
            limits = replace(claimed.choice.limits, most_memory=bound)
            peer_cards = tuple(
                state.held_cards(peers, dialect.name, dialect.inventory.cards) for peers in claimed.peers(pod)
            )
            choice = replace(claimed.choice, limits=limits, remainders=remainders, peer_cards=peer_cards)
            allocator = dialect.claims.allocator(claimed.annotations, claims, choice)
    except ClaimError as error:
        return RefusedClass(policy, str(error), error.fix)
    except LimitError as error:
        return RefusedClass(policy, str(error))
    return NodePart(
        CompiledPredicates(pod, state.nodes, dialects.unknown_to_kubelet, policy.node_selectors, policy.managed),
        allocator,
        _ranking(pod, claimed, dialects),
        claimed.dialect,
    )


def check_asked(pod: Pod, claimed: ResolvedClaims, dialects: Dialects) -> None:
    """Refuse a pod whose annotations the node side would misread, or would follow although no policy allows it.

    Raises
    ------
    ClaimError
        If there is such an annotation; the message names it.
    """
    for owner in dialects.owners(pod):  # a pod that names amounts but claims no device may see all cards
        owner.node_side.check(pod, claimed.claims)
    if claims_devices(claimed.claims):
        dialect = dialects[claimed.dialect]
        _check_followed_by_node(pod, claimed.annotations, claimed.claims, claimed.policy, dialect)


def _followed_annotations(pod: Pod, policy: EffectivePolicy, dialect: Dialect) -> tuple[dict[str, str], list[str]]:
    """Return the pod's annotations that may be followed, and warnings about the others."""
    given = {name: pod.annotations[name] for name in dialect.claims.pod_annotations if name in pod.annotations}
    if policy.overrules_nothing:
        return given, []
    denied = _overruled(pod, policy, dialect)
    warnings = [overruled(name, denied[name]) for name in given if name in denied]
    return {name: value for name, value in given.items() if name not in denied}, warnings


def _overruled(pod: Pod, policy: EffectivePolicy, dialect: Dialect) -> dict[str, str]:
    """Return the annotations of a pod that policies overrule, each with the reason."""
    followed = dialect.claims.followed_by_node
    return {
        name: why
        for word, names in dialect.claims.overrides.items()
        if (why := policy.overruled(word))
        for name in names
        if name not in followed or pod.annotations.get(name) != followed[name].nothing
    }


def _check_followed_by_node(
    pod: Pod, annotations: dict[str, str], claims: PodClaims, policy: EffectivePolicy, dialect: Dialect
) -> None:
    """Refuse a pod with an annotation that its node would follow although policies overrule it."""
    vendors = vendors_of(claims)
    for name, followed in dialect.claims.followed_by_node.items():
        if name in pod.annotations and name not in annotations and vendors & followed.vendors:
            why = _overruled(pod, policy, dialect).get(name, "policies overrule it")
            raise to_be_removed(name, f": {why}, and the node would follow it", instead="leave it out")


def _ranking(pod: Pod, claimed: ResolvedClaims, dialects: Dialects) -> NodeRanking:
    """Return what ranks the nodes; a pod without device claims is ranked by `plain` unless a policy says otherwise."""
    scorers: Scorers = claimed.scorers
    seen: Iterable[Dialect] = (dialects[claimed.dialect],)
    if not claimed.dialect:
        scorers = tuple(entry for entry in scorers if entry.weight and entry.scorer.ranks_plain_pods) or _PLAIN
        seen = dialects
    spec = pod.spec
    facts = ScoredPod(
        spec.requests,
        claimed.claims,
        unrequested=spec.unrequested,
        images=spec.images,
        containers=len(spec.containers),
    )
    workloads = (replace(facts, resources=d.inventory.device_resources, dialect=d.name) for d in seen)
    return NodeRanking(scorers, *workloads)
