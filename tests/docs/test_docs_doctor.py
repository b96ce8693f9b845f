"""The doctor's page and role agree with its code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.doctor import CHECKS, DIAGNOSES, EXAMINED_KINDS, ListedKind, inventory_kind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "doctor.md").read_text()


def test_every_finding_has_its_section_and_every_section_its_finding() -> None:
    sections = re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)
    ids = [diagnosis.id for diagnosis in DIAGNOSES]
    assert sections == ids
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in ids)  # an anchor as it is
    assert re.findall(r"\]\(#(\S+)\)", PAGE) == ids


def test_remedies_are_single_sentences() -> None:
    for diagnosis in DIAGNOSES:
        assert re.fullmatch(r"[A-Z][^\n]*\.", diagnosis.remedy), diagnosis.id
        assert not re.search(r"\. [A-Z]", diagnosis.remedy), diagnosis.id


def test_names_of_checks_are_their_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_the_role_of_the_doctor_reads_all_that_it_looks_at() -> None:
    role: dict[str, Any] = yaml.safe_load((ROOT / "manifests" / "doctor" / "role.yaml").read_text())
    inventory = koordinator_dialect().inventory.kind
    assert inventory is not None
    for listed in (*EXAMINED_KINDS, inventory_kind(inventory)):
        assert any(allows(rule, listed) for rule in role["rules"]), listed.kind
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "create"}
    assert [rule["resources"] for rule in role["rules"] if "create" in rule["verbs"]] == [["subjectaccessreviews"]]


def allows(rule: dict[str, Any], listed: ListedKind) -> bool:
    verb = "get" if listed.names else "list"
    named = set(listed.names) <= set(rule.get("resourceNames", listed.names))
    return (
        listed.resource.group in rule["apiGroups"]
        and listed.resource.plural in rule["resources"]
        and verb in rule["verbs"]
        and named
    )
