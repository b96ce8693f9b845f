"""The recipes: they validate, their tests pass, and every field of them is needed for that."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpu_scheduler.cli.policy_tests import CaseRun, run_document, run_path
from vgpu_scheduler.model import PendingEvents
from vgpu_scheduler.policy import Catalogue, decode_policy, key_of
from vgpu_scheduler.whatif import Case, read_cases

TESTS = Path(__file__).parent
POLICIES = TESTS.parents[1] / "manifests" / "policies"
NAMES = sorted(path.stem for path in POLICIES.glob("*.yaml"))

Document = dict[str, Any]
Path_ = tuple[str | int, ...]

OPPOSITES: dict[Any, list[Any]] = {
    "binpack": ["spread"],
    "spread": ["binpack"],
    "LeastAllocated": ["MostAllocated"],
    "MostAllocated": ["LeastAllocated"],
    "ScoreFirst": ["NUMAFirst"],
    "NotIn": ["In"],
    "fragmentation": ["hami"],
}
LABEL = "x-other"
"""A value for texts that no object in the tests has."""


def policies(name: str) -> list[Document]:
    return list(yaml.safe_load_all((POLICIES / f"{name}.yaml").read_text()))


def cases(name: str) -> Document:
    document: Document = yaml.safe_load((TESTS / f"{name}.yaml").read_text())
    return document


def run(name: str, resources: list[Document]) -> list[CaseRun]:
    """Run the tests of a recipe with other policies than its own."""
    return list(run_document({**cases(name), "policies": resources}, TESTS / f"{name}.yaml"))


def test_every_recipe_has_a_test() -> None:
    assert sorted(path.stem for path in TESTS.glob("*.yaml")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_policies_are_understood(name: str) -> None:
    text = (POLICIES / f"{name}.yaml").read_text()
    assert text.startswith("# "), "say what it does and when to use it"
    for resource in policies(name):
        assert resource["apiVersion"] == "vgpu-scheduler.io/v1alpha1"
        assert decode_policy(resource).error == ""


def test_the_recipes_that_go_together_are_not_in_conflict() -> None:
    alternatives = [name for name in NAMES if name == "pack-gpus" or name.startswith("follow-")]
    assert len(alternatives) == 5
    for alternative in alternatives:
        catalogue = Catalogue(PendingEvents())
        together = {*NAMES} - {*alternatives} | {alternative}
        resources = [decode_policy(resource) for name in together for resource in policies(name)]
        for resource in resources:
            catalogue.put(resource)
        assert [it.name for it in resources if catalogue.conflicts(key_of(it))] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_tests_pass_with_the_shipped_file(name: str) -> None:
    assert (TESTS / cases(name)["policies"]).resolve() == POLICIES / f"{name}.yaml"
    ran = list(run_path(TESTS / f"{name}.yaml"))
    assert ran
    assert [(case.result, case.error) for case in ran if not case.ok] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_case_shows_what_happens_without_the_policy(name: str) -> None:
    resources = policies(name)
    whole = [case for case in read_cases({**cases(name), "policies": resources}) if isinstance(case, Case)]
    assert {left for case in whole for left in case.without} == {it["metadata"]["name"] for it in resources}
    for number, resource in enumerate(resources):
        # One that selects nothing keeps the name, so that cases can still do without it.
        idle = {**resource, "spec": {"selector": {"matchLabels": {LABEL: "x"}}, "nodes": {"policy": "binpack"}}}
        ran = run(name, [*resources[:number], idle, *resources[number + 1 :]])
        assert not all(case.ok for case in ran), f"the tests pass without {resource['metadata']['name']}"


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every part of a spec."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def mutants(spec: Document, path: Path_) -> Iterator[Document]:
    """Yield the spec without a part, and with its value changed."""

    def changed(*value: Any) -> Document:
        made = copy.deepcopy(spec)
        holder: Any = made
        for key in path[:-1]:
            holder = holder[key]
        if value:
            holder[path[-1]] = value[0]
        else:
            del holder[path[-1]]
        return made

    yield changed()
    value: Any = spec
    for key in path:
        value = value[key]
    if isinstance(value, bool):
        yield changed(not value)
    elif isinstance(value, int):
        yield from (changed(other) for other in (0, -value, 100))
    elif isinstance(value, str):
        yield from (changed(other) for other in (*OPPOSITES.get(value, []), LABEL))


EVERY_PART = [
    pytest.param(name, number, path, id=f"{name}-{resource['metadata']['name']}-{'.'.join(map(str, path))}")
    for name in NAMES
    for number, resource in enumerate(policies(name))
    for path in places(resource["spec"])
]


@pytest.mark.parametrize(("name", "number", "path"), EVERY_PART)
def test_every_part_of_a_policy_is_needed(name: str, number: int, path: Path_) -> None:
    resources = policies(name)
    original = decode_policy(resources[number]).spec
    tried = 0
    for spec in mutants(resources[number]["spec"], path):
        mutant = {**resources[number], "spec": spec}
        read = decode_policy(mutant)
        if read.error or read.spec == original:
            continue
        tried += 1
        if not all(case.ok for case in run(name, [*resources[:number], mutant, *resources[number + 1 :]])):
            return
    assert not tried, "the tests pass whatever stands there"


def test_a_case_takes_milliseconds() -> None:
    first = list(run_path(TESTS))  # compiles what has not run yet
    began = time.process_time()
    again = list(run_path(TESTS))
    seconds = time.process_time() - began
    assert len(again) == len(first) > 50
    assert seconds / len(again) < 0.05
