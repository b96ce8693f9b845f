"""The one place that all observations pass through, whatever stream they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vgpu_scheduler.engine import Engine, Problem
from vgpu_scheduler.kube import Node, Pod, ResourceQuota
from vgpu_scheduler.policy import Namespace, PolicyResource


@dataclass(slots=True)
class IntakeStats:
    """What came in, for metrics."""

    pods: int = 0
    nodes: int = 0
    undecodable: int = 0
    problems: int = 0
    restarts: int = 0
    relists: int = 0
    swept: int = 0
    policies: int = 0
    namespaces: int = 0
    quotas: int = 0
    drift: int = 0
    """Nodes whose ledger differed from its rebuild at the last sweep."""

    def restarted(self) -> None:
        """Count that kopf had to be started again."""
        self.restarts += 1


@dataclass(slots=True)
class Sink:
    """Hands observations to the engine and tells those who wait for them.

    Parameters
    ----------
    engine
        What is known and what is decided from it.
    monotonic
        Seconds since some point in the past.
    moved
        Told the name of a node that was observed anew, or on which a pod was.
    changed
        Told that a decision may come out differently now.
    report
        Told of objects that could not be understood.
    """

    engine: Engine
    monotonic: Callable[[], float]
    moved: Callable[[str], None]
    changed: Callable[[], None]
    report: Callable[[Problem], None]
    stats: IntakeStats = field(default_factory=IntakeStats)

    def pod(self, pod: Pod) -> None:
        """Take in a pod."""
        self.stats.pods += 1
        self._report(self.engine.observe_pod(pod, self.monotonic()))
        if pod.node_name:
            self.moved(pod.node_name)
        self.changed()

    def pod_gone(self, pod: Pod) -> None:
        """Take in that a pod is deleted."""
        self.stats.pods += 1
        self.engine.remove_pod(pod.uid, self.monotonic())
        if pod.node_name:
            self.moved(pod.node_name)
        self.changed()

    def node(self, node: Node) -> None:
        """Take in a node."""
        self.stats.nodes += 1
        self._report(self.engine.observe_node(node, self.monotonic()))
        self.moved(node.name)
        self.changed()

    def node_gone(self, node: Node) -> None:
        """Take in that a node is deleted; one of the same name may have come since."""
        self.stats.nodes += 1
        known = self.engine.state.node(node.name)
        if known is not None and known.uid == node.uid:
            self.engine.remove_node(node.name)
        self.moved(node.name)
        self.changed()

    def policy(self, policy: PolicyResource) -> None:
        """Take in a policy resource."""
        self.stats.policies += 1
        self.engine.in_force.observe(policy)
        self.changed()

    def policy_gone(self, policy: PolicyResource) -> None:
        """Take in that a policy resource is deleted."""
        self.stats.policies += 1
        self.engine.in_force.remove(policy)
        self.changed()

    def namespace(self, namespace: Namespace) -> None:
        """Take in a namespace."""
        self.stats.namespaces += 1
        self.engine.in_force.observe_namespace(namespace)
        self.changed()

    def namespace_gone(self, namespace: Namespace) -> None:
        """Take in that a namespace is deleted."""
        self.stats.namespaces += 1
        self.engine.in_force.remove_namespace(namespace)
        self.changed()

    def quota(self, quota: ResourceQuota) -> None:
        """Take in a quota of a namespace."""
        self.stats.quotas += 1
        self._report(self.engine.quotas.observe(quota))
        self.changed()

    def quota_gone(self, quota: ResourceQuota) -> None:
        """Take in that a quota is deleted."""
        self.stats.quotas += 1
        self.engine.quotas.remove(quota)
        self.changed()

    def sweep_quotas(self, listed: Iterable[ResourceQuota], version: int) -> int:
        """Bring the quotas in line with a consistent list of all of them; return how many were gone."""
        gone, problems = self.engine.quotas.sweep(listed, version)
        self._report(problems)
        return gone

    def _report(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.stats.problems += 1
            self.report(problem)
