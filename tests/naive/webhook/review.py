"""A whole review: the rules that come before the vendors', and those that come after."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from enum import Enum
from typing import Any

from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import Container as Asking
from tests.naive.hami_wire import raw_containers
from tests.naive.vendors import cluster
from tests.naive.vendors.ledger import Ledger
from tests.naive.vendors.nvidia import Nvidia
from tests.naive.webhook.makers import backends
from tests.naive.webhook.pods import Container, Denied, exact
from tests.naive.webhook.quirks import WebhookQuirk

Obj = dict[str, Any]

OTHERS = "pod already has different scheduler assigned"


def review(case: Obj, quirks: Iterable[Enum] = ()) -> tuple[Obj, set[Enum]]:
    """Review the pod of a case; also tell which quirks were asked for."""
    switch = Switches(quirks)
    try:
        return _review(case, switch), switch.asked
    except Denied as denied:
        return {"allowed": False, "code": denied.code, "message": denied.message}, switch.asked


def _review(case: Obj, switch: Switches) -> Obj:
    pod, config = copy.deepcopy(case["pod"]), case["config"]
    spec, name = pod["spec"], config.get("schedulerName", "hami-scheduler")
    if not spec.get("containers"):
        raise Denied("pod has no containers", 403)
    wanted = spec.get("schedulerName", "")
    overwritten = wanted == "default-scheduler" and config.get("forceOverwriteDefaultScheduler", True)
    if wanted and not overwritten and wanted != name:
        return {"allowed": True, "message": OTHERS, "pod": pod}
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    privileged = [c["name"] for c in containers if (c.get("securityContext") or {}).get("privileged")]
    asks = False
    for raw in containers:
        for backend in backends(config["deviceConfig"]):
            asks = backend(Container(pod, raw, switch)) or asks
    if asks and privileged:
        raise Denied(f"container {privileged[0]} is privileged", 403)
    if asks and name:
        spec["schedulerName"] = name
        if spec.get("nodeName"):
            raise Denied("pod has node assigned", 403)
    _check_quota(case, pod, switch)
    return {"allowed": True, "pod": pod}


def _check_quota(case: Obj, pod: Obj, switch: Switches) -> None:
    """Deny what would not fit into the namespace's quota; what is asked in percent counts as nothing."""
    if not case.get("quotas"):
        return
    makers = cluster.makers_of(case)
    containers, refused = cluster.requests(pod, makers, switch)
    if refused:
        return  # it will not be placed, and the scheduler says what is wrong
    namespace = pod["metadata"]["namespace"]
    pods = [_whole(pod, case["config"]["deviceConfig"]) for pod in case.get("pods", ())]
    held = Ledger({"nodes": [], **case, "pods": pods}, makers, switch)
    for vendor, maker in makers.items():
        factor = maker.names.factor if isinstance(maker, Nvidia) else maker.factor
        for resource, unit, of in ((maker.memory, factor, "memory"), (maker.cores, 1, "cores")):
            limit = _limit(case["quotas"], namespace, resource)
            if limit is None:
                continue
            used = held.used.get((namespace, vendor), (0, 0))[of == "cores"]
            asked = _peak(containers, vendor, of, switch)
            if asked and used + asked > limit * unit:
                raise Denied("exceeding resource quota", 403)


def _whole(pod: Obj, config: Obj) -> Obj:
    """A pod with all compute where it asks for whole cards: what is claimed where its allocation cannot be read."""
    if "nvidia" not in config:
        return pod
    names, pod = config["nvidia"], copy.deepcopy(pod)
    kinds = ("Count", "Memory", "MemoryPercentage", "Core")
    count, memory, percent, cores = (names[f"resource{kind}Name"] for kind in kinds)
    for _, _, resources in raw_containers(pod):
        given = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        unsaid = memory not in given and percent not in given
        whole = unsaid or (given.get(percent) == "100" and given.get(memory, "0") == "0")
        if whole and count in given and cores not in given:
            resources["limits"] = {**(resources.get("limits") or {}), cores: "100"}
    return pod


def _limit(quotas: list[Obj], namespace: str, resource: str) -> int | None:
    """The smallest limit; HAMi's would be the last, but no case has several."""
    found = [
        amount
        for quota in quotas
        if quota["metadata"]["namespace"] == namespace
        and (amount := exact((quota["spec"].get("hard") or {}).get(f"limits.{resource}", "none"))) is not None
    ]
    return min(found, default=None)


def _peak(containers: list[Asking], vendor: str, of: str, switch: Switches) -> int:
    """The most that is asked for at any time, where all devices count alike."""
    running = peak = 0
    for container in containers:
        asked = 0
        for ask in container.asks:
            if ask.vendor == vendor:
                amount = getattr(ask, of)
                if of == "cores" and amount > 100 and not switch(WebhookQuirk.CORES_ABOVE_WHOLE_COUNTED):
                    amount = 100  # nobody gets more than all of a card
                asked += ask.nums * amount
        peak = max(peak, running + asked)
        if container.kind == "app" or (container.kind == "sidecar" and not switch(Quirk.SIDECAR_AS_INIT)):
            running += asked
    return max(peak, running)
