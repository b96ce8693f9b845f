"""A container of a pod at admission: its requests, and their completion.

A vendor's admission rules (``Vendor.admit``) tell whether a container requests cards, and complete its requests. They
are the rules of HAMi's webhook as pure functions over a :class:`ContainerDraft`; vendors without rules only check for a
limit of their count resource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.kube import QuantityError, to_exact_int


class ContainerDraft:
    """A container of a pod as JSON, which may be changed.

    Parameters
    ----------
    pod
        The pod; the types of its containers, resources and annotations are valid.
    container
        One of its containers.
    unclaimed
        Whether no policy sets defaults for claims. If one does, missing amounts are not written, because the decision
        applies the effective policy.
    """

    def __init__(self, pod: dict[str, Any], container: dict[str, Any], *, unclaimed: bool = True) -> None:
        self._pod = pod
        self._container = container
        self.unclaimed = unclaimed

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self._container.get("name") or "")

    def limit(self, resource: str) -> str | None:
        """Return a limit, or None; an empty resource name has none."""
        return self._amount("limits", resource)

    def request(self, resource: str) -> str | None:
        """Return a request."""
        return self._amount("requests", resource)

    def either(self, resource: str) -> str | None:
        """Return the limit, else the request."""
        limit = self.limit(resource)
        return self.request(resource) if limit is None else limit

    def _amount(self, kind: str, resource: str) -> str | None:
        amounts = (self._container.get("resources") or {}).get(kind) or {}
        found = amounts.get(resource) if resource else None
        return None if found is None else str(found)

    def set_limit(self, resource: str, amount: int | str) -> None:
        """Set a limit, and the request if there is one, because the API server requires them to be equal."""
        self._set("limits", resource, amount)
        if self.request(resource) is not None:
            self._set("requests", resource, amount)

    def set_both(self, resource: str, amount: int | str) -> None:
        """Set the limit and the request."""
        self._set("limits", resource, amount)
        self._set("requests", resource, amount)

    def add_limit(self, resource: str, amount: int | str) -> None:
        """Set a limit only."""
        self._set("limits", resource, amount)

    def _set(self, kind: str, resource: str, amount: int | str) -> None:
        if resource:
            _map(_map(self._container, "resources"), kind)[resource] = str(amount)

    def set_env(self, name: str, value: str) -> None:
        """Append an environment variable, because the last one of a name counts.

        Nothing is added if the variable already has the value: a webhook may be called again for the same pod.
        """
        entry = {"name": name, "value": value} if value else {"name": name}
        listed = self._container.get("env")
        if listed is None:
            listed = self._container["env"] = []
        if not isinstance(listed, list):
            return  # the API server rejects such a pod
        last = next((e for e in reversed(listed) if isinstance(e, dict) and e.get("name") == name), None)
        if last is None or {key: value for key, value in last.items() if value not in (None, "")} != entry:
            listed.append(entry)

    def annotation(self, name: str) -> str | None:
        """Return an annotation of the pod."""
        annotations: Mapping[str, str] = self._pod["metadata"].get("annotations") or {}
        return annotations.get(name)

    def annotate(self, name: str, value: str) -> None:
        """Set an annotation of the pod."""
        _map(self._pod["metadata"], "annotations")[name] = value

    def use_runtime_class(self, name: str) -> None:
        """Set the pod's runtime class if it has none and the name is not empty."""
        if name and self._pod["spec"].get("runtimeClassName") is None:
            self._pod["spec"]["runtimeClassName"] = name

    def sound(self, *resources: str) -> bool:
        """Tell whether all amounts of these resources are whole numbers that the scheduler can read.

        The scheduler refuses other amounts by name. Nothing is derived from these, which would hide the error.
        """
        given = [kind(name) for name in resources for kind in (self.limit, self.request)]
        numbers = [exact(text) for text in given if text is not None]
        return all(number is not None and 0 <= number <= INT32 for number in numbers)


Admit = Callable[[ContainerDraft], bool]
"""Completes a container, and tells whether it requests a vendor's cards.

Raises :class:`AdmissionDenied` for a pod that must not be admitted.
"""


def exact(text: str) -> int | None:
    """Return an amount if it is a whole number, else None."""
    try:
        return to_exact_int(text)
    except QuantityError:
        return None


def _map(holder: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = holder.get(name)
    if found is None:
        found = holder[name] = {}
    return found
