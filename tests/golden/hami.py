"""Golden cases of HAMi's placement: what HAMi 2.10 decided, against what this scheduler decides.

A case is a cluster, one pod and the outcome of HAMi's own Filter. The product runs below the Kubernetes filters (HAMi
leaves those to kube-scheduler, and the nodes of the cases could not take a pod) under the profile ``HAMi210``, with
the devices in the order given. Where it decides otherwise on purpose, the naive twin tells: with its quirks on it has
to say what HAMi said, with its quirks off what the product says.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive import hami as naive
from tests.naive.hami import Answer
from tests.naive.hami_cards import f32
from tests.naive.hami_quirks import ALL, NONE, Quirk
from tests.naive.hami_wire import Bad

from vgpu_scheduler.allocators import FitColumns, verdict
from vgpu_scheduler.dialects import Dialects, RegistrationError
from vgpu_scheduler.dialects.hami import VendorSection, configured, hami_dialect
from vgpu_scheduler.engine import EquivalenceClasses, LockJudge, QuotaLimits, SchedulingAlgorithm
from vgpu_scheduler.engine.closed_nodes import ClosedNodes
from vgpu_scheduler.engine.equivalence import RefusedClass
from vgpu_scheduler.engine.kubelet_rejections import KubeletRejections
from vgpu_scheduler.engine.request_warnings import RequestWarnings
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.kernels import select_best
from vgpu_scheduler.kube import decode_node, decode_pod, decode_quota
from vgpu_scheduler.model import OrderKind, PendingEvents, Placement
from vgpu_scheduler.policy import Policies, PolicyDefaults
from vgpu_scheduler.scorers import ScoredPod
from vgpu_scheduler.state import State

PROFILE = "hami-2.10"

_FIXES = {
    "fix-score": Quirk.SCORE_IGNORES_CLAIM,
    "fix-padding": Quirk.NO_PADDING,
    "fix-terminating": Quirk.TERMINATING_FORGOTTEN,
}
"""HAMi with one bug fixed is the twin with one quirk off."""

_AT_BINDING = frozenset({"hami.io/bind-phase", "hami.io/bind-time"})
"""Keys that HAMi writes in a later call than the others."""

_REFUSED = re.compile(r'.*?: (?:container "(?P<container>.*?)": |annotation )(?P<name>[^\s:]+)')


def run_case(case: Case) -> Outcome:
    """Decide a placement case and compare."""
    if missing := not_implemented(case):
        return Outcome("not_implemented", missing)
    case = as_reported(case)
    theirs, asked = naive.decide(case, ALL)
    ours, asked_too = naive.decide(case, NONE)
    found = list(against_vector(case, theirs))
    made = product(case)
    found += differences("product", _comparable(ours), _comparable(made))
    if not same_refusal(ours.refused, made.refused):
        found.append(f"product: refused for {sorted(map(str, made.refused))}, not {sorted(map(str, ours.refused))}")
    if found:
        return Outcome("failed", "; ".join(found))
    quirks = responsible(theirs, ours, lambda some: naive.decide(case, some)[0], asked | asked_too, ALL)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def not_implemented(case: Case) -> str:
    """What in a placement case is beyond this version; empty if nothing is."""
    return beyond_cluster(case)


def beyond_cluster(case: Case) -> str:
    """What in the configuration and on the nodes of a case is beyond this version; empty if nothing is."""
    if case["profile"] != PROFILE:
        return f"profile {case['profile']}"
    if makers := sorted(case["config"]["deviceConfig"].keys() - {"nvidia"}):
        return f"devices of {', '.join(makers)}"
    return ""


def as_reported(case: Case) -> Case:
    """Give running pods the container statuses that the kubelet writes together with the phase; HAMi reads neither."""
    case = copy.deepcopy(case)
    for pod in case.get("pods", ()):
        if pod["status"].get("phase") == "Running":
            containers = pod["spec"]["containers"]
            pod["status"]["containerStatuses"] = [{"name": container["name"]} for container in containers]
    return case


# The vector --------------------------------------------------------------------------------------------------------


def against_vector(case: Case, answer: Answer) -> Iterator[str]:
    """Say where the twin's answer with all quirks on differs from the case."""
    expect = case["expect"]
    kind = "passthrough" if expect.get("passthrough") else "error" if "error" in expect else None
    if kind or answer.kind in ("passthrough", "error"):
        if kind != answer.kind:
            yield f"twin: {answer.kind}, HAMi: {kind or 'a decision'}"
        return
    scores = {node: f32(score) for node, score in expect["scores"].items()}
    yield from differences("twin.scores", scores, answer.scores)
    yield from differences("twin.failed", expect["failed"], answer.failed)
    per_node = expect["per_node"]
    yield from differences("twin.per_node", per_node, {node: answer.per_node.get(node) for node in per_node})
    given = sorted(_texts((a["node"], a["annotations"]) for a in expect["acceptable"] if a["order"] == "given"))
    found = sorted(_texts((node, answer.annotations(node)) for node in answer.best))
    yield from differences("twin.acceptable", given, found)
    if expect["node"] not in (answer.best or (None,)):
        yield f"twin.node: {answer.best}, HAMi: {expect['node']}"
    elif expect["node"] is not None:
        yield from differences("twin.annotations", expect["annotations"], answer.annotations(expect["node"]))
    for fix, nodes in expect.get("variants", {}).items():
        fixed = naive.decide(case, ALL - {_FIXES[fix]})[0]
        after = {node: keys and _about_cards(keys) for node, keys in {**per_node, **nodes}.items()}
        after = {node: keys for node, keys in after.items() if keys is not None}
        yield from differences(f"twin.{fix}", after, fixed.per_node)


