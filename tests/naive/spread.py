"""kube-scheduler's PodTopologySpread for one pod and one node, from the API objects: slow and obvious."""

from typing import Any

from tests.naive.predicates import REQUIRED, UU, Obj, U, Verdict, labels_of, selected, selects, space, tolerated

REASON = "node(s) didn't match pod topology spread constraints"


def spread(pod: Obj, node: Obj, nodes: list[Obj], pods: list[Obj]) -> Verdict | None:
    """What PodTopologySpread says of a node; the pod is not among the pods."""
    hard = [
        rule
        for rule in pod["spec"].get("topologySpreadConstraints") or []
        if rule.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    for rule in hard:
        domain = labels_of(node).get(rule["topologyKey"])
        if domain is None:
            return "PodTopologySpread", UU, frozenset({f"{REASON} (missing required label)"})
        found = domains(pod, rule, hard, nodes, pods)
        fewest = min(found.values()) if len(found) >= (rule.get("minDomains") or 1) else 0
        if found.get(domain, 0) + is_about(rule, pod, pod) - fewest > rule["maxSkew"]:
            return "PodTopologySpread", U, frozenset({REASON})
    return None


def domains(pod: Obj, rule: Obj, together: list[Obj], nodes: list[Obj], pods: list[Obj]) -> dict[str, int]:
    """How many pods that a rule is about each domain has; only nodes with the keys of all rules are looked at."""
    found: dict[str, int] = {}
    for node in nodes:
        if any(other["topologyKey"] not in labels_of(node) for other in together) or not included(pod, rule, node):
            continue
        domain = labels_of(node)[rule["topologyKey"]]
        found.setdefault(domain, 0)
        if rule.get("labelSelector") == {} and not told(rule, pod):
            continue  # a selector of everything counts nobody
        for other in pods:
            there = other["spec"].get("nodeName") == node["metadata"]["name"]
            ended = other["status"]["phase"] in ("Succeeded", "Failed") or "deletionTimestamp" in other["metadata"]
            if there and not ended and space(other) == space(pod) and is_about(rule, pod, other):
                found[domain] += 1
    return found


def included(pod: Obj, rule: Obj, node: Obj) -> bool:
    spec = pod["spec"]
    terms = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED, {}).get("nodeSelectorTerms")
    if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not selects(spec, terms, node):
        return False
    hard = [taint for taint in node["spec"].get("taints") or [] if taint["effect"] != "PreferNoSchedule"]
    return rule.get("nodeTaintsPolicy", "Ignore") == "Ignore" or all(tolerated(spec, taint) for taint in hard)


def told(rule: Obj, pod: Obj) -> dict[str, Any]:
    """The labels of the pod that others must have, too."""
    labels = labels_of(pod)
    return {key: labels[key] for key in rule.get("matchLabelKeys") or [] if key in labels}


def is_about(rule: Obj, owner: Obj, other: Obj) -> bool:
    if rule.get("labelSelector") is None or not selected(rule["labelSelector"], labels_of(other)):
        return False
    return all(labels_of(other).get(key) == value for key, value in told(rule, owner).items())
