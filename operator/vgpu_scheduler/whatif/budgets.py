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

    def allows(self, pod: Pod) -> bool:
        """Tell whether a pod may be disrupted, while no other one is."""
        return self._allowed > 0 or not self._covers(pod)

    def _covers(self, pod: Pod) -> bool:
        return self._selector is not None and pod.namespace == self._namespace and self._selector.matches(pod.labels)


def budgets_of(objects: Iterable[Object]) -> list[Budget]:
    """Read budgets.

    Raises
    ------
    WorldError
        If one cannot be understood.
    """
    return [_budget(obj) for obj in objects]


def _budget(obj: Object) -> Budget:
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
