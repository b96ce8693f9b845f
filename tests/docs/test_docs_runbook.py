"""The runbook has a section for each alert, reason and message that the code can produce, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml
from pydantic import ValidationError

from vgpu_scheduler.cli import top
from vgpu_scheduler.cli.main import main
from vgpu_scheduler.engine import Cause, PolicyReason
from vgpu_scheduler.model import CardReason, ConditionReason, EventReason
from vgpu_scheduler.predicates import Reason
from vgpu_scheduler.predicates import reasons as filter_reasons
from vgpu_scheduler.settings import Settings

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
RULES = yaml.safe_load((ROOT / "manifests" / "monitoring" / "rules.yaml").read_text())
ALERTS = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
SOURCES = "\n".join(path.read_text() for path in (ROOT / "operator").rglob("*.py"))
OWN_FILTERS = [value.text for value in vars(filter_reasons).values() if isinstance(value, Reason)]

PRODUCED = {
    "Alerts": [alert["alert"] for alert in ALERTS],
    "Event reasons": [reason.value for reason in EventReason],
    "Reasons of a pod's condition": [reason.value for reason in ConditionReason],
    "Reasons of a policy's conditions": [reason.value for reason in PolicyReason],
    "Card reasons": [reason.text for reason in CardReason],
    "Filter messages": [*OWN_FILTERS, filter_reasons.insufficient("").text.strip()],
    "Closed nodes": [cause.text for cause in Cause],
}


def chapters() -> dict[str, dict[str, str]]:
    """Return the text of each section, by chapter and heading."""
    found: dict[str, dict[str, str]] = {}
    for chapter in re.split(r"^## ", RUNBOOK, flags=re.MULTILINE)[1:]:
        title, *sections = re.split(r"^### ", chapter, flags=re.MULTILINE)
        split = [section.partition("\n") for section in sections]
        assert len({heading for heading, _, _ in split}) == len(split)
        found[title.partition("\n")[0]] = {heading: text.strip() for heading, _, text in split}
    return found


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and documentation generators make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("chapter", PRODUCED)
def test_what_the_code_produces_has_its_section_and_no_other(chapter: str) -> None:
    assert sorted(chapters()[chapter]) == sorted(PRODUCED[chapter])


def test_other_messages_are_those_of_the_code() -> None:
    assert set(chapters()) - set(PRODUCED) == {"Other messages"}
    for heading in chapters()["Other messages"]:
        for part in heading.split("…"):
            assert part.strip() in SOURCES, heading


def test_each_section_says_what_it_means_and_what_is_wrong_has_a_remedy() -> None:
    fine = {"Scheduled", "Accepted", "NoConflict", "NoWarnings"}
    for title, sections in chapters().items():
        for heading, text in sections.items():
            assert len(text) > 20, heading
            if title != "Closed nodes" and heading not in fine:
                assert "**Do:**" in text, heading


@pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])
def test_alerts_link_their_sections(alert: dict[str, dict[str, str]]) -> None:
    page, _, section = alert["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page).read_text() == RUNBOOK
    assert section == anchor(str(alert["alert"]))
    assert alert["alert"] in chapters()["Alerts"]


def test_events_link_their_sections() -> None:
    anchors = {anchor(heading) for heading in chapters()["Event reasons"]}
    assert {reason.value.lower() for reason in EventReason} == anchors  # how binding/writes.py makes the link


def test_the_address_of_the_runbook_is_an_address() -> None:
    assert Settings(runbook_url="https://docs.example.com/runbook.html").runbook_url
    for wrong in ("docs/runbook.html", "https://", "https://a b"):
        with pytest.raises(ValidationError, match="runbook_url"):
            Settings(runbook_url=wrong)


def test_links_lead_to_sections_and_files() -> None:
    headings = [heading for sections in chapters().values() for heading in sections]
    anchors = {anchor(heading) for heading in headings}
    assert len(anchors) == len(headings)
    for target in re.findall(r"\]\(([^)]+)\)", RUNBOOK):
        file, _, section = target.partition("#")
        assert (ROOT / "docs" / file).exists()
        assert file or section in anchors, target


def test_commands_and_their_options_exist() -> None:
    assert isinstance(main, click.Group)
    context = click.Context(main)
    commands = set(re.findall(r"`vgpu-scheduler (\w+)([^`]*)`", RUNBOOK))
    assert len(commands) >= 8
    for name, rest in commands:
        command = main.get_command(context, name)
        assert command is not None, name
        options = {text for parameter in command.params for text in parameter.opts}
        assert set(re.findall(r"(?<= )--?[a-z-]+", rest)) <= options, name


def test_columns_that_are_named_are_shown() -> None:
    named = re.findall(r"`vgpu-scheduler top (\w+)`, column `([A-Z%]+)`", RUNBOOK)
    assert named
    for what, column in named:
        head = [shown.name for shown in top.TABLES[what].listed if not shown.wide]
        assert column.lower() in head, f"top {what} has no column {column}"


def test_fields_of_policies_that_are_named_are_there() -> None:
    """``the policy's `x` `` names a field of the spec."""
    (version,) = yaml.safe_load((ROOT / "crds" / "vgpupolicies.yaml").read_text())["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    named = set(re.findall(r"the policy's `(\w+)`", RUNBOOK))
    assert named
    assert named <= set(fields)
