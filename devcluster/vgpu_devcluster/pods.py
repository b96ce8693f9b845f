"""Pods: defaults that a scheduler can notice, rules for resources, and the fields that may change after creation.

Container names and resource amounts are validated. A pod's spec is immutable except for the fields that the API server
lets change. Affinity, volumes, probes and security contexts are stored unchecked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .clock import now
from .quantities import parse
from .status import Cause
from .strategies import Strategy, canonical_amounts
from .validation import LABEL_TEXT, is_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .strategies import Lookup

Object = dict[str, Any]

PRIORITY_TABLE = "priorityclasses.scheduling.k8s.io"
_SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_IMMUTABLE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_TERMINAL = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    """Pods start Pending, are deleted with grace once they are bound, and keep their spec."""

    status = True

    def admit(self, obj: Object, lookup: Lookup) -> str:
        """Resolve the priority class, as the Priority admission plugin does."""
        spec = obj["spec"]
        name = spec.get("priorityClassName", "")
        value, policy = 0, "PreemptLowerPriority"
        if name in _SYSTEM_PRIORITIES:
            value = _SYSTEM_PRIORITIES[name]
        else:
            classes = lookup(PRIORITY_TABLE)
            wanted = [one for one in classes if (one["metadata"]["name"] == name if name else one.get("globalDefault"))]
            if name and not wanted:
                return f"no PriorityClass with name {name} was found"
            for one in wanted:
                value, policy = one.get("value", 0), one["preemptionPolicy"]
                spec["priorityClassName"] = one["metadata"]["name"]
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", policy)
        return ""

    def default(self, obj: Object) -> None:
        """Fill in the defaults."""
        spec = obj.setdefault("spec", {})
        for name in _CONTAINER_LISTS:
            for container in spec.get(name) or ():
                _default_container(container)
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        spec.setdefault("dnsPolicy", "ClusterFirst")
        spec.setdefault("securityContext", {})
        spec.setdefault("schedulerName", "default-scheduler")
        spec.setdefault("enableServiceLinks", True)
        if spec.get("serviceAccountName"):
            spec.setdefault("serviceAccount", spec["serviceAccountName"])
        if "overhead" in spec:
            spec["overhead"] = canonical_amounts(spec["overhead"])
        for empty in ("nodeName", "priorityClassName", "nodeSelector", "schedulingGates", "tolerations"):
            if empty in spec and not spec[empty]:
                del spec[empty]

    def prepare_create(self, obj: Object) -> None:
        """Start Pending, with a condition if the pod is gated."""
        obj["status"] = {"phase": "Pending"}
        if obj["spec"].get("schedulingGates"):
            gated = condition("PodScheduled", "False")
            gated["reason"] = "SchedulingGated"
            gated["message"] = "Scheduling is blocked due to non-empty scheduling gates"
            obj["status"]["conditions"] = [gated]
        obj["status"]["qosClass"] = _qos(obj["spec"])

    def causes(self, obj: Object, old: Object | None) -> list[Cause]:
        """Check metadata, containers and, on update, that the spec is kept."""
        found = super().causes(obj, old)
        if old is None:
            return found + list(_spec_causes(obj["spec"]))
        if obj["spec"] != old["spec"]:
            gated = bool(old["spec"].get("schedulingGates"))
            if _frozen(obj["spec"], gated=gated) != _frozen(old["spec"], gated=gated):
                found.append(Cause.forbidden("spec", _IMMUTABLE_TEXT))
        return found

    def grace(self, obj: Object, requested: int | None) -> int | None:
        """Return 0 for a pod that no kubelet runs, else the requested or the pod's own grace period."""
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in _TERMINAL:
            return 0
        period: int = obj["spec"]["terminationGracePeriodSeconds"] if requested is None else requested
        return max(period, 0) if period >= 0 else 1


def condition(kind: str, value: str) -> Object:
    """Return a pod condition that changed now."""
    return {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": now()}


def set_condition(status: Object, fresh: Object) -> None:
    """Replace the condition of the same type; with an unchanged status it keeps its transition time."""
    conditions: list[Object] = status.setdefault("conditions", [])
    for index, existing in enumerate(conditions):
        if existing["type"] == fresh["type"]:
            if existing["status"] == fresh["status"]:
                fresh["lastTransitionTime"] = existing.get("lastTransitionTime")
            conditions[index] = fresh
            return
    conditions.append(fresh)


def _default_container(container: Object) -> None:
    resources = container.setdefault("resources", {})
    limits = canonical_amounts(resources.get("limits") or {})
    requests = canonical_amounts(resources.get("requests") or {})
    missing = limits.keys() - requests.keys()
    if missing:
        requests = {name: requests.get(name) or limits[name] for name in sorted(requests.keys() | missing)}
    for name, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[name] = amounts
        else:
            resources.pop(name, None)
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    _, _, tag = str(container.get("image", "")).rpartition(":")
    tagged = bool(tag) and "/" not in tag and tag != container.get("image") and tag != "latest"
    container.setdefault("imagePullPolicy", "IfNotPresent" if tagged else "Always")


def _qos(spec: Object) -> str:
    guaranteed, best_effort = True, True
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = container["resources"]
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        for name in ("cpu", "memory"):
            if name in requests or name in limits:
                best_effort = False
            if name not in limits or requests.get(name) != limits[name]:
                guaranteed = False
    if best_effort:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _spec_causes(spec: Object) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield Cause.required("spec.containers")
    names: set[str] = set()
    for listed in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(listed) or ()):
            field = f"spec.{listed}[{index}]"
            name = container.get("name", "")
            if not name:
                yield Cause.required(f"{field}.name")
            elif not is_label(name):
                yield Cause.invalid(f"{field}.name", name, LABEL_TEXT)
            elif name in names:
                yield Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{field}.name")
            names.add(name)
            if not container.get("image"):
                yield Cause.required(f"{field}.image")
            yield from _resource_causes(f"{field}.resources", container["resources"])


def _resource_causes(field: str, resources: Object) -> Iterator[Cause]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            if parse(text) < 0:
                message = "must be greater than or equal to 0"
                yield Cause.invalid(f"{field}.{kind}[{name}]", text, message)
            elif "/" in name and parse(text).denominator != 1:
                yield Cause.invalid(f"{field}.{kind}[{name}]", text, "must be an integer")
    for name, text in requests.items():
        limit = limits.get(name)
        if "/" in name and limit is None:
            message = "Limit must be set for non overcommitable resources"
            yield Cause.required(f"{field}.limits", message)
        elif "/" in name and limit != text:
            yield Cause.invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limit}")
        elif limit is not None and parse(text) > parse(limit):
            yield Cause.invalid(f"{field}.requests", text, f"must be less than or equal to {name} limit of {limit}")


def _frozen(spec: Object, *, gated: bool) -> bytes:
    """Return the immutable part of a spec. A gated pod may also narrow its node selector and affinity."""
    mutable = (*_MUTABLE, "nodeSelector", "affinity") if gated else _MUTABLE
    kept = {key: value for key, value in spec.items() if key not in mutable}
    for name in ("containers", "initContainers"):
        if name in kept:
            kept[name] = [{k: v for k, v in one.items() if k != "image"} for one in kept[name]]
    return msgspec.json.encode(kept, order="deterministic")
