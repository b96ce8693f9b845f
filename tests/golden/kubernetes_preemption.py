"""Golden cases of preemption: whom kube-scheduler 1.36.3 would have ended, against whom this scheduler would."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.policy.resources import policy
from tests.preemption import all_candidates

from vgpu_scheduler.dialects.volcano import volcano_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.engine.nominated import NominatedPods
from vgpu_scheduler.engine.preemption import NOT_HELPFUL, Preemptor, VictimSearch, ineligible
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import (
    Decode,
    Pod,
    StorageObject,
    decode_attachment,
    decode_budget,
    decode_csi_driver,
    decode_csi_node,
    decode_node,
    decode_pod,
    decode_storage_capacity,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
)
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.predicates import Rejection, unschedulable_message
from vgpu_scheduler.state import Phase, Reservation, State

STORAGE: Mapping[str, Decode[StorageObject]] = {
    "persistentvolumeclaims": decode_volume_claim,
    "persistentvolumes": decode_volume,
    "storageclasses": decode_storage_class,
    "csinodes": decode_csi_node,
    "csidrivers": decode_csi_driver,
    "csistoragecapacities": decode_storage_capacity,
    "volumeattachments": decode_attachment,
}
_OF_CLAIMS = "no new claims to deallocate, "
"""What another plugin of kube-scheduler says first; it is about dynamic resources alone."""


class _WithoutCards:
    """Says what nominated pods hold: none of these asks for cards."""

    def would_reserve(self, pod: Pod, node: str, *_: Sequence[Reservation]) -> Reservation:
        return Reservation.of(pod, node, Phase.ASSUMED, {}, pod.spec.requests)


def nominated_pods(state: State) -> NominatedPods:
    """Return what filters nodes beside nominated pods that ask for no cards."""
    return NominatedPods(state, _WithoutCards(), lambda pod: pod.priority)  # type: ignore[arg-type]


def preempt(case: dict[str, Any], state: State, preemptor: Preemptor, found: Filtered) -> dict[str, Any]:
    """Return what the product says about a case whose pod fits nowhere, in the terms of ``expect.preemption``."""
    nodes = state.nodes
    message = ineligible(preemptor.pod, state, found)
    if message:
        return {"candidates": {}, "node_statuses": {}, "best": {}, "message": f"preemption: {message}"}
    budgets = [decode_budget(budget) for budget in case["objects"].get("poddisruptionbudgets", ())]
    search = VictimSearch(state, nominated_pods(state), lambda: budgets, lambda _: True)
    candidates = all_candidates(search, state, preemptor, found, budgets)
    if not candidates.victims:
        tried = [*candidates.rejections.values()]
        tried += [Rejection((NOT_HELPFUL,), resolvable=False)] * (len(nodes) - len(tried))
        counts = Counter(reason for rejection in tried for reason in rejection.reasons)
        message = f"preemption: {unschedulable_message(len(nodes), counts)}"
    return {
        "candidates": {
            node: {"pods": [pod.key for pod in victims.pods], "pdb_violations": victims.violations}
            for node, victims in candidates.victims.items()
        },
        "node_statuses": {
            node: (rejection.resolvable, sorted(rejection.texts)) for node, rejection in candidates.rejections.items()
        },
        "best": {victims.node: [pod.key for pod in victims.pods] for victims in candidates.best},
        "message": message,
        "chosen": chosen(case, state),
    }


class Chosen(NamedTuple):
    """What an engine does for a pod: on which node it has whom end, or why it has nobody end."""

    node: str
    victims: list[str]
    reason: str = ""


def chosen(case: dict[str, Any], state: State) -> Chosen | None:
    """Return what an engine does for a pod under a policy that lets it do what kube-scheduler does.

    It is None for a pod that names its node already: no engine is asked about it.

    Parameters
    ----------
    state
        What is known of the case: its namespaces are taken over.
    """
    pod = decode_pod(case["pod"])
    if pod.node_name:
        return None
    names = {each.scheduler_name for each in (pod, *map(decode_pod, case["pods"]))}
    engine = Engine(EngineOptions([volcano_dialect()], PolicyDefaults(), [*names], preemption=True))
    for namespace, labels in state.interpod.namespaces.items():
        engine.state.observe_namespace(namespace, labels)
    for kind, decode in STORAGE.items():
        for stored in case["objects"].get(kind, ()):
            engine.state.volumes.observe(decode(stored))
    rules = {"mayPreempt": True, "victims": "Any", "budgets": "Exceed"}
    engine.policy_tracker.observe(policy("as-kube-scheduler", {"preemption": rules}))
    for budget in case["objects"].get("poddisruptionbudgets", ()):
        engine.budgets.observe(decode_budget(budget))
    for node in case["nodes"]:
        engine.observe_node(decode_node(node), 0.0)
    for known in case["pods"]:
        engine.observe_pod(decode_pod(known), 0.0)
    engine.state.observe_pod(pod, {})
    found = engine.preemptions.evaluator.search(pod, 0.0)
    if found.preemption is None:
        return Chosen("", [], found.reason)
    return Chosen(found.preemption.node, sorted(victim.pod for victim in found.preemption.victims))


def fast_path_differences(case: dict[str, Any], feasible: Sequence[str]) -> Iterator[str]:
    """Compare whether a pod goes to the node that it is nominated to, however much better others are."""
    pod, wanted, found = decode_pod(case["pod"]), case["expect"].get("nominated_fast_path", ""), ""
    if pod.nominated_node_name and len(feasible) > 0:
        engine = Engine(EngineOptions([volcano_dialect()], PolicyDefaults(), [pod.scheduler_name]))
        for node in case["nodes"]:
            engine.observe_node(decode_node(node), 0.0)
        for known in case["pods"]:
            engine.observe_pod(decode_pod(known), 0.0)
        engine.observe_pod(pod, 0.0)
        placement = engine.algorithm.decide(pod).placement
        found = placement.node if placement is not None else ""
    if (found == pod.nominated_node_name or wanted) and found != wanted:
        yield f"goes to the node that it is nominated to: {found}, not {wanted}"


def preemption_differences(expect: dict[str, Any], answer: dict[str, Any] | None) -> Iterator[str]:
    """Compare what is said of preemption, where the case says anything of it."""
    wanted = expect.get("preemption")
    if wanted is None:
        return
    if answer is None:
        yield "nothing was said of preemption"
        return
    statuses = {
        node: (status["code"] == "Unschedulable", sorted(status["reasons"]))
        for node, status in wanted.get("node_statuses", {}).items()
    }
    if answer["candidates"] != wanted["candidates"]:
        yield f"candidates: {_shown(answer['candidates'])}, not {_shown(wanted['candidates'])}"
    if answer["node_statuses"] != statuses:
        yield f"statuses: {_shown(answer['node_statuses'])}, not {_shown(statuses)}"
    nominated = wanted["nominated"]
    ties = set(wanted.get("ties") or ([nominated] if nominated else []))
    if set(answer["best"]) != ties:
        yield f"best: {sorted(answer['best'])}, not {sorted(ties)}"
    if nominated and sorted(answer["best"].get(nominated, ())) != sorted(wanted["victims"]):
        yield f"victims: {answer['best'].get(nominated)}, not {wanted['victims']}"
    message = wanted["message"].removeprefix(_OF_CLAIMS)
    if answer["message"] != message:
        yield f"message: {answer['message']!r}, not {wanted['message']!r}"
    if (found := answer.get("chosen")) is not None:
        yield from _chosen_differences(found, {node: wanted["candidates"][node]["pods"] for node in ties}, message)


def _chosen_differences(found: Chosen, wanted: dict[str, list[str]], message: str) -> Iterator[str]:
    """Compare what an engine chose with the candidates that cost kube-scheduler least, all of which are as good."""
    if found.node:
        if sorted(wanted.get(found.node, ())) != found.victims:
            yield f"chosen: {found.victims} on {found.node}, not {_shown(wanted)}"
    elif wanted:
        yield f"chosen: nobody, for {found.reason!r}, not {_shown(wanted)}"
    elif f"preemption: {found.reason}" != message:
        yield f"said: {found.reason!r}, not {message!r}"


def _shown(by_node: dict[str, Any]) -> str:
    return json.dumps(by_node, sort_keys=True)
