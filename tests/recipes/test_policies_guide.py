"""docs/policies.md: every snippet, command and link in it holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from docs.links import anchors
from pydantic import BaseModel

from vgpu_scheduler.cli import main
from vgpu_scheduler.cli.policy_tests import run_document
from vgpu_scheduler.policy import decode_policy
from vgpu_scheduler.whatif.policy_checks.cases import Case, CaseSettings
from vgpu_scheduler.whatif.policy_checks.expectation import Expectation
from vgpu_scheduler.whatif.policy_checks.forms import Cards, CardShareForm, RunningPod, ShortNode, ShortPod

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "policies.md"
TEXT = GUIDE.read_text()

FAILING = """
name: packed
nodes:
  - {name: a, cards: 2}
  - {name: b, cards: 2}
  - {name: c, cards: {memory: 2Gi}}
running: [{node: a, cards: {card: a-0, memory: 8Gi, cores: 30}}]
pod: {resources: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096}}
expect: {node: b}
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def kind_of(snippet: str) -> str:
    document = yaml.safe_load(snippet)
    if "apiVersion" in document:
        return "policy"
    return "cases" if {"cases", "pod", "steps"} & document.keys() else "other"


SNIPPETS = [pytest.param(text, id=f"{kind_of(text)}-{number}") for number, text in enumerate(blocks("yaml"))]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippets_do_what_the_guide_says(snippet: str) -> None:
    document: dict[str, Any] = yaml.safe_load(snippet)
    match kind_of(snippet):
        case "policy":
            assert document["kind"] in {"VGPUPolicy", "ClusterVGPUPolicy"}
            assert decode_policy(document).error == ""
        case "cases":
            ran = list(run_document(document, GUIDE))
            assert ran
            assert [(case.result, case.error) for case in ran if not case.ok] == []
        case _:
            assert "vgpu-scheduler test" in snippet


@pytest.mark.parametrize(("priority", "card"), [(1, "a-1"), (-1, "a-0")])
def test_a_section_comes_whole_and_what_restricts_holds_at_any_rank(priority: int, card: str) -> None:
    def policy(name: str, devices: dict[str, Any], rank: int = 0) -> dict[str, Any]:
        return {"kind": "ClusterVGPUPolicy", "metadata": {"name": name}, "spec": {"priority": rank, "devices": devices}}

    document = {
        "nodes": [{"name": "a", "cards": 2}, {"name": "h", "cards": {"model": "NVIDIA H100"}}],
        "running": [{"node": "a", "cards": {"card": "a-0", "memory": "1Gi"}}, {"node": "h", "cards": {"card": "h-0"}}],
        "policies": [policy("order", {"policy": "binpack"}), policy("deny", {"types": {"deny": ["H100"]}}, priority)],
        "pod": {"resources": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024}},
        "expect": {"cards": card, "policy": {"devices": "ClusterVGPUPolicy deny"}},
    }
    assert [(case.result.failures, case.error) for case in run_document(document, GUIDE)] == [((), "")]


def test_the_policy_of_the_readme_is_understood() -> None:
    text = (ROOT / "README.md").read_text()
    found = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    shown = [document for document in found if str(document["kind"]).endswith("VGPUPolicy")]
    assert [decode_policy(document).error for document in shown] == [""]


def test_there_are_snippets_of_all_kinds() -> None:
    assert {kind_of(text) for text in blocks("yaml")} == {"policy", "cases", "other"}


def commands() -> list[Any]:
    """Return the commands of ours that the guide shows with their output; those of a whole trace take long."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("vgpu-scheduler ") and output:
                given = command.removeprefix("vgpu-scheduler ")
                found.append(pytest.param(given, output, marks=[pytest.mark.long] if "--trace" in given else []))
    return found


@pytest.mark.parametrize(("command", "output"), commands())
def test_commands_print_what_the_guide_says(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("failing.yaml").write_text(FAILING)
    for name in ("cluster.yaml", "pods.yaml"):
        Path(name).write_text((ROOT / "tests" / "whatif" / name).read_text())
    result = CliRunner().invoke(main, command.split())
    assert without_times(result.stdout) == without_times(output)


def without_times(output: str) -> str:
    return re.sub(r"\d+ ms", "... ms", output)


def test_both_commands_are_shown() -> None:
    assert {str(each.values[0]).split()[0] for each in commands()} == {"test", "simulate"}


@pytest.mark.parametrize(
    "form", [Case, CaseSettings, ShortNode, Cards, ShortPod, RunningPod, CardShareForm, Expectation]
)
def test_every_field_of_a_case_is_documented(form: type[BaseModel]) -> None:
    missing = []
    for name, field in form.model_fields.items():
        word = field.alias or name
        if not re.search(rf"`{word}`|`.*[{{ ]{word}: .*`", TEXT):
            missing.append(word)
    assert missing == []


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert targets
    for target in targets:
        path, _, anchor = target.partition("#")
        assert (GUIDE.parent / path).exists(), target
        assert not anchor or anchor in anchors(GUIDE.parent / path if path else GUIDE), target


def test_every_recipe_is_in_the_guide() -> None:
    for path in (ROOT / "manifests" / "policies").glob("*.yaml"):
        assert f"(../manifests/policies/{path.name})" in TEXT
        assert f"(../tests/recipes/{path.name})" in TEXT
