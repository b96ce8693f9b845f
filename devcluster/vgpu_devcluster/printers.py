"""The output of ``kubectl get`` for each built-in kind: columns and cells.

Columns are written as ``Name[:type][+]``; a plus marks columns that only ``-o wide`` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import jsonpath
from .ages import UNKNOWN, age

Object = dict[str, Any]
Cells = list[Any]
Printer = tuple[str, Callable[[Object], Cells]]

NONE = "<none>"
UNSET = "<unset>"
_ROLE = "node-role.kubernetes.io/"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_TERMINAL = ("Succeeded", "Failed")


def _at(obj: Object, path: str, otherwise: Any = "") -> Any:
    found = jsonpath.find(path, obj)
    return otherwise if not found or found[0] is None else found[0]


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _age(obj: Object) -> str:
    return age(obj["metadata"].get("creationTimestamp"))


def _plain(*paths: str) -> Callable[[Object], Cells]:
    """Return a printer of name, values and age."""
    return lambda obj: [_name(obj), *(_at(obj, path) for path in paths), _age(obj)]


# ---------------------------------------------------------------------------------------------------- pods


def _pod(obj: Object) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    states = status.get("containerStatuses") or []
    ready = sum(bool(state.get("ready")) for state in states)
    restarts = sum(int(state.get("restartCount") or 0) for state in states)
    gates = _gates(spec, status)
    return [
        _name(obj),
        f"{ready}/{len(spec.get('containers') or ())}",
        _pod_word(obj["metadata"], spec, status),
        str(restarts),
        _age(obj),
        _at(status, ".podIPs[0].ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        gates,
    ]


def _gates(spec: Object, status: Object) -> str:
    wanted = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    true = {one["type"] for one in status.get("conditions") or () if one["status"] == "True"}
    return f"{sum(gate in true for gate in wanted)}/{len(wanted)}" if wanted else NONE


def _pod_word(metadata: Object, spec: Object, status: Object) -> str:
    """Return the word in the column Status: why a container waits or has ended, if it says so, else the phase."""
    phase = status.get("phase", "")
    if "deletionTimestamp" in metadata and phase not in _TERMINAL:
        return "Terminating"
    word = status.get("reason") or phase
    if spec.get("schedulingGates") and phase == "Pending":
        word = "SchedulingGated"
    states = status.get("containerStatuses") or []
    for state in reversed(states):
        word = _at(state, ".state.waiting.reason") or _ended(state) or word
    if word == "Completed" and any("running" in state.get("state", {}) for state in states):
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
        return "Running" if ready else "NotReady"
    return str(word)


def _ended(state: Object) -> str:
    ended = _at(state, ".state.terminated", {})
    if not ended or ended.get("reason"):
        return str(ended.get("reason", ""))
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


# ---------------------------------------------------------------------------------------------------- nodes


def _node(obj: Object) -> Cells:
    conditions = _at(obj, ".status.conditions", [])
    ready = [one["status"] for one in conditions if one["type"] == "Ready"]
    word = {"True": "Ready", "False": "NotReady"}.get(ready[0], "Unknown") if ready else "Unknown"
    if _at(obj, ".spec.unschedulable", otherwise=False):
        word += ",SchedulingDisabled"
    return [
        _name(obj),
        word,
        ",".join(_roles(obj["metadata"].get("labels") or {})) or NONE,
        _age(obj),
        _at(obj, ".status.nodeInfo.kubeletVersion"),
        _at(obj, '.status.addresses[?(@.type=="InternalIP")].address') or NONE,
        _at(obj, '.status.addresses[?(@.type=="ExternalIP")].address') or NONE,
        _at(obj, ".status.nodeInfo.osImage") or UNKNOWN,
        _at(obj, ".status.nodeInfo.kernelVersion") or UNKNOWN,
        _at(obj, ".status.nodeInfo.containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE) and label != _ROLE}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return sorted(roles)


# ---------------------------------------------------------------------------------------------------- events


def _event(obj: Object) -> Cells:
    involved = obj.get("involvedObject") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name")
    return [
        age(last),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        involved.get("fieldPath", ""),
        _source(obj),
        str(obj.get("message", "")).strip(),
        age(first),
        str(series.get("count") or obj.get("count") or 1),
        _name(obj),
    ]


def _source(obj: Object) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent", "")
    host = source.get("host") or obj.get("reportingInstance", "")
    return f"{component}, {host}" if host else str(component)


# ---------------------------------------------------------------------------------------------------- storage


def _quota(obj: Object) -> Cells:
    hard, used = _at(obj, ".status.hard", {}), _at(obj, ".status.used", {})
    shown = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in shown.items() if name.startswith("limits.")]
    requests = [text for name, text in shown.items() if not name.startswith("limits.")]
    return [_name(obj), ", ".join(requests), ", ".join(limits), _age(obj)]


def _modes(obj: Object, path: str) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in _at(obj, path, []))


def _claim(obj: Object) -> Cells:
    bound = bool(_at(obj, ".spec.volumeName"))
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else _at(obj, ".status.phase")
    return [
        _name(obj),
        phase,
        _at(obj, ".spec.volumeName"),
        _at(obj, ".status.capacity.storage") if bound else "",
        _modes(obj, ".status.accessModes") if bound else "",
        _at(obj, ".spec.storageClassName"),
        _at(obj, ".spec.volumeAttributesClassName") or UNSET,
        _age(obj),
        _at(obj, ".spec.volumeMode") or UNSET,
    ]


def _volume(obj: Object) -> Cells:
    claim = _at(obj, ".spec.claimRef", {})
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else _at(obj, ".status.phase")
    return [
        _name(obj),
        _at(obj, ".spec.capacity.storage"),
        _modes(obj, ".spec.accessModes"),
        _at(obj, ".spec.persistentVolumeReclaimPolicy"),
        phase,
        f"{claim.get('namespace', '')}/{claim['name']}" if claim else "",
        _at(obj, ".spec.storageClassName"),
        _at(obj, ".spec.volumeAttributesClassName") or UNSET,
        _at(obj, ".status.reason"),
        _age(obj),
        _at(obj, ".spec.volumeMode") or UNSET,
    ]


def _storage_class(obj: Object) -> Cells:
    default = obj["metadata"].get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        _name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        str(bool(obj.get("allowVolumeExpansion"))).lower(),
        _age(obj),
    ]


def _driver(obj: Object) -> Cells:
    spec = obj.get("spec") or {}
    audiences = [token.get("audience", "") for token in spec.get("tokenRequests") or ()]
    return [
        _name(obj),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(audiences) or UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ("Persistent",)),
        _age(obj),
    ]


def _attachment(obj: Object) -> Cells:
    attached = bool(_at(obj, ".status.attached", otherwise=False))
    volume = _at(obj, ".spec.source.persistentVolumeName")
    return [_name(obj), _at(obj, ".spec.attacher"), volume, _at(obj, ".spec.nodeName"), attached, _age(obj)]


# ---------------------------------------------------------------------------------------------------- others


def _priority_class(obj: Object) -> Cells:
    policy = obj.get("preemptionPolicy", "")
    return [_name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), _age(obj), policy]


def _budget(obj: Object) -> Cells:
    least, most = (str(_at(obj, f".spec.{name}", "N/A")) for name in ("minAvailable", "maxUnavailable"))
    return [_name(obj), least, most, int(_at(obj, ".status.disruptionsAllowed", 0)), _age(obj)]


def _data(obj: Object) -> Cells:
    return [_name(obj), str(len(obj.get("data") or ()) + len(obj.get("binaryData") or ())), _age(obj)]


def _since(obj: Object) -> Cells:
    return [_name(obj), obj["metadata"].get("creationTimestamp")]


_EVENTS = "Last Seen,Type,Reason,Object,Subobject+,Source+,Message,First Seen+,Count+,Name+"
_CLAIMS = "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,VolumeMode+"
_VOLUMES = (
    "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,VolumeMode+"
)
_NODES = "Name,Status,Roles,Age,Version,Internal-IP+,External-IP+,OS-Image+,Kernel-Version+,Container-Runtime+"
_DRIVERS = (
    "Name,AttachRequired:boolean,PodInfoOnMount:boolean,StorageCapacity:boolean,TokenRequests,"
    "RequiresRepublish:boolean,Modes,Age"
)

DEFAULT: Printer = ("Name,Created At:date", _since)
PRINTERS: Mapping[str, Printer] = {
    "pods": ("Name,Ready,Status,Restarts,Age,IP+,Node+,Nominated Node+,Readiness Gates+", _pod),
    "nodes": (_NODES, _node),
    "namespaces": ("Name,Status,Age", _plain(".status.phase")),
    "events": (_EVENTS, _event),
    "configmaps": ("Name,Data,Age", _data),
    "serviceaccounts": ("Name,Age", _plain()),
    "resourcequotas": ("Name,Request,Limit,Age", _quota),
    "persistentvolumeclaims": (_CLAIMS, _claim),
    "persistentvolumes": (_VOLUMES, _volume),
    "leases.coordination.k8s.io": ("Name,Holder,Age", _plain(".spec.holderIdentity")),
    "priorityclasses.scheduling.k8s.io": (
        "Name,Value:integer,Global-Default:boolean,Age,PreemptionPolicy",
        _priority_class,
    ),
    "storageclasses.storage.k8s.io": (
        "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age",
        _storage_class,
    ),
    "csinodes.storage.k8s.io": (
        "Name,Drivers:integer,Age",
        lambda obj: [_name(obj), len(_at(obj, ".spec.drivers", [])), _age(obj)],
    ),
    "csidrivers.storage.k8s.io": (_DRIVERS, _driver),
    "volumeattachments.storage.k8s.io": ("Name,Attacher::name,PV,Node,Attached:boolean,Age", _attachment),
    "poddisruptionbudgets.policy": (
        "Name,Min Available,Max Unavailable,Allowed Disruptions:integer,Age",
        _budget,
    ),
}
