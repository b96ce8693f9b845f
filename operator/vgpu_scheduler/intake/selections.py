"""Which pods are watched beside those that kopf shows: each selection is made by the API server."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

__all__ = ["BOUND_PODS", "UNBOUND", "PodSelection", "pod_selections"]

UNBOUND: Final = "spec.nodeName="
"""The field selector of pods that are not bound."""


@dataclass(frozen=True, slots=True)
class PodSelection:
    """A selection of pods.

    Attributes
    ----------
    name
        What logs and tasks call it.
    fields
        The field selector.
    bound
        Whether it has all bound pods. A pod leaves these when it is deleted, and any other selection when it is bound
        or deleted, or when it is no longer nominated.
    """

    name: str
    fields: str
    bound: bool = False


BOUND_PODS: Final = PodSelection("bound", "spec.nodeName!=", bound=True)
"""The bound pods, whoever bound them."""


def pod_selections(scheduler_names: Collection[str], coexist_with: Collection[str]) -> tuple[PodSelection, ...]:
    """Return the selections that show all pods that hold something; no pod is in two of them, nor in one of kopf's.

    Parameters
    ----------
    scheduler_names
        Ours: kopf shows their unbound pods.
    coexist_with
        The schedulers that announce what they will bind.
    """
    others = sorted(set(coexist_with) - set(scheduler_names))
    shown = [f"spec.schedulerName!={name}" for name in sorted({*scheduler_names, *others})]
    nominated = ",".join((UNBOUND, "status.nominatedNodeName!=", *shown))
    announced = (PodSelection(f"announced-{name}", f"{UNBOUND},spec.schedulerName={name}") for name in others)
    return BOUND_PODS, PodSelection("nominated", nominated), *announced
