"""Evictions (``pods/eviction``): a deletion, if the pod's disruption budgets allow it.

The order of the checks and the messages are those of ``pkg/registry/core/pod/storage/eviction.go`` of Kubernetes 1.36.
Conflicts that it retries for ten seconds do not occur here, because nothing runs in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import status
from .clock import now
from .objects import Target
from .pods import condition, set_condition
from .registry import Answer, DeleteOptions, Registry, WriteOptions
from .resources import BUDGETS, PODS
from .store import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .store import Entry, Object, Store

_DONE = encode(status.success(201))
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_MOST_DISRUPTED = 2000
_RETRY_AFTER = 10
_ALLOWED = "DisruptionAllowed"


def evict(registry: Registry, target: Target, eviction: Object, write: WriteOptions) -> Answer:
    """Evict a pod: a deletion with the eviction's options, if the pod's disruption budget allows it."""
    if (eviction.get("metadata") or {}).get("name") != target.name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    given = DeleteOptions.parse(eviction.get("deleteOptions") or {})
    options = DeleteOptions(given.grace, given.uid, given.revision, dry_run=given.dry_run or write.dry_run)
    pod = registry.existing(target).thaw()
    if not _ends_anyway(pod):
        _ask_budgets(registry.store, target, pod, dry_run=options.dry_run)
    _delete(registry, target, options)
    return 201, _DONE


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector of an object matches labels; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_fulfils(labels.get(term["key"]), term) for term in selector.get("matchExpressions") or ())


def budgets_of(store: Store, namespace: str, labels: Mapping[str, str]) -> list[Entry]:
    """Return the disruption budgets that select a pod with these labels, by name."""
    table = store.table(BUDGETS).entries
    here = [table[key] for key in sorted(table) if key[0] == namespace]
    return [entry for entry in here if selects(entry.thaw()["spec"].get("selector"), labels)]


def is_ready(pod: Object) -> bool:
    """Tell whether a pod counts as healthy for disruption budgets."""
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def allow(budget: Object, reason: str = "", message: str = "") -> None:
    """Update the condition of a budget: what it allows, or why that is not known."""
    found = budget["status"]
    allowed = found["disruptionsAllowed"] > 0
    fresh = condition(_ALLOWED, "True" if allowed else "False")
    del fresh["lastProbeTime"]
    fresh["reason"] = reason or ("SufficientPods" if allowed else "InsufficientPods")
    fresh["message"] = message
    if "observedGeneration" in found:
        fresh["observedGeneration"] = found["observedGeneration"]
    set_condition(found, fresh)


def _fulfils(value: str | None, term: Object) -> bool:
    operator, values = term["operator"], term.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]


def _ends_anyway(pod: Object) -> bool:
    """Tell whether a pod does not run or is ending already, so that its eviction disrupts nothing."""
    return pod["status"]["phase"] in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in pod["metadata"]


def _ask_budgets(store: Store, target: Target, pod: Object, *, dry_run: bool) -> None:
    """Count the eviction against the pod's budget, or refuse it."""
    found = budgets_of(store, target.namespace, pod["metadata"].get("labels") or {})
    if len(found) > 1:
        raise status.ApiError(500, "", _SEVERAL)
    for entry in found:
        budget = entry.thaw()
        if is_ready(pod) or not _spares_unready(budget):
            _count(budget, target.name)
            if not dry_run:
                store.put(BUDGETS, budget, entry)


def _spares_unready(budget: Object) -> bool:
    """Tell whether evicting a pod that is not ready does not count against the budget."""
    state = budget["status"]
    healthy = state["currentHealthy"] >= state["desiredHealthy"] > 0
    return budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or bool(healthy)


def _count(budget: Object, pod: str) -> None:
    """Deduct one eviction from a budget.

    Raises
    ------
    ApiError
        429 if the budget allows none or is stale; 403 if too many evictions are unconfirmed.
    """
    name, state = budget["metadata"]["name"], budget["status"]
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", _RETRY_AFTER)
    disrupted = state.setdefault("disruptedPods", {})
    if len(disrupted) > _MOST_DISRUPTED:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        message = f'poddisruptionbudget.policy "{name}" is forbidden: {text}'
        kind = {"name": name, "group": "policy", "kind": "poddisruptionbudget"}
        raise status.ApiError(403, "Forbidden", message, kind)
    if state["disruptionsAllowed"] <= 0:
        raise _too_many(_why_not(name, state))
    state["disruptionsAllowed"] -= 1
    if state["disruptionsAllowed"] == 0:
        allow(budget)
    disrupted[pod] = now()


def _why_not(name: str, state: Object) -> str:
    denied = next(
        (
            one
            for one in state.get("conditions") or ()
            if one["type"] == _ALLOWED and one["status"] == "False" and one.get("message")
        ),
        None,
    )
    start = f"The disruption budget {name}"
    if denied is not None and denied["reason"] == "SyncFailed":
        return f"{start} does not allow evicting pods currently because it failed sync: {denied['message']}"
    if state["currentHealthy"] <= state["desiredHealthy"]:
        return f"{start} needs {state['desiredHealthy']} healthy pods and has {state['currentHealthy']} currently"
    if denied is not None:
        return f"{start} does not allow evicting pods currently ({denied['reason']}): {denied['message']}"
    return f"{start} does not allow evicting pods currently"


def _too_many(cause: str, retry_after: int = 0) -> status.ApiError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return status.ApiError(429, "TooManyRequests", _VIOLATES, details)


def _delete(registry: Registry, target: Target, options: DeleteOptions) -> None:
    """Write the disruption condition on the pod, then delete it; its resource version rises in between."""
    where = Target(PODS, target.namespace, target.name)
    registry.delete(where, DeleteOptions(options.grace, options.uid, options.revision, dry_run=True))
    if options.dry_run:
        return
    entry = registry.existing(where)
    pod = entry.thaw()
    disrupted = condition("DisruptionTarget", "True")
    disrupted |= {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    set_condition(pod["status"], disrupted)
    if pod != entry.thaw():
        registry.store.put(PODS, pod, entry)
    registry.delete(where, DeleteOptions(options.grace, options.uid))
