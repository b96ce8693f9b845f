"""``vgpu-scheduler test``: what it prints, writes and ends with."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from vgpu_scheduler.cli import main

ROOT = Path(__file__).parents[2]

CLUSTER = """
nodes:
  - {name: a, cards: 2}
  - {name: b, cards: 2}
running: [{node: a, cards: {card: a-0, memory: 8Gi, cores: 30}}]
pod: {resources: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096}}
"""
GOOD = CLUSTER + "name: packed\nexpect: {node: a}\n"
BAD = CLUSTER + "name: spread\nexpect: {node: b}\n"
POLICY = """
apiVersion: vgpu-scheduler.io/v1alpha1
kind: ClusterVGPUPolicy
metadata: {name: spread}
spec: {nodes: {policy: spread}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["test", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def lines(result: Result) -> list[str]:
    """Return what was printed, without the time that it took."""
    return re.sub(r", \d+ ms$", "", result.output.rstrip()).splitlines()


# Outcomes ------------------------------------------------------------------------------------------------------------


def test_as_expected() -> None:
    write("good.yaml", GOOD)
    result = run("good.yaml")
    assert result.exit_code == 0
    assert lines(result) == ["ok    good.yaml: packed", "1 of 1 cases as expected"]


def test_a_failure_shows_the_difference_and_the_nodes() -> None:
    write("bad.yaml", BAD)
    result = run("bad.yaml")
    assert result.exit_code == 1
    assert lines(result) == [
        "FAIL  bad.yaml: spread",
        "      node: expected b, found a",
        "      | default/pod goes to a, a-1",
        "      |   devices by settings",
        "      |   nodes by settings",
        "      |   NODE  SCORE  WHY",
        "      |   a     3      hami 3 (10 of 100)",
        "      |   b     0      hami 0",
        "0 of 1 cases as expected",
    ]


def test_an_error_names_file_case_and_field_and_the_others_run() -> None:
    write("cases.yaml", CLUSTER + "cases:\n  - {name: one, expect: {nod: a}}\n  - {name: two, expect: {node: a}}\n")
    result = run("cases.yaml")
    assert result.exit_code == 2
    assert lines(result) == [
        "ERROR cases.yaml: one",
        "      expect: there is no field 'nod': did you mean node?",
        "ok    cases.yaml: two",
        "1 of 2 cases as expected, 1 could not be run",
    ]


def test_an_error_goes_before_a_failure() -> None:
    write("a.yaml", "5")
    write("b.yaml", BAD)
    result = run("a.yaml", "b.yaml")
    assert result.exit_code == 2
    assert "ERROR a.yaml" in result.output
    assert "FAIL  b.yaml: spread" in result.output


def test_quiet_names_only_what_is_not_as_expected() -> None:
    write("good.yaml", GOOD)
    write("bad.yaml", BAD)
    assert lines(run("--quiet", "good.yaml")) == ["1 of 1 cases as expected"]
    found = lines(run("-q", "good.yaml", "bad.yaml"))
    assert (found[0], found[-1]) == ("FAIL  bad.yaml: spread", "1 of 2 cases as expected")


# Files and folders ---------------------------------------------------------------------------------------------------


def test_folders_are_searched_and_policies_passed_over() -> None:
    write("tests/deep/b.yml", GOOD)
    write("tests/a.yaml", GOOD + "---\n---\n" + GOOD)
    write("tests/c.json", '{"nodes": [{"name": "a"}], "pod": {}, "expect": {"node": "a"}}')
    write("tests/policy.yaml", POLICY)
    write("tests/notes.txt", "no YAML: [")
    result = run("tests")
    assert result.exit_code == 0
    assert lines(result) == [
        "ok    tests/a.yaml: packed",
        "ok    tests/a.yaml: packed",
        "ok    tests/c.json: case",
        "ok    tests/deep/b.yml: packed",
        "4 of 4 cases as expected",
    ]


def test_a_policy_is_no_case() -> None:
    write("policy.yaml", POLICY)
    result = run("policy.yaml")
    assert result.exit_code == 2
    assert "ERROR policy.yaml\n      this is a Kubernetes object" in result.output


@pytest.mark.parametrize("content", [None, "", "# nothing\n"])
def test_no_case_at_all(content: str | None) -> None:
    Path("empty").mkdir()
    if content is not None:
        write("empty/x.yaml", content)
    result = run("empty")
    where = "there are no cases in empty: a file of cases has pod and expect, steps, or cases"
    assert (result.exit_code, lines(result)) == (2, [where, "0 of 0 cases as expected"])


def test_what_is_not_there() -> None:
    result = run("nowhere")
    assert result.exit_code == 2
    assert "'nowhere' does not exist" in result.output
    assert run().exit_code == 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("x.yaml", "nodes:\n  - a\n b: [", "x.yaml:3: not valid YAML: "),
        ("x.yaml", "a: b: c", "x.yaml:1: not valid YAML: mapping values are not allowed in this context"),
        ("x.yaml", "a: *b", "x.yaml:1: not valid YAML: "),
        ("x.yaml", "!!python/object:os.system {}", "x.yaml:1: not valid YAML: could not determine a constructor"),
        ("x.yaml", "a: \x01", "x.yaml: "),
        ("x.json", '{"a":\n}', "x.json:2: not valid JSON: "),
        ("x.json", '{"pod": {"name": "\\ud83d"}}', "x.json: 'utf-8' codec can't encode character"),
        ("x.json", '{"expect": {"node": "\\ud83d\\ude00"}}', "pod: is missing beside expect"),
        ("x.yaml", 'pod: {name: "\\ud83d"}', "x.yaml:1: not valid YAML"),
        ("x.yaml", "- 1", "a file of cases is a mapping"),
        ("x.yaml", "a: &a [*a]\npod: {}\nexpect: {node: a}", "there is no field 'a'"),
        ("x.yaml", "objects: &a {kind: List, items: [*a]}\npod: {}\nexpect: {node: a}", "contains itself"),
        ("x.yaml", "cases: &a [{cases: *a}]", "contains itself"),
        ("x.json", "[" * 50_000 + "]" * 50_000, "x.json: it contains itself somewhere, or is nested too deeply"),
        ("x.yaml", "[" * 100_000, "x.yaml: it contains itself somewhere, or is nested too deeply"),
        ("x.yaml", "- " * 50_000 + "a", "x.yaml: it contains itself somewhere, or is nested too deeply"),
        ("x.yaml", "".join(f"{' ' * n}a:\n" for n in range(3_000)), "x.yaml: it contains itself somewhere"),
    ],
)
def test_files_that_cannot_be_read(name: str, text: str, says: str) -> None:
    write(name, text)
    write("good.yaml", GOOD)
    result = run(name, "good.yaml")
    assert result.exit_code == 2
    assert says in result.output
    assert f"ERROR {name}" in result.output
    assert "ok    good.yaml: packed" in result.output


