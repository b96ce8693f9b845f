"""The page of rights says of each right of the scheduler what it is for, and speaks of no other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.apiserver.rights import Right, granted

PAGE = (Path(__file__).parents[2] / "docs" / "rbac.md").read_text()
ROW = re.compile(r"^\| `([^`]+)`(?: named `([^`]+)`)? \| `(\w+)` \| (\S[^|]*) \| (\S[^|]*) \|$", re.MULTILINE)
SECTION = re.compile(r"^## (.*)`manifests/(\S+)`$", re.MULTILINE)


def told() -> list[Right]:
    """Return the rights that the page tells of."""
    found = []
    _, *parts = SECTION.split(PAGE)
    for title, file, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        place = re.search(r"namespace `([^`]+)`", title)
        for whole, name, verb, _, _ in ROW.findall(text):
            resource, _, group = whole.partition(".")
            found.append(Right(file, group, resource, verb, name, place[1] if place else ""))
    return found


def test_the_page_tells_of_every_right_and_of_no_other() -> None:
    assert Counter(told()) == Counter(granted())


def test_no_row_is_written_otherwise() -> None:
    assert len(told()) == len(re.findall(r"^\| `", PAGE, re.MULTILINE))


def test_no_right_is_to_all_verbs_or_to_secrets() -> None:
    """What the page says before its tables."""
    rights = granted()
    assert not [right for right in rights if "*" in {right.group, right.resource, right.verb}]
    assert not [right for right in rights if "secret" in right.resource]
    written = {(right.resource, right.verb) for right in rights if right.verb not in {"get", "list", "watch"}}
    assert {right.file for right in rights if (right.resource, right.verb) in written and right.resource == "pods"} == {
        "preemption-beyond-budgets/rbac.yaml"
    }
    assert {resource for resource, _ in written if resource.partition("/")[0].endswith("vgpupolicies")} == {
        "vgpupolicies/status",
        "clustervgpupolicies/status",
    }
