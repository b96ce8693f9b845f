"""Golden cases of groups: what kube-scheduler 1.36.3 places with its own plugins of gangs and topology, this one does.

:mod:`tests.golden.group_recorder` made them. Other nodes are no deviation: which are the best is for either to say. But
where kube-scheduler places a group, this scheduler does, too; and where it does not, and this one does, a twin that
tries everything says that it can be done. Both placements are counted anew by the twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.engine.builders import OURS, engine_with
from tests.engine.test_engine_native_groups import OLDER, observe
from tests.engine.test_engine_relist import relisted
from tests.golden.outcome import Case, Outcome
from tests.naive.groups import GroupTwin

from vgpu_scheduler.kube import decode_node, decode_pod

Obj = dict[str, Any]

FAMILY = "groups"
_ROUND = 20.0
"""Seconds after which pods that wait may be tried again, as far as anything has changed for them."""


class Groups(NamedTuple):
    """What either scheduler did with the group of a case, and the twin of the case.

    Attributes
    ----------
    theirs, ours
        Members that were placed, with their nodes.
    """

    theirs: dict[str, str]
    ours: dict[str, str]
    twin: GroupTwin


def run_case(case: Case) -> Outcome:
    """Decide a case and compare."""
    found = [*differences(both(case))]
    return Outcome("failed" if found else "passed", "; ".join(found))


def both(case: Case) -> Groups:
    """Return what was done with the group of a case."""
    return Groups(case["expect"]["bound"], placed(case), _twin(case))


def differences(groups: Groups) -> Iterator[str]:
    """Say what must not differ, and is wrong."""
    theirs, ours, twin = groups
    if wrong := twin.wrong(theirs):
        yield f"kube-scheduler: {wrong}"
    if wrong := twin.wrong(ours):
        yield f"this scheduler: {wrong}"
    if theirs and not ours:
        yield f"nothing is placed, where kube-scheduler places {theirs}"
    if ours and not theirs and not twin.can_be_placed():
        yield f"placed, though it cannot be: {ours}"


def placed(case: Case) -> dict[str, str]:
    """Return which members an engine places, with their nodes: each Binding comes about before the next attempt."""
    nodes = [decode_node(_known(node)) for node in case["nodes"]]
    pods = [decode_pod(_pod(pod)) for pod in (*case["pods"], *case["members"])]
    engine = engine_with(nodes, pods)
    relisted(engine, OLDER, [], 10)
    observe(engine, OLDER.decode(_known(case["group"])))
    waiting = {pod.key: pod for pod in pods if not pod.node_name}
    found: dict[str, str] = {}
    now, is_over = 0.0, False
    while not is_over:
        is_over = True
        while decisions := engine.schedule_next(now):
            for decision in decisions:
                if decision.placement is not None:
                    pod = waiting[decision.pod]
                    found[pod.name] = decision.placement.node
                    engine.binding_succeeded(pod.uid)
                    is_over = False
        now += _ROUND
    return found


def _twin(case: Case) -> GroupTwin:
    pods = ([_pod(pod) for pod in case[kind]] for kind in ("pods", "members"))
    return GroupTwin(case["nodes"], next(pods), case["group"], next(pods))


def _pod(made: Obj) -> Obj:
    """Return a pod as the API server shows it, by the name of this scheduler."""
    pod = _known(made)
    phase = "Running" if made["spec"].get("nodeName") else "Pending"
    return {**pod, "spec": {**made["spec"], "schedulerName": OURS}, "status": {"phase": phase}}


def _known(made: Obj) -> Obj:
    metadata = made["metadata"]
    more = {"namespace": "default", "uid": f"uid-{metadata['name']}", "resourceVersion": "11"}
    return {**made, "metadata": {**more, **metadata}}
