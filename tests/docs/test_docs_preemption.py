"""docs/preemption.md: its policy is understood, its fields are all that there are, and what it quotes is said."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import tenant, waiting, world
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.policy import decode_policy
from vgpu_scheduler.policy.preemption_section import PreemptionSection
from vgpu_scheduler.telemetry.catalogue import METRICS
from vgpu_scheduler.whatif import explain_pod

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "preemption.md").read_text()
SOURCES = "\n".join(path.read_text() for path in (ROOT / "operator").rglob("*.py"))
QUOTED = re.compile(r"^\| `([^`]+)` \| ", re.MULTILINE)


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_its_policy_is_understood() -> None:
    assert decode_policy(yaml.safe_load(block("yaml"))).error == ""


def test_it_names_every_field_of_the_section() -> None:
    for name, field in PreemptionSection.model_fields.items():
        assert re.search(rf"\b{field.alias or name}\b", PAGE), name


def test_the_messages_are_those_that_are_said() -> None:
    messages = [text for text in QUOTED.findall(PAGE.partition("## What the messages mean")[2]) if " " in text]
    assert len(messages) >= 8
    assert "more eviction" in SOURCES
    for text in messages:  # the noun and the verb have the number of what is counted
        for part in re.split(r"…|\b\d+\b|ClusterVGPUPolicy house|\bmore evictions?\b|\b(?:is|are) needed\b", text):
            assert part.strip() in re.sub(r"\{[^}]*\}", "", SOURCES) or part.strip() in SOURCES, part


def test_the_metrics_are_those_of_preemption() -> None:
    about = {metric.name for metric in METRICS if re.search("preempt|evict|victim", metric.name)}
    assert about <= set(re.findall(r"`(\w+)`", PAGE))


def test_explain_says_what_it_shows() -> None:
    house = policy_object("urgent-first", {"preemption": {"mayPreempt": True}})
    research = {"metadata": {"namespace": "research"}}
    made = world(
        house,
        node("a", 1),
        tenant("sweep", "a", "GPU-a-0", 9000, 10, **research),
        waiting("urgent", 12000, 100),
    )
    (asked,) = made.pending.values()
    found = explain_pod(made, asked).preemption_outlook
    assert found is not None
    assert f"{found.text()}\n" == block("text")
