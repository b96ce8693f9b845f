"""PodDisruptionBudgets: which pods may be disrupted, as far as they are understood here."""

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

__all__ = ["DisruptionBudget", "decode_budget", "violated_budgets", "violating_budgets"]


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget.

    Attributes
    ----------
    resource_version
        Version of the object; 0 if it has none (a file).
    selector
        The pods of its namespace that it is about; None if it is about none.
    allowed
        ``status.disruptionsAllowed``: how many may be disrupted now.
    disrupted
        The names of the pods that the API server has counted already, although they are still there.
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
        """Tell whether the API server holds an eviction of the pod against this budget."""
        return self.selector is not None and pod.namespace == self.namespace and self.selector.matches(pod.labels)

    def allows(self, pods: Iterable[Pod]) -> bool:
        """Tell whether some pods may be disrupted together, while no others are."""
        return sum(self.covers(pod) and pod.name not in self.disrupted for pod in pods) <= self.allowed

    def after(self, evicted: Iterable[Pod], *, gone: bool = False) -> DisruptionBudget:
        """Return the budget once some pods were evicted: each that is not counted yet takes one of what is allowed.

        Parameters
        ----------
        gone
            Whether they are gone by then: a pod that comes with the name of one of them is counted again.
        """
        covered = [pod for pod in evicted if self.covers(pod)]
        if not covered:
            return self
        names = {pod.name for pod in covered}
        taken = {pod.name for pod in covered if not pod.deleting} - self.disrupted
        disrupted = self.disrupted - names if gone else self.disrupted | taken
        return msgspec.structs.replace(self, allowed=max(self.allowed - len(taken), 0), disrupted=disrupted)


def violating_budgets(pods: Iterable[Pod], budgets: Sequence[DisruptionBudget]) -> list[Pod]:
    """Return those of some pods whose end would violate a budget, if they end in this order.

    See :func:`violated_budgets`.
    """
    pods = list(pods)
    violated = violated_budgets(pods, budgets)
    return [pod for pod in pods if pod.uid in violated]


def violated_budgets(pods: Iterable[Pod], budgets: Sequence[DisruptionBudget]) -> dict[str, tuple[str, ...]]:
    """Return which budgets the end of each of some pods would violate, if they end in this order.

    As kube-scheduler 1.36 counts: each pod takes one from every budget that covers it, also from one that has nothing
    left; an empty selector covers no pod, nor does any selector one without labels.

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
