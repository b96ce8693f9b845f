"""Inter-pod terms and preferred node affinity of pods, compiled once and matched often.

The rules of required inter-pod affinity and anti-affinity are those of kube-scheduler's ``AffinityTerm``.
"""

from collections.abc import Mapping, Sequence

import msgspec

from vgpu_scheduler.kube.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    compile_each,
    compile_label_selector,
    compile_node_term,
    same_labels,
)
from vgpu_scheduler.kube.wire import PREFERRED, WireAffinity, WirePodAffinity, WirePodTerm, WirePreferredNodes


class PodSelector(msgspec.Struct, frozen=True):
    """Selects the pods of a term.

    Attributes
    ----------
    labels
        Selects pods by labels; None selects no pod.
    namespaces
        Names of the namespaces to select pods from.
    namespace_selector
        Selects further namespaces by labels; None selects none, an empty selector all.
    """

    labels: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None

    def selects_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Tell whether pods of a namespace may be selected; only an empty selector selects one without known labels."""
        if name in self.namespaces:
            return True
        if self.namespace_selector is None:
            return False
        if labels is None:
            return not self.namespace_selector.requirements
        return self.namespace_selector.matches(labels)

    def selects(self, namespace: str, namespace_labels: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod with these labels in this namespace is selected."""
        return (
            self.labels is not None
            and self.labels.matches(labels)
            and self.selects_namespace(namespace, namespace_labels)
        )


class TopologyTerm(msgspec.Struct, frozen=True):
    """A term of one pod: the pods that it selects, and the node label whose values are the topologies."""

    pods: PodSelector
    topology_key: str


class PodTerm(msgspec.Struct, frozen=True):
    """A term as written in a spec; its meaning may depend on the namespace and labels of the pod.

    Attributes
    ----------
    pods
        The selector without the pod's own namespace and labels.
    in_own_namespace
        Whether it selects in the pod's own namespace, because it names none.
    match_label_keys, mismatch_label_keys
        Labels whose values selected pods must share, or must not share, with the pod; without those that the API server
        has already merged into the selector.
    """

    pods: PodSelector
    topology_key: str
    in_own_namespace: bool
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()

    @property
    def label_keys(self) -> tuple[str, ...]:
        """The labels of the pod that the term depends on."""
        return self.match_label_keys + self.mismatch_label_keys

    def of(self, namespace: str, labels: Mapping[str, str]) -> TopologyTerm:
        """Return the term for a pod of this namespace with these labels."""
        selector = self.pods.labels
        if selector is not None and self.label_keys:
            alike = same_labels(labels, self.match_label_keys)
            others = same_labels(labels, self.mismatch_label_keys, Operator.NOT_IN)
            selector = LabelSelector((*selector.requirements, *alike, *others))
        namespaces = self.pods.namespaces | {namespace} if self.in_own_namespace else self.pods.namespaces
        return TopologyTerm(PodSelector(selector, namespaces, self.pods.namespace_selector), self.topology_key)


def compile_pod_terms(terms: Sequence[WirePodTerm], field: str) -> tuple[tuple[PodTerm, ...], str]:
    """Compile the required terms of an affinity; see :func:`compile_each`."""
    return compile_each(terms, _compile, field + "[{}]")


def _compile(term: WirePodTerm) -> PodTerm:
    selector = compile_label_selector(term.label_selector)
    # The API server merges these keys into the selector and does not let users select by the same keys.
    merged = {requirement.key for requirement in selector.requirements} if selector else set()
    return PodTerm(
        PodSelector(selector, frozenset(term.namespaces or ()), compile_label_selector(term.namespace_selector)),
        term.topology_key,
        in_own_namespace=not term.namespaces and term.namespace_selector is None,
        match_label_keys=tuple(key for key in term.match_label_keys or () if key not in merged),
        mismatch_label_keys=tuple(key for key in term.mismatch_label_keys or () if key not in merged),
    )


class PreferredNodes(msgspec.Struct, frozen=True):
    """A term of a preferred node affinity, with its weight (1 to 100)."""

    term: NodeSelectorTerm
    weight: int


class PreferredPods(msgspec.Struct, frozen=True):
    """A preferred inter-pod term, with its weight (1 to 100, negative for anti-affinity)."""

    term: PodTerm
    weight: int


def compile_preferred_nodes(affinity: WireAffinity | None) -> tuple[tuple[PreferredNodes, ...], str]:
    """Compile the preferred terms of a pod's node affinity.

    Returns
    -------
    terms : tuple of PreferredNodes
        The valid terms, without empty ones and those of weight 0.
    problem : str
        The problem of the first invalid term, naming the field; empty if there is none.
    """
    nodes = affinity.node_affinity if affinity else None
    wires, field = (
        (nodes.preferred if nodes else None) or (),
        f"spec.affinity.nodeAffinity.{PREFERRED}[{{}}].preference",
    )
    compiled, problem = compile_each(wires, _preferred_nodes, field)
    return tuple(each for each in compiled if each is not None), problem


def _preferred_nodes(wire: WirePreferredNodes) -> PreferredNodes | None:
    """Compile a preferred term; None if it is empty or has weight 0."""
    expressions, fields = wire.preference.match_expressions or (), wire.preference.match_fields or ()
    if not wire.weight or not (expressions or fields):
        return None
    return PreferredNodes(compile_node_term(expressions, fields), wire.weight)


def compile_preferred_pods(affinity: WireAffinity | None) -> tuple[tuple[PreferredPods, ...], str]:
    """Compile the preferred inter-pod terms of a pod, affinity first.

    Returns
    -------
    terms : tuple of PreferredPods
        The valid terms.
    problem : str
        The problem of the first invalid term, naming the field; empty if there is none.
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
