"""How kinds differ on create, update and delete: defaults, isolation of the status, validation.

The names follow the API server's registry strategies. Pods and nodes have files of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .quantities import canonical
from .status import Cause
from .validation import metadata_causes

if TYPE_CHECKING:
    from collections.abc import Callable

    Lookup = Callable[[str], list["Object"]]

Object = dict[str, Any]


class Strategy:
    """The plain kind: no status subresource, no defaults, deletion at once."""

    status = False  # whether status is written through its own subresource only
    dns_label = False  # whether names may not contain dots

    def admit(self, obj: Object, lookup: Lookup) -> str:  # noqa: ARG002 - the plain kind has no rules
        """Fill in what admission plugins do on create; ``lookup`` lists the objects of another kind by table.

        Returns
        -------
        str
            Why the object is forbidden; empty if it is allowed.
        """
        return ""

    def default(self, obj: Object) -> None:
        """Fill in defaults and bring quantities into canonical form; must be idempotent.

        Raises
        ------
        ValueError
            The object cannot be read as one of its kind (a malformed quantity).
        """

    def prepare_create(self, obj: Object) -> None:
        """Reset the fields that a creator may not set."""
        if self.status:
            obj.pop("status", None)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        """Restore what this kind of write may not change."""
        if not self.status:
            return
        kept = [key for key in {*obj, *old} if key not in _HEAD] if subresource == "status" else ["status"]
        for key in kept:
            if key == "status" and subresource == "status":
                continue
            if key in old:
                obj[key] = old[key]
            else:
                obj.pop(key, None)

    def causes(self, obj: Object, old: Object | None) -> list[Cause]:
        """Return what is wrong with an object; ``old`` is the object that it replaces."""
        return metadata_causes(obj["metadata"], old["metadata"] if old else None, dns_label=self.dns_label)

    def grace(self, obj: Object, requested: int | None) -> int | None:  # noqa: ARG002
        """Return the grace period of a deletion; None if the kind has none."""
        return None


_HEAD = frozenset(("kind", "apiVersion", "metadata"))


class NamespaceStrategy(Strategy):
    """Namespaces carry their own name as a label; :mod:`.namespaces` ends those that are deleted."""

    status = True
    dns_label = True

    def default(self, obj: Object) -> None:
        """Label the namespace with its name."""
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def prepare_create(self, obj: Object) -> None:
        """Make the namespace active, with the finalizer that holds it."""
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}


class VolumeStrategy(Strategy):
    """Volumes and claims are stored and shown; no controller binds them to each other."""

    status = True

    def default(self, obj: Object) -> None:
        """Fill in the volume mode."""
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: Object) -> None:
        """Start as pending."""
        obj["status"] = {"phase": "Pending"}


class QuotaStrategy(Strategy):
    """Resource quotas are stored and shown; nothing enforces them or counts their use."""

    status = True

    def default(self, obj: Object) -> None:
        """Print the amounts as the API server does."""
        for section, key in (("spec", "hard"), ("status", "hard"), ("status", "used")):
            amounts = (obj.get(section) or {}).get(key)
            if amounts:
                obj[section][key] = canonical_amounts(amounts)

    def prepare_create(self, obj: Object) -> None:
        """Start with an empty status."""
        obj["status"] = {}


class LimitRangeStrategy(Strategy):
    """Limit ranges are stored and shown; nothing enforces them or gives their defaults to pods."""

    def default(self, obj: Object) -> None:
        """Fill in what follows from the rest, and print the amounts as the API server does."""
        for item in (obj.get("spec") or {}).get("limits") or ():
            for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
                if item.get(key):
                    item[key] = canonical_amounts(item[key])
            if item.get("type") == "Container":
                limits = {**item.get("max", {}), **item.get("default", {})}
                requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
                item.update({key: each for key, each in (("default", limits), ("defaultRequest", requests)) if each})


class BudgetStrategy(Strategy):
    """Disruption budgets; :mod:`.disruption` counts their pods, and :mod:`.evictions` checks them."""

    status = True

    def prepare_create(self, obj: Object) -> None:
        """Start with a status that no controller has observed."""
        obj["status"] = dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)


@dataclass(frozen=True)
class EventStrategy(Strategy):
    """Events; the newer version requires a time and a reporter."""

    needs_time: bool = False

    def default(self, obj: Object) -> None:
        """Add the fields that the core version always has."""
        obj.setdefault("source", {})
        for key in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(key, None)
        for key in ("reportingComponent", "reportingInstance"):
            obj.setdefault(key, "")

    def causes(self, obj: Object, old: Object | None) -> list[Cause]:
        """Check the metadata and what ``events.k8s.io`` requires on create."""
        found = super().causes(obj, old)
        if not self.needs_time or old is not None:
            return found
        if not obj.get("eventTime"):
            return [Cause.required("eventTime")]
        required = {"reportingController": "reportingComponent", "reportingInstance": "", "action": "", "reason": ""}
        found += [Cause.required(shown) for shown, key in required.items() if not obj.get(key or shown)]
        return found


class PriorityClassStrategy(Strategy):
    """Priority classes default to preempting lower priorities."""

    def default(self, obj: Object) -> None:
        """Fill in the preemption policy."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def canonical_amounts(amounts: Object) -> dict[str, str]:
    """Return a resource list with canonical quantities, in the order in which the API server prints it."""
    return {name: canonical(str(amounts[name])) for name in sorted(amounts)}
