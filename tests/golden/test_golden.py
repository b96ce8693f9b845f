"""All golden suites; and that none of them would pass with another expectation."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from tests.golden.__main__ import DEFAULT, main
from tests.golden.deviations import KNOWN, Deviation, Deviations
from tests.golden.outcome import Outcome
from tests.golden.runner import NOT_RUN, Suite, Tally, UnreadableError, find, judge, run, suite_of

DEVIATIONS = Deviations.read()

LEAST = {
    "documented D0 card_order": 3,
    "documented D0 device_score": 6,
    "documented D0 node_order": 2,
    "documented D0 node_score": 1,
    "documented D1 binpack_arguments": 3,
    "documented D1 binpack_score": 9,
    "documented D1 binpack_steps": 4,
    "documented D2 foreign_type": 1,
    "documented D2 memory_need": 1,
    "documented D2 mig": 4,
    "documented D2 numa_bind": 5,
    "documented D2 single_card": 12,
    "documented D2 topology": 6,
    "documented D2 uuid_list": 1,
    "documented D3 count": 1,
    "documented D3 decode": 5,
    "documented D3 node_order": 1,
    "documented D3 request": 8,
    "documented D4 deviceshare_arguments": 1,
    "documented D4 deviceshare_score": 12,
    "documented D4 normalise": 1,
    "hami-2.10 codec lock_format": 3,
    "hami-2.10 codec lock_parse": 21,
    "hami-2.10 codec mig_allocations": 18,
    "hami-2.10 codec node_decode": 114,
    "hami-2.10 codec node_devices": 48,
    "hami-2.10 codec pair_scores": 10,
    "hami-2.10 codec pod_decode": 84,
    "hami-2.10 codec pod_encode": 20,
    "hami-2.10 codec requests": 126,
    "hami-2.10 codec usage": 60,
    "hami-2.10 codec webhook": 192,
    "hami-2.10 codec weights": 22,
    "hami-2.10 placement": 2000,
    "hami-2.10 vendors node_devices": 146,
    "hami-2.10 vendors placement": 1074,
    "hami-2.10 vendors requests": 257,
    "hami-2.6 placement": 1000,
    "hami-2.10 vendors webhook": 257,
    "koordinator_alloc": 779,
    "koordinator_alloc_fixed": 37,
    "koordinator_args": 15,
    "koordinator_request": 282,
    "koordinator_score": 520,
    "koordinator_score_seed": 232,
    "koordinator_webhook_mutate": 150,
    "kubernetes gates": 186,
    "kubernetes groups": 252,
    "kubernetes images": 150,
    "kubernetes interpod": 300,
    "kubernetes mixed": 300,
    "kubernetes nodeaffinity": 300,
    "kubernetes ports": 200,
    "kubernetes preemption": 300,
    "kubernetes resources": 300,
    "kubernetes spread": 300,
    "kubernetes taints": 250,
    "kubernetes volumes": 300,
    "volcano_ascend_hami": 120,
    "volcano_binpack_args": 160,
    "volcano_binpack_score": 620,
    "volcano_session": 137,
    "volcano_vgpu": 629,
    "volcano_vgpu_mig": 120,
    "volcano_vgpu_seq": 60,
}
"""How many cases of each suite must pass or be decided: not implemented must not become the way to pass."""

STATEMENTS = tuple(f"documented D{number} statement" for number in range(5))
"""Suites without a worked number."""

UNCHECKED = {
    "hami-2.10 placement": {"deterministic", "deterministic_shuffled"},
    "hami-2.10 vendors placement": {"deterministic", "deterministic_shuffled"},
    "hami-2.10 codec pod_decode": {"app_only"},
    "hami-2.6 placement": {"deterministic", "deterministic_shuffled"},
    "koordinator_request": {"message"},
    "kubernetes": {"event_message", "prefilter"},
    "volcano_ascend_hami": {"score", "reason"},
    "volcano_vgpu_mig": {"score", "nodeScore", "reason", "message", "stage"},
    "volcano_vgpu": {"score", "nodeScore", "reason"},
}
"""What a case says besides that is not compared: HAMi's own bookkeeping, what follows from preemption, and Volcano's
score of nodes by their cards."""

PLACES = 6
"""How many places of each part are changed, one after the other."""

GIVEN = {"op", "pod"}
"""What a step says itself, and expects nothing of."""

TEXTS = {"error", "panic", "refused", "note"}
"""That it is an error is compared, its words are not."""


@cache
def all_cases() -> Mapping[str, list[tuple[Suite, dict[str, Any]]]]:
    """Return the cases of each suite; to read them takes seconds, of which only whoever tries them waits."""
    found: dict[str, list[tuple[Suite, dict[str, Any]]]] = {}
    for where, case in find(DEFAULT):
        assert isinstance(case, dict), where
        suite = suite_of(case, where)
        found.setdefault(suite.name, []).append((suite, case))
    return found


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    return run(((suite, case) for suite, judged in all_cases().items() for _, case in judged), DEVIATIONS)


@pytest.mark.parametrize("suite", sorted((*LEAST, *STATEMENTS)))
def test_suite(suite: str, tallies: dict[str, Tally]) -> None:
    tally = tallies[suite]
    assert not tally.mismatches, "\n".join(tally.mismatches[:5])
    assert tally.passed + tally.decided >= LEAST.get(suite, 0)
    assert tally.passed + tally.decided + tally.not_implemented == tally.total


def test_every_suite_is_tried_and_all_but_statements_have_a_floor() -> None:
    assert {*LEAST, *STATEMENTS} == all_cases().keys()


@pytest.mark.parametrize("suite", sorted(LEAST))
def test_another_expectation_is_a_mismatch(suite: str) -> None:
    """Every part of what a case expects is looked at: with any of them changed, some case fails."""
    unchecked = next((keys for name, keys in UNCHECKED.items() if suite.startswith(name)), set())
    noticed: set[str] = set()
    missed: set[str] = set()
    for how, case in all_cases()[suite]:
        if not expectations(case).keys() - TEXTS - unchecked - noticed:
            continue
        if judge(case, how, DEVIATIONS).status == "not_implemented":
            continue
        for key, mutant in mutants(case):
            if key not in unchecked | noticed:
                (noticed if is_mismatch(how, mutant) else missed).add(key)
    assert noticed, "no case of the suite could be changed"
    assert missed <= noticed


def is_mismatch(how: Suite, case: dict[str, Any]) -> bool:
    """Whether the comparison fails; breaking over a strange expectation is not noticing it."""
    assert how.run is not None
    try:
        return how.run(case).status == "failed"
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def expectations(case: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Where each part of what a case expects is (what is ours, where that differs): in one place, or in its steps."""
    if "steps" in case:
        places = [("steps", number, key) for number, step in enumerate(case["steps"]) for key in step.keys() - GIVEN]
    else:
        where = next(name for name in ("ours", "expected", "expect") if name in case)
        places = [(where, key) for key in case[where]]
    found: dict[str, list[tuple[Any, ...]]] = {}
    for place in places:
        found.setdefault(str(place[-1]), []).append(place)
    return found


