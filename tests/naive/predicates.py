"""Kubernetes' node filters for one pod and one node, from the API objects, in plain Python: slow and obvious.

The product decodes, interns, compiles and vectorises; this does none of it, and must say the same.
"""

import math
import re
from fractions import Fraction
from typing import Any

from vgpu_scheduler.kube import parse_quantity

Obj = dict[str, Any]
Verdict = tuple[str, str, frozenset[str]]

UU = "UnschedulableAndUnresolvable"
U = "Unschedulable"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def verdict(pod: Obj, node: Obj, neighbours: list[Obj], ignored: frozenset[str] = frozenset()) -> Verdict | None:
    """Plugin, code and reasons of the first filter that rejects the node; None if the pod can go there."""
    spec, name = pod["spec"], node["metadata"]["name"]
    terms = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED, {}).get("nodeSelectorTerms")
    named = names_allowed(terms or [])
    if named == set():
        return "NodeAffinity", UU, frozenset({"pod affinity terms conflict"})
    if named is not None and name not in named:
        return "PreFilterResult", UU, frozenset({"node(s) didn't satisfy plugin(s) [NodeAffinity]"})
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not tolerated(spec, cordon):
        return "NodeUnschedulable", UU, frozenset({"node(s) were unschedulable"})
    if spec.get("nodeName") and spec["nodeName"] != name:
        return "NodeName", UU, frozenset({"node(s) didn't match the requested node name"})
    taints = [t for t in node["spec"].get("taints") or [] if t["effect"] != "PreferNoSchedule"]
    if not all(tolerated(spec, taint) for taint in taints):
        return "TaintToleration", UU, frozenset({"node(s) had untolerated taint(s)"})
    if not selects(spec, terms, node):
        return "NodeAffinity", UU, frozenset({"node(s) didn't match Pod's node affinity/selector"})
    if any(same_port(mine, theirs) for mine in host_ports(pod) for other in neighbours for theirs in host_ports(other)):
        return "NodePorts", U, frozenset({"node(s) didn't have free ports for the requested pod ports"})
    return fit(pod, node, neighbours, ignored)


