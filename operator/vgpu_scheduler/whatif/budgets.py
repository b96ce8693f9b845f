"""PodDisruptionBudgets: which pods may be disrupted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vgpu_scheduler.kube import LabelSelector, Pod, SelectorError, compile_label_selector
from vgpu_scheduler.whatif.objects import WorldError

Object = Mapping[str, Any]


class Budget:
    """One budget.

    Parameters
    ----------
    namespace, selector
        Whose pods it is about.
    allowed
        ``status.disruptionsAllowed``: how many may be disrupted now.
    """

    def __init__(self, namespace: str, selector: LabelSelector | None, allowed: int) -> None:
        self._namespace = namespace
        self._selector = selector
        self._allowed = allowed

    def allows(self, pods: Iterable[Pod]) -> bool:
        """Tell whether some pods may be disrupted together, while no others are."""
        return sum(map(self._covers, pods)) <= self._allowed

    def _covers(self, pod: Pod) -> bool:
        return self._selector is not None and pod.namespace == self._namespace and self._selector.matches(pod.labels)


def budget_of(obj: Object) -> Budget:
    """Read a budget.

    Raises
    ------
    WorldError
        If it cannot be understood.
    """
    metadata, spec, status = (obj.get(field) or {} for field in ("metadata", "spec", "status"))
    title = f"PodDisruptionBudget {metadata.get('namespace', 'default')}/{metadata.get('name', '')}"
    for field, value in (("spec", spec), ("status", status)):
        if not isinstance(value, Mapping):
            raise WorldError(f"{title}: {field} is no mapping")
    allowed, selector = status.get("disruptionsAllowed", 0), spec.get("selector")
    if type(allowed) is not int:
        raise WorldError(f"{title}: status.disruptionsAllowed: {allowed!r} is no number")
    try:
        return Budget(metadata.get("namespace", "default"), compile_label_selector(selector), allowed)
    except (SelectorError, AttributeError, TypeError) as error:
        raise WorldError(f"{title}: spec.selector: {error}") from None
