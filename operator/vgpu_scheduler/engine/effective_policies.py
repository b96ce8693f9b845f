"""What is in force for the pods that wait."""

from __future__ import annotations

from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.policy_report import PolicyReport, report_policies
from vgpu_scheduler.kube import Namespace, Pod
from vgpu_scheduler.policy import PolicyResource

Terms = tuple[int | str | None, ...]
"""What a decision rests on beside the pod's spec and annotations: its policy, and the labels that its claims ask."""


class EffectivePolicies:
    """Keeps policies and namespaces, and tells for which pods something else is in force than when they were decided.

    Parameters
    ----------
    classes
        What pods ask for, under which policies, and of which state.
    """

    def __init__(self, classes: EquivalenceClasses) -> None:
        self._classes = classes
        self._catalogue = classes.policies.catalogue
        self._state = classes.state
        self._dialects = classes.dialects
        self._decided_under: dict[str, Terms] = {}

    def observe(self, policy: PolicyResource) -> None:
        """Take in a policy resource; the next decision follows it."""
        self._catalogue.put(policy)

    def remove(self, policy: PolicyResource, version: int | None = None) -> None:
        """Take in that a policy resource is gone, as of a version; its own unless one is given."""
        self._catalogue.remove(policy, version)

    def observe_namespace(self, namespace: Namespace) -> None:
        """Take in a namespace, whose labels cluster policies and inter-pod terms may select by."""
        self._catalogue.put_namespace(namespace)
        self._count_in(namespace.name)

    def remove_namespace(self, namespace: Namespace, version: int | None = None) -> None:
        """Take in that a namespace is gone, as of a version; its own unless one is given."""
        self._catalogue.remove_namespace(namespace, version)
        self._count_in(namespace.name)

    def _count_in(self, namespace: str) -> None:
        """Have the pods of a namespace counted by the labels that it has now."""
        known = self._catalogue.namespace(namespace)
        self._state.wakes.hints |= self._state.observe_namespace(namespace, known.labels if known else None)

    def report(self, ours: frozenset[str]) -> list[PolicyReport]:
        """Say what became of each policy resource; ``ours`` are the scheduler names whose pods count."""
        return report_policies(self._classes.policies, self._state, self._dialects, ours)

    @property
    def generation(self) -> int:
        """Changes with every change that may alter a report."""
        return self._catalogue.generation

    # Decisions -------------------------------------------------------------------------------------------------------

    def decided(self, pod: Pod) -> None:
        """Note what is in force for a pod that is decided now, and what it asks under that."""
        self._classes.note(pod)
        self._decided_under[pod.uid] = self._terms(pod)

    def as_decided(self, pod: Pod) -> bool:
        """Tell whether the same is in force for a pod as when it was decided."""
        return self._terms(pod) == self._decided_under.get(pod.uid)

    def forget(self, uid: str) -> None:
        """Forget a pod that waits no more."""
        self._decided_under.pop(uid, None)
        self._classes.forget(uid)

    def _terms(self, pod: Pod) -> Terms:
        return (self._classes.policy(pod).number, *map(pod.labels.get, self._dialects.pod_labels))