def host_ports(pod: Obj) -> list[Obj]:
    sidecars = [c for c in pod["spec"].get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    ports = [port for container in [*sidecars, *pod["spec"]["containers"]] for port in container.get("ports") or []]
    return [port for port in ports if port.get("hostPort")]


def same_port(one: Obj, other: Obj) -> bool:
    if one["hostPort"] != other["hostPort"] or one.get("protocol", "TCP") != other.get("protocol", "TCP"):
        return False
    addresses = [port.get("hostIP") or "0.0.0.0" for port in (one, other)]
    return addresses[0] == addresses[1] or "0.0.0.0" in addresses


def tolerated(spec: Obj, taint: Obj) -> bool:
    for toleration in spec.get("tolerations") or []:
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists":
            return True
        if operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def names_allowed(terms: list[Obj]) -> set[str] | None:
    if not terms:
        return None
    allowed: set[str] = set()
    for term in terms:
        sets = [set(f["values"]) for f in term.get("matchFields") or [] if f["operator"] == "In"]
        if not sets:
            return None
        allowed |= set.intersection(*sets)
    return allowed


def selects(spec: Obj, terms: list[Obj] | None, node: Obj) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    return terms is None or any(term_matches(term, node["metadata"]["name"], labels) for term in terms)


def term_matches(term: Obj, name: str, labels: dict[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    if not all(compiles(e) for e in expressions):
        return False
    return all(expression_matches(e, labels) for e in expressions) and all(
        (name in f["values"]) == (f["operator"] == "In") for f in fields
    )


def compiles(expression: Obj) -> bool:
    values = expression.get("values") or []
    if any(not re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value) for value in values):
        return False
    return expression["operator"] not in ("Gt", "Lt") or integer(values[0]) is not None


def integer(text: str) -> int | None:
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def expression_matches(expression: Obj, labels: dict[str, str]) -> bool:
    operator, values, value = expression["operator"], expression.get("values") or [], labels.get(expression["key"])
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    number = integer(value) if value is not None else None
    bound = integer(values[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def requests(pod: Obj) -> dict[str, Fraction]:
    """Peak over the phases of a pod's life, each the sum of what runs in it."""
    spec = pod["spec"]
    phases: list[list[Obj]] = []
    sidecars: list[Obj] = []
    for container in spec.get("initContainers") or []:
        phases.append([*sidecars, container])
        if container.get("restartPolicy") == "Always":
            sidecars.append(container)
    phases.append([*sidecars, *spec["containers"]])
    peak: dict[str, Fraction] = {}
    for phase in phases:
        together: dict[str, Fraction] = {}
        for container in phase:
            for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
                together[name] = together.get(name, Fraction(0)) + parse_quantity(text)
        peak = {
            name: max(peak.get(name, Fraction(0)), together.get(name, Fraction(0))) for name in {**peak, **together}
        }
    for name, text in ((spec.get("resources") or {}).get("requests") or {}).items():
        peak[name] = parse_quantity(text)
    for name, text in (spec.get("overhead") or {}).items():
        peak[name] = peak.get(name, Fraction(0)) + parse_quantity(text)
    return peak


def units(name: str, value: Fraction) -> int:
    return math.ceil(value * 1000) if name == "cpu" else math.ceil(value)


def fit(pod: Obj, node: Obj, neighbours: list[Obj], ignored: frozenset[str]) -> Verdict | None:
    offered = {name: units(name, parse_quantity(text)) for name, text in node["status"]["allocatable"].items()}
    reasons, hopeless = set(), False
    if len(neighbours) + 1 > offered.get("pods", 0):
        reasons.add("Too many pods")
    for name, value in requests(pod).items():
        need = units(name, value)
        used = sum(units(name, requests(other).get(name, Fraction(0))) for other in neighbours)
        if name not in ignored and need > 0 and need > offered.get(name, 0) - used:
            reasons.add(f"Insufficient {name}")
            hopeless |= need > offered.get(name, 0)
    return ("NodeResourcesFit", UU if hopeless else U, frozenset(reasons)) if reasons else None


# Inter-pod terms -----------------------------------------------------------------------------------------------------


def inter_pod(pod: Obj, node: Obj, nodes: list[Obj], pods: list[Obj], namespaces: dict[str, Obj]) -> Verdict | None:
    """What InterPodAffinity says of a node; namespaces are labels by name, and the pod is not among the pods."""
    by_name = {other["metadata"]["name"]: other for other in nodes}
    alive = [
        (other, by_name[other["spec"]["nodeName"]])
        for other in pods
        if other["spec"].get("nodeName") in by_name and other["status"]["phase"] not in ("Succeeded", "Failed")
    ]
    if not affinity_holds(pod, node, alive, namespaces):
        return "InterPodAffinity", UU, frozenset({"node(s) didn't match pod affinity rules"})
    for term in pod_terms(pod, "podAntiAffinity"):
        for other, there in alive:
            if same_topology(term, node, there) and is_about(term, pod, other, namespaces.get(space(other))):
                return "InterPodAffinity", U, frozenset({"node(s) didn't match pod anti-affinity rules"})
    for other, there in alive:
        for term in pod_terms(other, "podAntiAffinity"):
            if same_topology(term, node, there) and is_about(term, other, pod, namespaces.get(space(pod), {})):
                return "InterPodAffinity", U, frozenset({"node(s) didn't satisfy existing pods anti-affinity rules"})
    return None


def affinity_holds(pod: Obj, node: Obj, alive: list[tuple[Obj, Obj]], namespaces: dict[str, Obj]) -> bool:
    terms = pod_terms(pod, "podAffinity")
    if any(term["topologyKey"] not in labels_of(node) for term in terms):
        return False
    wanted = [
        there
        for other, there in alive
        if all(is_about(term, pod, other, namespaces.get(space(other))) for term in terms)
    ]
    if all(any(same_topology(term, node, there) for there in wanted) for term in terms):
        return True
    if any(term["topologyKey"] in labels_of(there) for term in terms for there in wanted):
        return False
    return all(is_about(term, pod, pod, namespaces.get(space(pod))) for term in terms)  # the first of its kind


def pod_terms(pod: Obj, kind: str) -> list[Obj]:
    return ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or []


def labels_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def space(pod: Obj) -> str:
    return str(pod["metadata"]["namespace"])


def same_topology(term: Obj, node: Obj, there: Obj) -> bool:
    value = labels_of(node).get(term["topologyKey"])
    return value is not None and value == labels_of(there).get(term["topologyKey"])


def is_about(term: Obj, owner: Obj, other: Obj, namespace_labels: dict[str, str] | None) -> bool:
    """Whether a term of a pod is about another pod; without labels only an empty selector selects a namespace."""
    names, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not names and selector is None:
        names = [space(owner)]
    if space(other) not in names:
        if selector is None or (namespace_labels is None and any(selector.values())):
            return False
        if not selected(selector, namespace_labels or {}):
            return False
    if term.get("labelSelector") is None or not selected(term["labelSelector"], labels_of(other)):
        return False
    mine, theirs = labels_of(owner), labels_of(other)
    told = {e["key"] for e in term["labelSelector"].get("matchExpressions") or []}
    told |= (term["labelSelector"].get("matchLabels") or {}).keys()
    same = [key for key in term.get("matchLabelKeys") or [] if key in mine and key not in told]
    different = [key for key in term.get("mismatchLabelKeys") or [] if key in mine and key not in told]
    return all(theirs.get(key) == mine[key] for key in same) and all(theirs.get(key) != mine[key] for key in different)


def selected(selector: Obj, labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        expression_matches(expression, labels) for expression in selector.get("matchExpressions") or []
    )
