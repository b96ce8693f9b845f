"""What a pod would like of nodes and of the pods beside it, compiled once and asked often."""

import msgspec

from vgpu_scheduler.kube.podterms import PodTerm, compile_pod_terms
from vgpu_scheduler.kube.selectors import NodeSelectorTerm, SelectorError, compile_node_term
from vgpu_scheduler.kube.wire import PREFERRED, WireAffinity, WirePodAffinity

__all__ = ["PreferredNodes", "PreferredPods", "compile_preferred_nodes", "compile_preferred_pods"]


class PreferredNodes(msgspec.Struct, frozen=True):
    """A term of a preferred node affinity: the nodes, and what each of them is worth (1 to 100)."""

    term: NodeSelectorTerm
    weight: int


class PreferredPods(msgspec.Struct, frozen=True):
    """A preferred inter-pod term: the pods, and what each of them is worth (1 to 100, below 0 for anti-affinity)."""

    term: PodTerm
    weight: int


def compile_preferred_nodes(affinity: WireAffinity | None) -> tuple[tuple[PreferredNodes, ...], str]:
    """Compile the preferred terms of a pod's node affinity.

    Returns
    -------
    terms : tuple of PreferredNodes
        Those that can be compiled and can match a node: empty terms and those of weight 0 are left out.
    problem : str
        What is wrong with the first that cannot be compiled, naming the field; empty if there is none.
    """
    compiled, problem = [], ""
    nodes = affinity.node_affinity if affinity else None
    for index, wire in enumerate((nodes.preferred if nodes else None) or ()):
        expressions, fields = wire.preference.match_expressions or (), wire.preference.match_fields or ()
        if not wire.weight or not (expressions or fields):
            continue
        try:
            compiled.append(PreferredNodes(compile_node_term(expressions, fields), wire.weight))
        except SelectorError as error:
            problem = problem or f"spec.affinity.nodeAffinity.{PREFERRED}[{index}].preference: {error}"
    return tuple(compiled), problem


def compile_preferred_pods(affinity: WireAffinity | None) -> tuple[tuple[PreferredPods, ...], str]:
    """Compile the preferred inter-pod terms of a pod, affinity first.

    Returns
    -------
    terms : tuple of PreferredPods
        Those that can be compiled.
    problem : str
        What is wrong with the first other one, naming the field; empty if there is none.
    """
    if affinity is None:
        return (), ""
    near, near_problem = _weighted(affinity.pod_affinity, "podAffinity", 1)
    away, away_problem = _weighted(affinity.pod_anti_affinity, "podAntiAffinity", -1)
    return near + away, near_problem or away_problem


def _weighted(affinity: WirePodAffinity | None, kind: str, sign: int) -> tuple[tuple[PreferredPods, ...], str]:
    compiled: list[PreferredPods] = []
    problem = ""
    for index, wire in enumerate((affinity.preferred if affinity else None) or ()):
        terms, found = compile_pod_terms((wire.pod_affinity_term,), f"spec.affinity.{kind}.{PREFERRED}")
        compiled += [PreferredPods(term, sign * wire.weight) for term in terms]
        problem = problem or found.replace(f"{PREFERRED}[0]", f"{PREFERRED}[{index}].podAffinityTerm", 1)
    return tuple(compiled), problem
