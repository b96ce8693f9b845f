"""Where more than one thing keeps a pod from a node: what these are, and which two changes help together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from vgpu_scheduler.kube import CPU, EPHEMERAL_STORAGE, MEMORY, Pod, Taint
from vgpu_scheduler.model import NodeVerdict, Outcome
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.asking_less import largest_amount, valid_steps
from vgpu_scheduler.whatif.causes import not_offered
from vgpu_scheduler.whatif.closings import SAYS, closing_of, repelling_taints, tolerating, tolerating_all, worded_taints
from vgpu_scheduler.whatif.constraints import constraints_of
from vgpu_scheduler.whatif.leaving_out import without_resources
from vgpu_scheduler.whatif.nodes import TAINTS_OF_STATE, is_cordoned, uncordoned, with_annotation
from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod
from vgpu_scheduler.whatif.simulation import Answer, created
from vgpu_scheduler.whatif.tables import few
from vgpu_scheduler.whatif.world import World

__all__ = ["causes_together", "changes_together"]

Object = Mapping[str, Any]
Search = Callable[[WaitingPod], Iterator[Remedy]]

_MOST_GROUPS: Final = 3
_MOST_FIRST: Final = 3
"""Changes of one kind that are tried as the first of two."""
_SELECTORS: Final = ("nodeSelector", "affinity.nodeAffinity")
_OF_NODES: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


def causes_together(world: World, answer: Answer) -> tuple[str, ...]:
    """Return sentences about the nodes that a pod is kept from by several things, the fewest first.

    A node says the first that it finds. What it would say next shows where the pod is asked about without that. What no
    node has is nothing that is the matter with one.
    """
    if answer.decision.outcome is not Outcome.UNSCHEDULABLE:
        return ()
    clauses: dict[str, list[str]] = {node: [] for node in answer.decision.verdicts}
    of_all = {f"{SAYS}{filters.insufficient(name).text}" for name in not_offered(world, answer)}
    for pod, verdicts in _peeled(world, answer):
        for node in clauses.keys() & verdicts.keys():
            closing = closing_of(world, pod, node, verdicts[node])
            clauses[node] += [clause for clause in closing if clause not in {*clauses[node], *of_all}]
    groups: dict[tuple[str, ...], list[str]] = {}
    for node, told in sorted(clauses.items()):
        if len(told) > 1:
            groups.setdefault(tuple(told), []).append(node)
    fewest = sorted(groups.items(), key=lambda group: (len(group[0]), group[1]))[:_MOST_GROUPS]
    return tuple(_worded(told, nodes) for told, nodes in fewest)


def _worded(told: Sequence[str], nodes: Sequence[str]) -> str:
    which = ", which" if len(nodes) == 1 else "; each of these nodes"
    said = [clause.removeprefix(SAYS) for clause in told if clause.startswith(SAYS)]
    clauses = [clause for clause in told if not clause.startswith(SAYS)]
    clauses += [SAYS + " and ".join(said)] if said else []
    *others, last = clauses
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"Several things keep it from {few(nodes)}{which} {listed}."


def _peeled(world: World, answer: Answer) -> Iterator[tuple[Pod, Mapping[str, NodeVerdict]]]:
    """Yield a pod, and what nodes say of it, as it is and with one more of its conditions left out each time."""
    pod, written = answer.pod, world.written(answer.pod)
    yield created(world, pod, pod.uid), answer.decision.verdicts
    written = tolerating_all(written)
    steps = [written]
    for name in _SELECTORS:
        found = (each for each in constraints_of(steps[-1], ()) if each.name == name)
        steps += [each.without for each in found]
    steps += [without_resources(steps[-1], _OF_NODES)] * 2
    for name in world.engine.dialects.pod_annotations:
        steps[-1] = with_annotation(steps[-1], name, "")
    others = [created(world, world.pod(step, again=True), pod.uid) for step in steps]
    for other in others:
        yield other, world.engine.cycle.decide(other, explain=True).verdicts
    with _unlimited(world, pod.namespace):
        yield others[-1], world.engine.cycle.decide(others[-1], explain=True).verdicts


@contextmanager
def _unlimited(world: World, namespace: str) -> Iterator[None]:
    """Have a namespace have no limits for the time of a question."""
    quotas = world.quotas_of(namespace)
    try:
        for quota in quotas:
            world.replace_quota({**quota, "spec": {**(quota.get("spec") or {}), "hard": {}}})
        yield
    finally:
        for quota in quotas:
            world.replace_quota(quota)


def changes_together(waiting: WaitingPod, of_pod: Sequence[Search], of_cluster: Sequence[Search]) -> Iterator[Remedy]:
    """Search two changes that help together, of which the first one is of the pod, or uncordons a node.

    Parameters
    ----------
    of_pod, of_cluster
        Find the second one, for a pod and a cluster with the first: a change of the pod, or of something else.
    """
    told: set[frozenset[str]] = set()
    for first, changed in _first_changes(waiting):
        for second in (remedy for search in (*of_pod, *of_cluster) for remedy in search(changed)):
            if second.node and (both := frozenset({first.text, second.text})) not in told:
                told.add(both)
                yield replace(
                    second,
                    kind=RemedyKind.TOGETHER,
                    text=f"{first.text} and {second.text}",
                    pod=second.pod or first.pod,
                    objects=(*first.objects, *second.objects),
                    nameless=second.nameless and f"{first.text} and {second.nameless}",
                )
    for text, less, remedy in _less_and_another(waiting, of_pod):
        if (both := frozenset({text, less})) not in told:
            told.add(both)
            yield remedy


def _less_and_another(waiting: WaitingPod, searches: Sequence[Search]) -> Iterator[tuple[str, str, Remedy]]:
    """Yield changes of the pod with the largest amounts of which it may ask then: both in words, and together."""
    before = waiting.cycle.decide(waiting.ours).message
    for amount in waiting.amounts():
        least = next(iter(valid_steps(waiting, amount)), None)
        changed = waiting if least is None else waiting.rewritten(amount.applied(waiting.written, least))
        if waiting.cycle.decide(changed.ours).message == before:
            continue
        for other in (remedy for search in searches for remedy in search(changed)):
            found = None if other.pod is None else largest_amount(waiting, amount, other.pod)
            if found is not None and other.pod is not None:
                steps, node = found
                less, written = amount.worded(steps), amount.applied(other.pod, steps)
                yield other.text, less, Remedy(RemedyKind.TOGETHER, f"{other.text} and {less}", node, written)


def _first_changes(waiting: WaitingPod) -> Iterator[tuple[Remedy, WaitingPod]]:
    """Yield changes after which something else keeps the pod waiting than before, each with the pod after it."""
    before = waiting.cycle.decide(waiting.ours).message
    for remedy in _pod_changes(waiting):
        changed = waiting.rewritten(remedy.pod or waiting.written)
        if waiting.cycle.decide(changed.ours).message != before:
            yield remedy, changed
    if waiting.before:
        return  # they may take what both changes open, and where they go depends on both
    cordoned = [name for name, node in sorted(waiting.world.nodes.items()) if is_cordoned(node)]
    for name in cordoned[:_MOST_FIRST]:
        node = waiting.world.nodes[name]
        changed_node = uncordoned(node)
        waiting.world.replace_node(changed_node)
        try:
            yield Remedy(RemedyKind.UNCORDON_NODE, f"uncordon node {name}", "", objects=(changed_node,)), waiting
        finally:
            waiting.world.replace_node(node)


def _pod_changes(waiting: WaitingPod) -> Iterator[Remedy]:
    """Yield changes of the pod alone: a constraint that is left out, the taints of a node that are tolerated."""
    for constraint in constraints_of(waiting.written, waiting.world.engine.dialects.pod_annotations):
        yield Remedy(RemedyKind.DROP_CONSTRAINT, constraint.text, "", constraint.without)
    known: dict[tuple[Taint, ...], None] = {}
    for node in sorted(waiting.world.nodes):
        taints = repelling_taints(waiting.world, waiting.ours, node)
        if taints and not any(taint.key in TAINTS_OF_STATE for taint in taints):
            known[taints] = None
    for taints in sorted(known, key=len)[:_MOST_FIRST]:
        written = tolerating(waiting.written, taints)
        yield Remedy(RemedyKind.TOLERATE, f"tolerate {worded_taints(taints)}", "", written)
