"""What kube-apiserver's plugin LimitRanger does with a new pod, step by step as its documentation tells it."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from typing import Any

from vgpu_scheduler.kube import parse_quantity

Obj = dict[str, Any]
Amounts = dict[str, Fraction]


def admitted(pod: Obj, ranges: list[Obj]) -> Obj | None:
    """Return the pod as it is stored, with amounts as numbers; None if it is refused."""
    pod = deepcopy(pod)
    everyone = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    for container in everyone:
        resources = container.get("resources") or {}
        limits = {name: parse_quantity(text) for name, text in resources.get("limits", {}).items()}
        requests = {name: parse_quantity(text) for name, text in resources.get("requests", {}).items()}
        for name, amount in limits.items():
            requests.setdefault(name, amount)
        container["resources"] = {"limits": limits, "requests": requests}
    for limit_range in ranges:
        for item in limit_range["spec"]["limits"]:
            if item["type"] == "Container":
                for container in everyone:
                    complete(container["resources"], item)
    for container in everyone:
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        for name, amount in requests.items():
            if name.startswith("nvidia.com/"):
                if limits.get(name) != amount:
                    return None
            elif amount > limits.get(name, amount):
                return None
    for limit_range in ranges:
        for item in limit_range["spec"]["limits"]:
            if item["type"] == "Container":
                asked = [container["resources"] for container in everyone]
            elif item["type"] == "Pod":
                asked = [{place: of_pod(pod, place) for place in ("limits", "requests")}]
            else:
                asked = []
            if any(refused(item, each["limits"], each["requests"]) for each in asked):
                return None
    return pod


def complete(resources: Obj, item: Obj) -> None:
    """Give a container what it lacks."""
    limit, request = item.get("default", {}), item.get("defaultRequest", {})
    least, most = item.get("min", {}), item.get("max", {})
    for name in {*limit, *request, *least, *most}:
        of_limit = limit.get(name, most.get(name))
        of_request = request.get(name, of_limit if of_limit is not None else least.get(name))
        if of_limit is not None and name not in resources["limits"]:
            resources["limits"][name] = parse_quantity(of_limit)
        if of_request is not None and name not in resources["requests"]:
            resources["requests"][name] = parse_quantity(of_request)


def of_pod(pod: Obj, place: str) -> Amounts:
    """Return the most that the pod has at any time of its life."""
    spec = pod["spec"]
    sidecars, moments = list[Amounts](), list[list[Amounts]]()
    for container in spec.get("initContainers", []):
        amounts = container["resources"][place]
        if container.get("restartPolicy") == "Always":
            sidecars.append(amounts)
        moments.append([*sidecars, amounts] if container.get("restartPolicy") != "Always" else [*sidecars])
    moments.append([*sidecars, *(container["resources"][place] for container in spec["containers"])])
    names = {name for moment in moments for amounts in moment for name in amounts}
    found = {name: max(sum((a.get(name, Fraction(0)) for a in m), Fraction(0)) for m in moments) for name in names}
    for name, text in (spec.get("resources") or {}).get(place, {}).items():
        if name in {"cpu", "memory"}:
            found[name] = parse_quantity(text)
    return found


def refused(item: Obj, limits: Amounts, requests: Amounts) -> bool:
    """Tell whether amounts break what a LimitRange says."""
    for name, text in item.get("min", {}).items():
        least = parse_quantity(text)
        if name not in requests or requests[name] < least or limits.get(name, least) < least:
            return True
    for name, text in item.get("max", {}).items():
        most = parse_quantity(text)
        if name not in limits or limits[name] > most or requests.get(name, most) > most:
            return True
    for name, text in item.get("maxLimitRequestRatio", {}).items():
        if not limits.get(name) or not requests.get(name) or limits[name] / requests[name] > parse_quantity(text):
            return True
    return False
