"""kube-scheduler's scores of one node by what is allocated of it and which images it has, from the API objects.

Slow and obvious; the product keeps columns and counts. Unlike kube-scheduler's NodeResourcesFit, what the pod itself
requests as a whole is not forgotten.
"""

import copy
import math
from fractions import Fraction
from itertools import pairwise

from tests.naive.predicates import Obj, requests, units

from vgpu_scheduler.kube import parse_quantity

MIB = 1024 * 1024


def offered(node: Obj, name: str) -> int:
    text = node["status"]["allocatable"].get(name)
    return 0 if text is None else units(name, parse_quantity(text))


def asked(pod: Obj, name: str) -> int:
    return units(name, requests(pod).get(name, Fraction(0)))


def taken(pod: Obj, name: str) -> int:
    """What a pod is taken to use: containers that name no cpu or memory use some all the same."""
    least = {"cpu": "100m", "memory": "200Mi"}
    if pod["spec"].get("resources") and asked(pod, name):
        least.pop(name, None)
    pod = copy.deepcopy(pod)
    for container in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
        resources = container.setdefault("resources", {})
        if name in least:
            resources["requests"] = {name: least[name], **(resources.get("requests") or {})}
    return asked(pod, name)


def shares(pod: Obj, node: Obj, pods: list[Obj], names: list[str], *, whole: bool) -> dict[str, tuple[int, int, int]]:
    """Per resource that counts: what the node offers, what is used of it, and what is with the pod."""
    found = {}
    for name in names:
        uses = taken if whole and name in ("cpu", "memory") else asked
        always = name in ("cpu", "memory", "ephemeral-storage")
        if offered(node, name) and (always or asked(pod, name)):
            used = sum(uses(other, name) for other in pods)
            found[name] = (offered(node, name), used, used + uses(pod, name))
    return found


def mean(points: dict[str, int], weights: dict[str, int]) -> Fraction:
    whole = sum(weights[name] for name in points)
    return Fraction(sum(points[name] * weights[name] for name in points), whole) if whole else Fraction(0)


def least_allocated(pod: Obj, node: Obj, pods: list[Obj], weights: dict[str, int]) -> int:
    found = shares(pod, node, pods, list(weights), whole=True)
    return int(mean({name: max(all_ - used, 0) * 100 // all_ for name, (all_, _, used) in found.items()}, weights))


def most_allocated(pod: Obj, node: Obj, pods: list[Obj], weights: dict[str, int]) -> int:
    found = shares(pod, node, pods, list(weights), whole=True)
    return int(mean({name: min(used, all_) * 100 // all_ for name, (all_, _, used) in found.items()}, weights))


def ratio(pod: Obj, node: Obj, pods: list[Obj], weights: dict[str, int], shape: list[tuple[int, int]]) -> int:
    points = {}
    for name, (all_, _, used) in shares(pod, node, pods, list(weights), whole=True).items():
        worth = on_line(min(used, all_) * 100 // all_, sorted(shape))
        if worth:
            points[name] = worth
    return math.floor(mean(points, weights) + Fraction(1, 2))


def on_line(percent: int, shape: list[tuple[int, int]]) -> int:
    """The function through the points, scores times ten; steps are cut towards the point before."""
    if percent <= shape[0][0]:
        return 10 * shape[0][1]
    for (left, low), (right, high) in pairwise(shape):
        if percent <= right:
            return 10 * low + math.trunc(Fraction(10 * (high - low) * (percent - left), right - left))
    return 10 * shape[-1][1]


def balanced(pod: Obj, node: Obj, pods: list[Obj], names: list[str]) -> int:
    if not any(asked(pod, name) for name in names):
        return 0
    found = shares(pod, node, pods, names, whole=False).values()
    before = evenness([min(used / all_, 1.0) for all_, used, _ in found])
    after = evenness([min(used / all_, 1.0) for all_, _, used in found])
    return 50 + (50 + after - before) // 2


def evenness(fractions: list[float]) -> int:
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        middle = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((each - middle) * (each - middle) for each in fractions) / len(fractions))
    return int((1 - deviation) * 100)


def image_locality(pod: Obj, node: Obj, nodes: list[Obj]) -> int:
    containers = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
    wanted = [container["image"] for container in containers]
    wanted += [volume["image"]["reference"] for volume in pod["spec"].get("volumes") or [] if "image" in volume]
    there = 0
    for name in wanted:
        tagged = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
        holders = [other for other in nodes if size_of(tagged, other)]
        there += int(size_of(tagged, node) * (len(holders) / len(nodes)))
    least, most = 23 * MIB, 1000 * MIB * len(containers)
    return 100 * (min(max(there, least), most) - least) // (most - least)


def size_of(image: str, node: Obj) -> int:
    return next((each["sizeBytes"] for each in node["status"].get("images") or [] if image in each["names"]), 0)