def test_a_file_in_another_encoding() -> None:
    Path("x.yaml").write_bytes("name: ö".encode("latin-1"))
    assert "x.yaml: it is not text in UTF-8" in run("x.yaml").output


# Policies by file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ["../policies/spread.yaml", "[../policies/spread.yaml]", "../policies"])
def test_policies_are_named_relative_to_the_file(entry: str) -> None:
    write("policies/spread.yaml", POLICY)
    write("tests/x.yaml", f"{BAD}policies: {entry}\n")
    assert run("tests/x.yaml").exit_code == 0
    assert run(str(Path("tests").absolute())).exit_code == 0


def test_pods_and_objects_are_named_too() -> None:
    write("pod.yaml", "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}")
    write("snapshot.yaml", "kind: List\nitems: [{kind: Node, metadata: {name: z}}]")
    write("x.yaml", CLUSTER + "cases:\n  - {pod: pod.yaml, objects: snapshot.yaml, expect: {node: a}}\n")
    assert run("x.yaml").exit_code == 0
    write("y.yaml", "nodes: [{name: a, cards: 1}]\nsteps: [{pod: pod.yaml, expect: {node: a}}]\n")
    assert run("y.yaml").exit_code == 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("policies: no.yaml", "policies: no.yaml is not there"),
        ("cases: [{policies: [no.yaml]}]", "cases[0].policies: no.yaml is not there"),
        ("objects: [empty.yaml]", "objects: empty.yaml holds no object"),
        ("policies: broken.yaml", "policies: broken.yaml:2: not valid YAML"),
        ("pod: two.yaml", "pod: two.yaml holds 2 objects, not one"),
        ("policies: text.yaml", "policies[0]: "),
        ("policies: secret.yaml", "Secret cannot be used here"),
        ("policies: wrong.yaml", "ClusterVGPUPolicy x: spec.nodes.policy: "),
    ],
)
def test_files_that_make_no_policy(fields: str, says: str) -> None:
    write("empty.yaml", "# nothing")
    write("broken.yaml", "a: [")
    write("two.yaml", "{}\n---\n{}")
    write("text.yaml", "text")
    write("secret.yaml", "kind: Secret\nmetadata: {name: s}")
    write("wrong.yaml", "kind: ClusterVGPUPolicy\nmetadata: {name: x}\nspec: {nodes: {policy: sideways}}")
    kept = [line for line in GOOD.splitlines() if not line.startswith(f"{fields.partition(':')[0]}:")]
    write("x.yaml", "\n".join([*kept, fields, ""]))
    result = run("x.yaml")
    assert result.exit_code == 2
    assert says in result.output


