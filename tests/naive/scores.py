"""kube-scheduler's soft scores for one pod, from the API objects, in plain Python: slow and obvious.

Each function returns the points of each node by its name, or None where the plugin says nothing. The product counts
incrementally and by column; this looks at every pod of every node each time, and must say the same.
"""

import math
from typing import Any

from tests.naive.predicates import (
    PREFERRED,
    REQUIRED,
    Obj,
    compiles,
    is_about,
    labels_of,
    same_topology,
    selected,
    space,
    term_matches,
    tolerated,
)
from tests.naive.spread import included
from tests.naive.spread import is_about as is_counted

Points = dict[str, int]

HOSTNAME = "kubernetes.io/hostname"


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def shares(amounts: Points, *, fewest_first: bool = False) -> Points:
    """The largest amount is 100 points, or none of them."""
    most = max(amounts.values(), default=0)
    found = {name: 100 * amount // most if most else 0 for name, amount in amounts.items()}
    return {name: 100 - points for name, points in found.items()} if fewest_first else found


def soft_taints(pod: Obj, nodes: list[Obj]) -> Points | None:
    """TaintToleration; None stands for 100 points everywhere."""
    amounts = {
        name_of(node): sum(
            taint["effect"] == "PreferNoSchedule" and not tolerated(pod["spec"], taint)
            for taint in node["spec"].get("taints") or []
        )
        for node in nodes
    }
    return shares(amounts, fewest_first=True) if any(amounts.values()) else None


def preferred_terms(pod: Obj) -> list[Obj]:
    return ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED) or []


def node_affinity_error(pod: Obj) -> bool:
    """Whether a term that counts cannot be understood."""
    return any(
        not all(compiles(expression) for expression in term["preference"].get("matchExpressions") or [])
        for term in preferred_terms(pod)
        if term["weight"]
    )


def node_affinity(pod: Obj, nodes: list[Obj]) -> Points | None:
    terms = preferred_terms(pod)
    if not terms:
        return None
    return shares(
        {
            name_of(node): sum(
                term["weight"] for term in terms if term_matches(term["preference"], name_of(node), labels_of(node))
            )
            for node in nodes
        }
    )


# Inter-pod terms -----------------------------------------------------------------------------------------------------


def weighed_terms(pod: Obj) -> list[tuple[Obj, int]]:
    affinity = pod["spec"].get("affinity") or {}
    return [
        (entry["podAffinityTerm"], sign * entry["weight"])
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for entry in (affinity.get(kind) or {}).get(PREFERRED) or []
    ]


def inter_pod(pod: Obj, fitting: list[Obj], nodes: list[Obj], pods: list[Obj], spaces: dict[str, Obj]) -> Points | None:
    """InterPodAffinity; ``spaces`` are the labels of namespaces, and the pod is not among the pods."""
    by_name = {name_of(node): node for node in nodes}
    hits: list[tuple[Obj, Obj, int]] = []
    for other in pods:
        there = by_name.get(other["spec"].get("nodeName", ""))
        if there is None or other["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        for term, weight in weighed_terms(pod):
            if is_about(term, pod, other, spaces.get(space(other))):
                hits.append((term, there, weight))
        required = ((other["spec"].get("affinity") or {}).get("podAffinity") or {}).get(REQUIRED) or []
        for term, weight in [*((term, 1) for term in required), *weighed_terms(other)]:
            if is_about(term, other, pod, spaces.get(space(pod), {})):
                hits.append((term, there, weight))
    if not any(term["topologyKey"] in labels_of(there) for term, there, _ in hits):
        return None
    worth = {
        name_of(node): sum(weight for term, there, weight in hits if same_topology(term, node, there))
        for node in fitting
    }
    least, most = min(worth.values()), max(worth.values())
    return {
        name: int(100.0 * ((value - least) / (most - least))) if most > least else 0 for name, value in worth.items()
    }


# Spreading -----------------------------------------------------------------------------------------------------------


def soft_rules(pod: Obj) -> list[Obj]:
    rules = pod["spec"].get("topologySpreadConstraints") or []
    return [rule for rule in rules if rule.get("whenUnsatisfiable") == "ScheduleAnyway"]


def spread(
    pod: Obj, fitting: list[Obj], nodes: list[Obj], pods: list[Obj], defaults: list[Obj] | None = None
) -> Points | None:
    """PodTopologySpread; ``defaults`` are the system's constraints, if they are what the pod is under."""
    rules = soft_rules(pod) if defaults is None else defaults
    if not rules:
        return None
    keys = [rule["topologyKey"] for rule in rules] if defaults is None else []
    scored = [node for node in fitting if all(key in labels_of(node) for key in keys)]
    amounts = {}
    for node in scored:
        amount = 0.0
        for rule in rules:
            key = rule["topologyKey"]
            if key in labels_of(node):
                size = len(scored) if key == HOSTNAME else len({labels_of(other).get(key) for other in scored})
                same = [node] if key == HOSTNAME else [
                    other for other in nodes
                    if labels_of(other).get(key) == labels_of(node)[key]
                    and all(needed in labels_of(other) for needed in keys) and included(pod, rule, other)
                ]  # fmt: skip
                amount += counted(pod, rule, same, pods) * math.log(size + 2) + rule["maxSkew"] - 1
        amounts[name_of(node)] = math.floor(amount + 0.5)
    least, most = min(amounts.values(), default=0), max(amounts.values(), default=0)
    points = {name: 100 * (most + least - amount) // most if most else 100 for name, amount in amounts.items()}
    return {name_of(node): points.get(name_of(node), 0) for node in fitting}


def counted(pod: Obj, rule: Obj, nodes: list[Obj], pods: list[Obj]) -> int:
    """How many pods on some nodes a rule of a pod is about."""
    selector = rule.get("labelSelector")
    if (
        selector is not None
        and not any(selector.values())
        and not any(key in labels_of(pod) for key in rule.get("matchLabelKeys") or [])
    ):
        return 0  # a selector of everything counts nobody
    names = {name_of(node) for node in nodes}
    return sum(
        other["spec"].get("nodeName") in names
        and other["status"]["phase"] not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in other["metadata"]
        and space(other) == space(pod)
        and is_counted(rule, pod, other)
        for other in pods
    )


def default_rules(pod: Obj, objects: dict[str, list[Obj]]) -> list[Obj]:
    """The system's constraints, where a service or the pod's controller says which pods belong together."""
    labels: dict[str, str] = {}
    expressions: list[Any] = []
    for service in objects.get("services") or []:
        wanted = service["spec"].get("selector")
        if wanted and space(service) == space(pod) and selected({"matchLabels": wanted}, labels_of(pod)):
            labels |= wanted
    owner = next((ref for ref in pod["metadata"].get("ownerReferences") or [] if ref.get("controller")), None)
    for kind, plural in (("ReplicaSet", "replicasets"), ("StatefulSet", "statefulsets")):
        for found in objects.get(plural) or []:
            if owner and (owner["kind"], owner["name"]) == (kind, name_of(found)) and space(found) == space(pod):
                labels |= found["spec"]["selector"].get("matchLabels") or {}
                expressions += found["spec"]["selector"].get("matchExpressions") or []
    if pod["spec"].get("topologySpreadConstraints") or not (labels or expressions):
        return []
    selector = {"matchLabels": labels, "matchExpressions": expressions}
    return [
        {"topologyKey": key, "maxSkew": skew, "labelSelector": selector, "whenUnsatisfiable": "ScheduleAnyway"}
        for key, skew in ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))
    ]
