"""The page of rights says of each right of the scheduler what it is for, and speaks of no other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.apiserver.rights import PAGE as UI
from tests.apiserver.rights import SHADOW, Right, granted

from vgpu_scheduler.doctor import EXAMINED_KINDS, ROLE_KINDS
from vgpu_scheduler.reading import LISTED_RESOURCES, SELECTING_RESOURCES
from vgpu_scheduler.whatif import make_dialect

PAGE = (Path(__file__).parents[2] / "docs" / "rbac.md").read_text()
ROW = re.compile(r"^\| `([^`]+)`(?: named `([^`]+)`)? \| `(\w+)` \| (\S[^|]*) \| (\S[^|]*) \|$", re.MULTILINE)
SECTION = re.compile(r"^## (.*)`manifests/(\S+)`$", re.MULTILINE)


DIALECTS = ("hami", "volcano", "koordinator")
FOLLOWED = (
    *(resource.path for resource in (*LISTED_RESOURCES.values(), *SELECTING_RESOURCES.values())),
    *(kind.path for name in DIALECTS if (kind := make_dialect(name).inventory.kind)),
)


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
    assert Counter(told()) == Counter([*granted(), *granted(UI), *granted(SHADOW)])


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


def test_the_page_reads_what_decisions_and_the_doctor_need_and_writes_nothing() -> None:
    rights = granted(UI)
    assert not [
        right for right in rights if "*" in {right.group, right.resource, right.verb} or "secret" in right.resource
    ]
    assert {(right.resource, right.group) for right in rights if right.verb not in {"get", "list", "watch"}} == {
        ("tokenreviews", "authentication.k8s.io"),
        ("subjectaccessreviews", "authorization.k8s.io"),
    }
    followed = {(right.group, right.resource) for right in rights if right.verb == "watch"}
    assert followed == {_kind(path) for path in FOLLOWED}
    listed = {(right.group, right.resource) for right in rights if right.verb == "list"}
    assert listed >= {
        (listed.resource.group, listed.resource.plural) for listed in (*EXAMINED_KINDS, *ROLE_KINDS) if not listed.names
    }
    named = {(right.group, right.resource, right.name) for right in rights if right.verb == "get"}
    assert named >= {
        (listed.resource.group, listed.resource.plural, name) for listed in EXAMINED_KINDS for name in listed.names
    }


def _kind(path: str) -> tuple[str, str]:
    *_, resource = path.strip("/").split("/")
    group = path.strip("/").split("/")[1] if path.startswith("/apis/") else ""
    return group, resource


def test_what_watches_another_scheduler_reads_what_decisions_need_and_writes_nothing() -> None:
    rights = granted(SHADOW)
    assert {right.verb for right in rights} == {"get", "list", "watch"}
    assert not [right for right in rights if "*" in {right.group, right.resource} or "secret" in right.resource]
    assert {(right.group, right.resource) for right in rights if right.verb == "watch"} == {
        _kind(path) for path in FOLLOWED
    }