# JUnit ---------------------------------------------------------------------------------------------------------------


def test_junit() -> None:
    odd = "odd <&> \\x01 ö"
    write("a.yaml", CLUSTER + f'cases:\n  - {{name: "{odd}", expect: {{node: a}}}}\n  - {{expect: {{node: b}}}}\n')
    write("b.yaml", "5")
    result = run("a.yaml", "b.yaml", "--junit", "reports/junit.xml")
    assert result.exit_code == 2
    suite = ET.parse("reports/junit.xml").getroot()
    assert suite.tag == "testsuite"
    assert {key: suite.attrib[key] for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    odd_case, failed, error = suite
    assert [case.attrib["classname"] for case in suite] == ["a.yaml", "a.yaml", "b.yaml"]
    assert [case.attrib["name"] for case in suite] == ["odd <&> \ufffd ö", "cases[1]", "b.yaml"]
    assert all(float(case.attrib["time"]) >= 0 for case in suite)
    assert list(odd_case) == []
    failure = failed.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "node: expected b, found a"
    assert "hami 3 (10 of 100)" in str(failure.text)
    problem = error.find("error")
    assert problem is not None
    assert problem.attrib["message"].startswith("a file of cases is a mapping")


def test_junit_that_cannot_be_written() -> None:
    write("good.yaml", GOOD)
    write("taken", "a file")
    result = run("good.yaml", "--junit", "taken/junit.xml")
    assert result.exit_code == 2
    assert "--junit taken/junit.xml: " in result.output


def test_help_says_where_the_format_is() -> None:
    assert "docs/policies.md" in run("--help").output
    assert (ROOT / "docs" / "policies.md").is_file()


def test_any_of_seven_policies_can_be_expected() -> None:
    denying = "\n".join(
        f"---\nkind: ClusterVGPUPolicy\nmetadata: {{name: p{number}}}\nspec: {{devices: {{types: {{deny: [H100]}}}}}}"
        for number in range(7)
    )
    write("seven.yaml", denying)
    for named in ("ClusterVGPUPolicy p4", "ClusterVGPUPolicy p6, settings"):
        write("case.yaml", f"policies: seven.yaml\n{CLUSTER}expect: {{policy: {{devices: '{named}'}}}}\n")
        assert run("case.yaml").exit_code == 0, named
    write("case.yaml", f"policies: seven.yaml\n{CLUSTER}expect: {{policy: {{devices: ClusterVGPUPolicy p7}}}}\n")
    told = next(line for line in lines(run("case.yaml")) if "expected" in line)
    assert told.endswith("found settings, ClusterVGPUPolicy p0, ClusterVGPUPolicy p1, ClusterVGPUPolicy p2,"
                         " ClusterVGPUPolicy p3 and 3 more")  # fmt: skip