def _about_cards(annotations: dict[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in (naive.ALLOCATED, naive.MIG) if key in annotations}


def _texts(outcomes: Iterator[tuple[str, dict[str, str]]]) -> list[str]:
    return [json.dumps(outcome, sort_keys=True) for outcome in outcomes]


# The product -------------------------------------------------------------------------------------------------------


def dialect_of(case: Case) -> hami_dialect:
    """The dialect as a configuration of HAMi sets it."""
    return hami_dialect(configured(VendorSection(case["config"]["deviceConfig"]), others=False))


def state_of(case: Case, dialect: hami_dialect) -> State:
    """The state after all nodes and pods of a case were observed once."""
    state = State({dialect.name: len(dialect.inventory.dimensions)})
    for wire in case["nodes"]:
        node = decode_node(wire)
        try:
            state.observe_node(node, {dialect.name: dialect.inventory.devices(node)})
        except RegistrationError as error:
            state.observe_node(node, {dialect.name: error.devices})
    for wire in case["pods"]:
        pod = decode_pod(wire)
        state.observe_pod(pod, {dialect.name: dialect.allocation.usage(pod)})
    return state


def quotas_of(case: Case, dialect: hami_dialect) -> QuotaLimits:
    """The quotas of a case."""
    dialects = Dialects([dialect])
    quotas = QuotaLimits(dialects, RequestWarnings(dialects), PendingEvents())
    for wire in case.get("quotas", ()):
        quotas.observe(decode_quota(wire))
    return quotas


def product(case: Case, order: OrderKind = OrderKind.SCORE_FIRST) -> Answer:
    """What the product says about a case; what it writes must be about cards, and twice."""

    def about_cards(name: str, written: dict[str, str]) -> dict[str, str]:
        found = _about_cards(written)
        same = {key: value for key, value in written.items() if key not in _AT_BINDING}
        asked = {**found, naive.TO_ALLOCATE: found[naive.ALLOCATED], naive.NODE: name, naive.TIME: "0"}
        assert same == asked, f"annotations for {name}: {written}"
        return found

    return decided(case, about_cards, order)


def decided(
    case: Case,
    compared: Callable[[str, dict[str, str]], dict[str, str]],
    order: OrderKind = OrderKind.SCORE_FIRST,
) -> Answer:
    """What the product decides; ``compared`` returns the annotations for a node that are held against others."""
    dialect, config = dialect_of(case), case["config"]
    state = state_of(case, dialect)
    defaults = PolicyDefaults(config["nodeSchedulerPolicy"], config["gpuSchedulerPolicy"], order)
    dialects = Dialects([dialect])
    algorithm = SchedulingAlgorithm(
        EquivalenceClasses(state, dialects, Policies(defaults), quotas_of(case, dialect)),
        ClosedNodes(LockJudge(dialects.node_side, frozenset(), 0.0, 0.0), state, KubeletRejections(0.0)),
        StorageAccess(state.pending_events),
        lambda pod: pod.priority,
    )
    pod = decode_pod(case["pod"])
    pod_class = algorithm.classes.of(pod)
    if isinstance(pod_class, RefusedClass):
        return Answer("refused", refused=frozenset({refused_for(pod_class.reason)}))
    allocator = pod_class.node.allocator
    if allocator is None:
        return Answer("passthrough")
    rows, fit = state.nodes.rows(), FitColumns.empty(state.nodes.capacity)
    allocator.fit(state.devices, rows, fit)
    scores = pod_class.claimed.policy.scorers[0].scorer.compile(ScoredPod({}, (), {})).score(state, rows, fit)
    answer = Answer("unschedulable")
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        name = state.nodes.name(row)
        containers = allocator.place(state.devices, row)
        if not fit.fits[row]:
            assert containers is None, f"{name} does not fit and yet gives cards"
            answer.failed[name] = verdict(fit.counts[row], int(fit.cards[row])).detail
            continue
        assert containers is not None, f"{name} fits and yet gives no cards"
        answer.scores[name] = score
        answer.per_node[name] = compared(name, dialect.allocation.annotations(Placement(name, containers), 0, pod))
    ranked = np.zeros(state.nodes.capacity)
    ranked[rows] = pod_class.node.ranking.score(state, rows, fit)
    best = select_best(rows, fit.fits, ranked, state.nodes.name_order)
    if best >= 0:
        answer.kind = "placed"
        answer.best = (state.nodes.name(best),)
    return answer


def refused_for(message: str) -> Bad:
    """Read the container and the resource or annotation that a refusal names."""
    match = _REFUSED.match(": " + message)
    assert match, f"the refusal names nothing: {message}"
    return Bad(match["container"] or "", match["name"])


def _comparable(answer: Answer) -> dict[str, Any]:
    return {
        "kind": answer.kind,
        "scores": answer.scores,
        "failed": answer.failed,
        "per_node": answer.per_node,
        "node": answer.node,
    }


def same_refusal(twin: frozenset[Bad], found: frozenset[Bad]) -> bool:
    """Tell whether the product refuses for one of the reasons there are, or not at all where there is none."""
    return found <= twin and bool(found) == bool(twin)
