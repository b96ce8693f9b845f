"""PodDisruptionBudgets: which pods may be disrupted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from vgpu_scheduler.kube.decoding import Decode, decoder_of
from vgpu_scheduler.kube.objects import Pod
from vgpu_scheduler.kube.selectors import LabelSelector
from vgpu_scheduler.kube.storagedecoding import label_selector
from vgpu_scheduler.kube.wire import Wire, WireLabelSelector, WireMeta


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget.

    Attributes
    ----------
    resource_version
        Version of the object; 0 if it has none (a file).
    selector
        Selects pods of its namespace; None for none.
    allowed
        ``status.disruptionsAllowed``: how many pods may be disrupted now.
    disrupted
        The names of pods that still exist but that the API server has already counted as disrupted.
    """

    uid: str
    namespace: str
    name: str
    resource_version: int
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def covers(self, pod: Pod) -> bool:
        """Tell whether the API server counts an eviction of the pod against this budget."""
        return self.selector is not None and pod.namespace == self.namespace and self.selector.matches(pod.labels)

    def allows(self, pods: Iterable[Pod]) -> bool:
        """Tell whether some pods may be disrupted together, if no others are."""
        return sum(self.covers(pod) and pod.name not in self.disrupted for pod in pods) <= self.allowed

    def after(self, evicted: Iterable[Pod], *, gone: bool = False) -> DisruptionBudget:
        """Return the budget after evicting some pods: each pod that is not counted yet uses up one allowed disruption.

        Parameters
        ----------
        gone
            Whether they are gone by then, so that a new pod of the same name is counted again.
        """
        covered = [pod for pod in evicted if self.covers(pod)]
        if not covered:
            return self
        names = {pod.name for pod in covered}
        taken = {pod.name for pod in covered if not pod.deleting} - self.disrupted
        disrupted = self.disrupted - names if gone else self.disrupted | taken
        return msgspec.structs.replace(self, allowed=max(self.allowed - len(taken), 0), disrupted=disrupted)


def violating_budgets(pods: Iterable[Pod], budgets: Sequence[DisruptionBudget]) -> list[Pod]:
    """Return the pods whose eviction would violate a budget, if they are evicted in this order.

    See :func:`violated_budgets`.
    """
    pods = list(pods)
    violated = violated_budgets(pods, budgets)
    return [pod for pod in pods if pod.uid in violated]


def violated_budgets(pods: Iterable[Pod], budgets: Sequence[DisruptionBudget]) -> dict[str, tuple[str, ...]]:
    """Return which budgets the eviction of each pod would violate, if they are evicted in this order.

    As in kube-scheduler 1.36, each pod uses up one disruption of every budget that covers it, even of an exhausted one;
    an empty selector covers no pod, and no selector covers a pod without labels.

    Returns
    -------
    dict
        The budgets as ``namespace/name``, by the UID of the pod; pods that violate none are left out.
    """
    pods, taken, found = list(pods), Counter[int](), {}
    namespaces = {pod.namespace for pod in pods}
    budgets = [budget for budget in budgets if budget.namespace in namespaces]
    for pod in pods:
        violated = []
        for number, budget in enumerate(budgets):
            selects_something = budget.selector is not None and budget.selector.requirements and pod.labels
            if selects_something and budget.covers(pod) and pod.name not in budget.disrupted:
                taken[number] += 1
                if taken[number] > budget.allowed:
                    violated.append(budget.key)
        if violated:
            found[pod.uid] = tuple(violated)
    return found


class _WireBudgetSpec(Wire):
    """``PodDisruptionBudgetSpec``."""

    selector: WireLabelSelector | None = None


class _WireBudgetStatus(Wire):
    """``PodDisruptionBudgetStatus``."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] | None = None


class _WireBudget(Wire):
    """``PodDisruptionBudget`` of ``policy/v1``."""

    metadata: WireMeta
    spec: _WireBudgetSpec | None = None
    status: _WireBudgetStatus | None = None


def _budget(wire: _WireBudget) -> DisruptionBudget:
    meta, spec, status = wire.metadata, wire.spec or _WireBudgetSpec(), wire.status or _WireBudgetStatus()
    return DisruptionBudget(
        uid=meta.uid,
        namespace=meta.namespace or "default",
        name=meta.name,
        resource_version=meta.version,
        selector=label_selector(spec.selector, "spec.selector"),
        allowed=status.disruptions_allowed,
        disrupted=frozenset(status.disrupted_pods or ()),
    )


decode_budget: Final[Decode[DisruptionBudget]] = decoder_of("PodDisruptionBudget", _WireBudget, _budget)
"""Reads a PodDisruptionBudget."""
