"""Golden cases of the Kubernetes filters: what kube-scheduler 1.36.3 decided, against what this scheduler decides.

Each case is a cluster, one incoming pod, and the outcome of the default profile. The cases are in
``tests/vectors/kubernetes/<family>.jsonl.gz``, one JSON object per line. A case counts as *not implemented* only for
what is in it (never for its name): the pod is refused by name, or the outcome hangs on objects that no
filter here reads.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.golden.kubernetes_preemption import (
    STORAGE,
    fast_path_differences,
    nominated_pods,
    preempt,
    preemption_differences,
)
from tests.golden.kubernetes_scores import Points, differences, points
from tests.golden.outcome import Outcome

from vgpu_scheduler.engine.equivalence import NodePart, SchedulableClass
from vgpu_scheduler.engine.equivalence_classes import ClusterParts
from vgpu_scheduler.engine.preemption import Preemptor
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import (
    Pod,
    decode_node,
    decode_pod,
)
from vgpu_scheduler.predicates import (
    CompiledPredicates,
    gated,
    spec_errors,
    unschedulable_message,
)
from vgpu_scheduler.scorers import NodeRanking
from vgpu_scheduler.state import State

FAMILIES = (
    "resources", "nodeaffinity", "taints", "ports", "interpod", "spread", "volumes", "gates", "mixed", "images",
    "preemption",
)  # fmt: skip
VECTORS = Path(__file__).parent.parent / "vectors" / "kubernetes"
DIFFERENCES: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("kubernetes_differences.json").read_text(encoding="utf-8")
)
"""By case in which this scheduler differs on purpose: the quirk of kube-scheduler, and what either says."""


class Answer(NamedTuple):
    """What the product says about a case, in the terms of the case's ``expect``."""

    feasible: list[str]
    rejected: dict[str, tuple[str, str, frozenset[str]]]
    message: str
    held_back: str | None
    scores: tuple[Points, dict[str, int]] | None = None
    problem: str = ""
    preemption: dict[str, Any] | None = None


def cases(family: str) -> Iterator[dict[str, Any]]:
    """Read the cases of a family."""
    with gzip.open(VECTORS / f"{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def run_case(case: dict[str, Any]) -> Outcome:
    """Decide a case and compare."""
    answer = decide(case)
    if missing := _not_implemented(case):
        refused = bool(spec_errors(decode_pod(case["pod"])))
        if refused and answer.feasible:
            return Outcome("failed", f"refused, and yet placed on {answer.feasible}: {missing}")
        return Outcome("not_implemented", missing)
    found = [*_differences(case["expect"], answer), *differences(case, answer.scores)]
    found += preemption_differences(case["expect"], answer.preemption)
    found += fast_path_differences(case, answer.feasible)
    if not found:
        return Outcome("passed", "")
    known = DIFFERENCES.get(case["id"])
    if known is not None and known["differences"] == found:
        return Outcome("decided", "; ".join(found), frozenset((known["quirk"],)))
    return Outcome("failed", "; ".join(found))


def decide(case: dict[str, Any]) -> Answer:
    """What the product says about a case."""
    pod = decode_pod(case["pod"])
    held_back = gated(pod)
    if held_back is not None:
        return Answer([], {}, held_back, held_back)
    state = _cluster(case)
    nodes = state.nodes
    if reasons := spec_errors(pod):
        return Answer([], {}, unschedulable_message(len(nodes), {}, rejection=reasons[0]), None)
    node = NodePart(CompiledPredicates(pod, nodes, frozenset()), None, NodeRanking(()))
    rows = nodes.rows()
    node.refresh(state, rows)
    cluster = ClusterParts(state).of(pod)
    found = Filtered(node, cluster, pod, rows)
    nominated_pods(state).reject(pod, node, cluster, found)
    rejections = {nodes.name(row): rejection for row, rejection in found.rejections().items()}
    rejected = {}
    for name, rejection in rejections.items():
        status = "Unschedulable" if rejection.resolvable else "UnschedulableAndUnresolvable"
        assert {reason.plugin for reason in rejection.reasons} == {rejection.plugin}
        rejected[name] = (rejection.plugin, status, frozenset(rejection.texts))
    message, preemption = "", None
    if len(rejected) == len(nodes):
        pod_class = SchedulableClass(None, node, cluster)  # type: ignore[arg-type]  # no claims, under no policy
        preemption = preempt(case, state, Preemptor(pod, pod_class), found)
        counts = Counter(reason for rejection in rejections.values() for reason in rejection.reasons)
        rejection = found.pre_filter_reason.text if found.pre_filter_reason else ""
        message = unschedulable_message(len(nodes), counts, rejection=rejection)
    feasible = sorted(nodes.name(row) for row in rows if nodes.name(row) not in rejected)
    if len(feasible) < 2:  # there is nothing to rank
        return Answer(feasible, rejected, message, None, preemption=preemption)
    if pod.spec.preferences_problem:
        return Answer(feasible, rejected, message, None, problem=pod.spec.preferences_problem)
    return Answer(feasible, rejected, message, None, points(case, state, feasible))


def _cluster(case: dict[str, Any]) -> State:
    state = State({"hami": 3})
    for namespace in case["objects"].get("namespaces", ()):
        state.observe_namespace(namespace["metadata"]["name"], namespace["metadata"]["labels"])
    for plural, decode in STORAGE.items():
        for found in case["objects"].get(plural, ()):
            state.volumes.observe(decode(found))
    for node in case["nodes"]:
        state.observe_node(decode_node(node), {})
    for pod in _existing(case):
        state.observe_pod(pod, {})
    return state


def _existing(case: dict[str, Any]) -> list[Pod]:
    return [decode_pod(pod) for pod in case["pods"]]


def _differences(expect: dict[str, Any], answer: Answer) -> Iterator[str]:
    held_back = expect["preenqueue"]["reasons"][0] if "preenqueue" in expect else None
    if held_back != answer.held_back:
        yield f"held back: {answer.held_back!r}, not {held_back!r}"
    if answer.feasible != expect["feasible"]:
        yield f"feasible: {answer.feasible}, not {expect['feasible']}"
    rejected = {
        node: (status["plugin"], status["code"], frozenset(status["reasons"]))
        for node, status in expect["rejected"].items()
    }
    for node in sorted(rejected.keys() | answer.rejected.keys()):
        if rejected.get(node) != answer.rejected.get(node):
            yield f"{node}: {answer.rejected.get(node)}, not {rejected.get(node)}"
    if bool(answer.problem) is not ("error" in expect):
        yield f"error: {answer.problem!r}, not {expect.get('error')!r}"
    if answer.message != expect["message"]:
        yield f"message: {answer.message!r}, not {expect['message']!r}"


def _not_implemented(case: dict[str, Any]) -> str:
    """What in a case is beyond the filters of this stage; empty if nothing is."""
    pod = decode_pod(case["pod"])
    if pod.spec.scheduling_gates:
        return ""
    if reasons := spec_errors(pod):
        return reasons[0]
    extended = {name for name in pod.spec.requests if "/" in name}
    for device_class in case["objects"].get("deviceclasses", ()):
        if device_class.get("spec", {}).get("extendedResourceName") in extended:
            return "a DeviceClass answers for an extended resource of the pod"
    return ""