def mutants(case: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a case expects, changed in one place; with the part it is in."""
    for key, places in expectations(case).items():
        if key in TEXTS:
            continue
        for path in islice(chain.from_iterable(leaves(held(case, place), place) for place in places), PLACES):
            mutant = copy.deepcopy(case)
            holder = held(mutant, path[:-1])
            holder[path[-1]] = other(holder[path[-1]])
            yield key, mutant


def held(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from leaves(part, (*path, number))
    else:
        yield path


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return "x" if value is None else value + "x"


# Deviations --------------------------------------------------------------------------------------------------------


def test_no_listed_case_is_unknown() -> None:
    ids = frozenset(str(case.get("id")) for cases in all_cases().values() for _, case in cases)
    assert DEVIATIONS.unused(ids) == []


def first(quirk: str) -> tuple[Suite, dict[str, Any]]:
    deviation = next(deviation for deviation in DEVIATIONS.all if deviation.quirk == quirk)
    return next(
        (how, case) for cases in all_cases().values() for how, case in cases if case.get("id") == deviation.cases[0]
    )


def test_a_deviation_that_is_not_listed_is_a_mismatch() -> None:
    how, case = first("no-padding")
    outcome = judge(case, how, Deviations(()))
    assert outcome.status == "failed"
    assert "no-padding is not listed" in outcome.detail


def test_a_listed_deviation_that_does_not_occur_is_a_mismatch() -> None:
    how, case = all_cases()["hami-2.10 codec weights"][0]
    outcome = judge(case, how, Deviations((Deviation("no-padding", "because", (case["id"],)),)))
    assert outcome.status == "failed"
    assert "no-padding is listed and does not occur" in outcome.detail


def test_cases_that_the_list_cannot_know_need_a_reason_for_the_quirk_only() -> None:
    how, case = first("no-padding")
    assert judge({**case, "id": "unheard-of"}, how, DEVIATIONS).status == "failed"
    assert judge({**case, "id": "unheard-of"}, how, DEVIATIONS, by_case=False).status == "decided"
    outcome = judge(case, how, Deviations(()), by_case=False)
    assert outcome.status == "failed"
    assert "no-padding has no reason" in outcome.detail
    how, case = all_cases()["hami-2.10 codec weights"][0]
    listed = Deviations((Deviation("no-padding", "because", (case["id"],)),))
    assert judge(case, how, listed, by_case=False).status == "passed"


def test_patterns_cover_cases() -> None:
    deviation = Deviation("no-padding", "because", ("sa210-00*", "sc210-00001"))
    assert deviation.covers("sa210-00017")
    assert deviation.covers("sc210-00001")
    assert not deviation.covers("sc210-00002")
    assert Deviations((deviation,)).unused(frozenset({"sc210-00001"})) == ["no-padding: sa210-00*"]


def test_every_quirk_of_a_twin_is_listed_once_with_what_shows_it() -> None:
    assert {deviation.quirk for deviation in DEVIATIONS.all} == KNOWN
    for deviation in DEVIATIONS.all:
        if deviation.test:
            file, _, name = deviation.test.partition("::")
            assert f"\ndef {name}(" in (Path(__file__).parent / file).read_text(), deviation.quirk


def test_a_deviation_needs_a_reason(tmp_path: Path) -> None:
    for text in (
        "[unheard-of]\nreason = 'x'\ncases = ['a']",
        "[no-padding]\ncases = ['a']",
        "[no-padding]\nreason = 'x'",
        "[no-padding]\nreason = 'x'\ncases = []",
        "[no-padding]\nreason = 'x'\ncases = ['a']\ntest = 'b'",
    ):
        (tmp_path / "list.toml").write_text(text)
        with pytest.raises(ValueError, match=r"list\.toml"):
            Deviations.read(tmp_path / "list.toml")


# The command -------------------------------------------------------------------------------------------------------


def write(directory: Path, *cases: dict[str, Any], name: str = "some.jsonl") -> None:
    (directory / name).write_text("".join(json.dumps(case) + "\n" for case in cases))


def test_it_prints_a_line_per_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decided = first("no-padding")[1]
    write(tmp_path, *[case for _, case in all_cases()["hami-2.10 codec weights"]], decided)
    (tmp_path / "deeper").mkdir()
    with gzip.open(tmp_path / "deeper" / "lists.jsonl.gz", "wt") as stream:
        stream.write(json.dumps({"suite": "volcano_gpushare", "id": "v1"}))
    (tmp_path / "documented.json").write_text(json.dumps([all_cases()["documented D3 count"][0][1]]))
    (tmp_path / "README.md").write_text("not a case")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "documented D3 count 1/1 (0 decided, 0 not implemented)",
        "hami-2.10 codec weights 22/22 (0 decided, 0 not implemented)",
        "hami-2.10 placement 1/1 (1 decided, 0 not implemented)",
        "volcano_gpushare 0/1 (0 decided, 1 not implemented)",
    ]


@pytest.mark.parametrize(
    ("case", "suite"),
    [
        ('{"suite": "volcano_gpushares", "id": "v1"}', "volcano_gpushares"),
        ('{"profile": "hami-2.10", "op": "weight", "id": "v1"}', "hami-2.10 codec weight"),
        ('{"profile": "hami-2.9", "op": "weights", "id": "v1"}', "hami-2.9 codec weights"),
        ('{"profile": "hami-2.10", "kind": "replacement", "id": "v1"}', "hami-2.10 replacement"),
        ('{"family": "port", "id": "v1"}', "kubernetes port"),
        ('{"check": "device_scores", "id": "D0-01"}', "documented D0 device_scores"),
        ('{"something": "else"}', "unrecognised strange.json"),
        ('["no case"]', "unrecognised strange.json"),
    ],
)
def test_a_suite_that_nobody_knows_is_a_mismatch(
    tmp_path: Path, case: str, suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, *[known for _, known in all_cases()["hami-2.10 codec weights"]])
    (tmp_path / "strange.json").write_text(case)
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert f"{suite} 0/1 (0 decided, 0 not implemented)" in printed
    assert "there is no such suite, nor is it listed among those that are not run" in printed


def test_suites_that_are_not_run_have_a_reason_and_nobody_who_could(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, reason in NOT_RUN.items():
        case = {"family": name.split()[1]} if name.startswith("kubernetes ") else {"suite": name}
        assert suite_of(case, "") == Suite(name, None)
        assert judge(case, Suite(name, None), DEVIATIONS) == Outcome("not_implemented", reason)
        assert len(reason) > 10
        assert name not in all_cases(), "vectors that are not run are not kept here"
    write(tmp_path, {"suite": "volcano_gpushare", "id": "v1"})
    main([str(tmp_path), "--reasons"])
    assert f"not implemented 1: {NOT_RUN['volcano_gpushare']}" in capsys.readouterr().out


def test_cases_of_another_directory_are_decided_by_their_quirks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {**first("no-padding")[1], "id": "unheard-of"})
    assert main([str(tmp_path)]) == 0
    assert "hami-2.10 placement 1/1 (1 decided, 0 not implemented)" in capsys.readouterr().out
    monkeypatch.setattr("tests.golden.__main__.DEFAULT", tmp_path.parent)
    assert main([str(tmp_path)]) == 1
    assert "unheard-of: deviation no-padding is not listed" in capsys.readouterr().out


def test_it_ends_with_1_for_a_mismatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = copy.deepcopy(all_cases()["hami-2.10 codec weights"][0][1])
    case["expect"]["slot"] = 9
    write(tmp_path, case)
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "hami-2.10 codec weights 0/1" in printed
    assert f"{case['id']}: twin.slot: expected 9, found 1" in printed


def test_a_case_that_breaks_its_suite_is_a_mismatch(tmp_path: Path) -> None:
    write(tmp_path, {"id": "x", "profile": "hami-2.10", "op": "weights", "input": {}, "expect": {}})
    assert main([str(tmp_path)]) == 1


@pytest.mark.parametrize("content", ['{"a":', "[1, 2"])
def test_it_ends_with_2_for_what_cannot_be_read(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.json", "a.jsonl", "a.jsonl.gz"):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(UnreadableError, match=name):
            list(find(tmp_path))
        assert main([str(tmp_path)]) == 2
        assert f"{path} cannot be read" in capsys.readouterr().err
        path.unlink()


def test_it_ends_with_2_when_nothing_could_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing")]) == 2
    assert main([str(tmp_path)]) == 2
    write(tmp_path, {"suite": "volcano_gpushare", "id": "v1"})
    assert main([str(tmp_path)]) == 2
    assert "could be run" in capsys.readouterr().err
