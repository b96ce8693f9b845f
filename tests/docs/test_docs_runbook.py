"""The runbook has a section for each alert, reason and message that the code can produce, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import ValidationError
from tests.docs.statements import AMOUNT, SPAN, wrong_statements

from vgpu_scheduler.engine import ClosureCause, PolicyReason
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
    "Closed nodes": [cause.text for cause in ClosureCause],
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


def test_fields_of_policies_that_are_named_are_there() -> None:
    """``the policy's `x` `` names a field of the spec."""
    (version,) = yaml.safe_load((ROOT / "crds" / "vgpupolicies.yaml").read_text())["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    named = set(re.findall(r"the policy's `(\w+)`", RUNBOOK))
    assert named
    assert named <= set(fields)


def test_nothing_is_stated_that_a_program_finds_wrong() -> None:
    assert wrong_statements(RUNBOOK) == []


MISTAKES = 120


def planted() -> list[tuple[str, str]]:
    """Return pieces of the page with a mistake in each: a letter of a name, a flag, or another amount."""
    rng = np.random.default_rng(9)
    text = re.sub(r"^```.*?^```$", "", RUNBOOK, flags=re.MULTILINE | re.DOTALL)
    spans = sorted({found[0] for found in SPAN.finditer(text) if len(found[1]) > 3 and "mgi" not in found[1]})
    found = []
    for span in rng.permutation(spans)[:MISTAKES]:
        letters = [number for number, letter in enumerate(span) if letter.isalpha() and not _is_free(span, number)]
        if not letters:
            continue
        where = int(rng.choice(letters))
        found.append((str(span), f"{span[:where]}{'q' if span[where] != 'q' else 'x'}{span[where:]}"))
    amounts = sorted({found[0] for found in AMOUNT.finditer(" ".join(text.split()))})
    return found + [(amount, f"seven {amount.partition(' ')[2]}") for amount in amounts]


def _is_free(span: str, number: int) -> bool:
    """Tell whether a letter is of what the reader fills in: ``NAMESPACE/NAME``, a value, or the words of a log line."""
    word = re.search(r"\S*$", span[:number])
    assert word is not None
    rest = re.match(r"\S*", span[number:])
    assert rest is not None
    whole = (word[0] + rest[0]).strip("`")
    return whole.isupper() or "NAME" in whole or whole in {"POD", "CARD", "NODE"}


@pytest.mark.parametrize(("right", "wrong"), planted())
def test_a_mistake_on_the_page_is_found(right: str, wrong: str) -> None:
    page = " ".join(RUNBOOK.split(" "))
    pattern = re.compile(r"\s+".join(map(re.escape, right.split())))
    assert pattern.search(page), right
    assert wrong_statements(pattern.sub(lambda _: wrong, page)), wrong
