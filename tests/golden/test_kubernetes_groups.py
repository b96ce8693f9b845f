"""The golden cases of groups: how many of which kind there are, and that a wrong placement would be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from tests.golden.group_worlds import KINDS, worlds
from tests.golden.kubernetes import cases
from tests.golden.kubernetes_groups import FAMILY, Groups, both, differences

CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in cases(FAMILY)}


@pytest.fixture(scope="module")
def answers() -> dict[str, Groups]:
    return {name: both(case) for name, case in CASES.items()}


def test_there_are_cases_of_each_kind_that_are_placed_and_that_are_not() -> None:
    assert len(CASES) >= 200
    theirs = Counter((case["kind"], bool(case["expect"]["bound"])) for case in CASES.values())
    never = {"incomplete", "impossible"}
    for kind in set(KINDS):
        assert theirs[kind, False] > 0, kind
        assert (theirs[kind, True] > 0) is (kind not in never), kind
    assert 0.4 < sum(number for (_, is_placed), number in theirs.items() if is_placed) / len(CASES) < 0.7
    assert sum("schedulingConstraints" in case["group"]["spec"] for case in CASES.values()) >= len(CASES) / 3


def test_the_worlds_are_those_of_the_seed() -> None:
    found = [{key: part for key, part in case.items() if key != "expect"} for case in CASES.values()]
    assert found == list(worlds(1, len(found)))


def test_groups_of_equal_members_are_placed_wherever_they_can_be(answers: dict[str, Groups]) -> None:
    equal = [name for name, case in CASES.items() if case["kind"] in ("gang", "topology", "basic", "apart")]
    assert len(equal) > 80
    for name in equal:
        assert bool(answers[name].ours) is answers[name].twin.can_be_placed(), name


def test_no_fewer_equal_members_are_placed_than_by_kube_scheduler(answers: dict[str, Groups]) -> None:
    equal = [answers[name] for name, case in CASES.items() if case["kind"] in ("gang", "basic", "apart")]
    assert all(len(ours) >= len(theirs) for theirs, ours, _ in equal)


# What would be found -------------------------------------------------------------------------------------------------


def noticed(groups: Groups, ours: Mapping[str, str]) -> list[str]:
    return [*differences(groups._replace(ours=dict(ours)))]


def test_a_group_that_is_not_placed_is_noticed_where_kube_scheduler_places_it(answers: dict[str, Groups]) -> None:
    for name, groups in answers.items():
        assert bool(noticed(groups, {})) is bool(CASES[name]["expect"]["bound"]), name


def test_less_than_is_needed_is_noticed(answers: dict[str, Groups]) -> None:
    exact = [groups for groups in answers.values() if len(groups.ours) == groups.twin.needed > 1]
    assert len(exact) > 20
    for groups in exact:
        [found] = noticed(groups, dict(list(groups.ours.items())[1:]))
        assert "are needed" in found


def test_another_domain_is_noticed(answers: dict[str, Groups]) -> None:
    tried = 0
    for name, groups in answers.items():
        topology = CASES[name]["group"]["spec"].get("schedulingConstraints", {}).get("topology", [])
        if len(groups.ours) > 1 and topology:
            labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in CASES[name]["nodes"]}
            member, node = next(iter(groups.ours.items()))
            value = labels[node][topology[0]["key"]]
            for other in (other for other, found in labels.items() if found.get(topology[0]["key"]) != value):
                tried += 1
                assert noticed(groups, {**groups.ours, member: other}), name
    assert tried > 50


def test_more_than_a_node_has_is_noticed(answers: dict[str, Groups]) -> None:
    """Of a group that cannot be placed, no placement is taken; and members are not placed twice, or unasked."""
    refused = [name for name, groups in answers.items() if not groups.theirs and not groups.ours]
    for name in refused:
        members = [pod["metadata"]["name"] for pod in CASES[name]["members"] if "nodeName" not in pod["spec"]]
        for node in CASES[name]["nodes"]:
            assert noticed(answers[name], dict.fromkeys(members, node["metadata"]["name"])), name
    assert len(refused) > 50
    groups = answers[refused[0]]
    assert "do not wait" in noticed(groups, {"stranger": CASES[refused[0]]["nodes"][0]["metadata"]["name"]})[0]


@pytest.mark.parametrize("room", [2, 3])
def test_a_placement_that_the_twin_does_not_find_is_noticed(room: int) -> None:
    """A group of which kube-scheduler placed nothing: whether the twin finds a placement is what is asked."""
    case = next(worlds(1, 1))
    case |= {"pods": [], "nodes": [_node("n", room)], "members": [_member(f"m{number}") for number in range(3)]}
    case["group"]["spec"] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    groups = both({**case, "expect": {"bound": {}}})
    assert groups.twin.can_be_placed() is bool(groups.ours) is (room == 3)
    found = noticed(groups, {f"m{number}": "n" for number in range(3)})
    assert bool(found) is (room == 2)
    assert ("placed, though it cannot be" in " ".join(found)) is (room == 2)


def _node(name: str, cpu: int) -> dict[str, Any]:
    allocatable = {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": {"allocatable": allocatable}}


def _member(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    group = {"podGroupName": next(worlds(1, 1))["id"]}
    return {"metadata": {"name": name}, "spec": {"containers": containers, "schedulingGroup": group}}
