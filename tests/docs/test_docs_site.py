"""Links lead somewhere, the pages of the site are listed, and the page of operations names what there is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from docs.links import ROOT, anchors, broken, pages

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PAGE = """\
# One *big* `title`: yes & no

[here](#one-big-title-yes--no) [gone](#gone) [second](#again-1) [third](#again-2)

## Again
## Again
<a id="own"></a>

| a table |
|---|
| [own](#own) ![no picture](gone.svg) |

[other](other.md#there) [absent](other.md#absent) [folder](folder) [nobody](nobody.md) [elsewhere](https://example.org/x)
`[not a link](nobody.md)`
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "folder").mkdir(parents=True)
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    (tmp_path / "docs" / "other.md").write_text("Title\n=====\n\nThere\n-----\n")
    return tmp_path


def test_links_that_lead_nowhere_are_found_with_line_and_reason(tree: Path) -> None:
    page, other = tree / "docs" / "page.md", tree / "docs" / "other.md"
    assert pages(tree) == [other, page]
    assert anchors(page) == {"one-big-title-yes--no", "again", "again-1", "own"}
    assert anchors(other) == {"title", "there"}
    assert list(broken(other)) == []
    assert list(broken(page)) == [
        (3, "#gone", "there is no such heading"),
        (3, "#again-2", "there is no such heading"),
        (11, "gone.svg", "there is no such file"),
        (13, "other.md#absent", "there is no such heading"),
        (13, "nobody.md", "there is no such file"),
    ]


def test_every_page_is_listed_in_the_index_once() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    listed = [line for block in re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL) for line in block.split()]
    names = [line for line in listed if not line.startswith(":") and line not in {"1", "vendors/*"}]
    assert len(names) == len(set(names))
    files = [page for name in names for page in (ROOT / "docs").glob(f"{name}.md")]
    found = {str(page.resolve().relative_to(ROOT)) for page in files}
    assert len(files) == len(found)
    shown = {str(page.relative_to(ROOT)) for page in pages(ROOT) if page.parent.name != "vendors"}
    assert found == shown - {"docs/index.md"} | {"docs/vendors/README.md"}


def test_operations_name_every_folder_of_the_manifests_and_values_that_exist() -> None:
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "manifests").glob("*/**/kustomization.yaml")}
    section = OPERATIONS.partition("### What can be added")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(manifests/[^`]+)`", section)) == folders
    values = yaml.safe_load((ROOT / "charts" / "vgpu-scheduler" / "values.yaml").read_text())
    named = re.findall(r"`([a-z]\w+)(?:\.(\w+))?[^`]*` \|$", section, re.MULTILINE)
    assert len(named) >= 8
    for value, inner in named:
        assert value in values
        assert value == "settings" or not inner or inner in values[value]


def test_the_guide_for_contributors_is_short_and_names_what_is_there() -> None:
    assert len(CONTRIBUTING.splitlines()) < 60
    rooms = ROOT / "operator" / "vgpu_scheduler"
    for _, source, tests in re.findall(r"^\| ([^|]+) \| (`[^|]+) \| ([^|]+) \|$", CONTRIBUTING, re.MULTILINE):
        for name in re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.py)`", source + tests):
            assert (rooms / name).exists() or (ROOT / name).exists(), name


def test_hooks_and_hosted_runs_do_what_is_done_here() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert (repo["repo"], [hook["entry"] for hook in repo["hooks"]]) == ("local", ["make lint"])
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())["jobs"]["run"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    script = (ROOT / ".ci" / "run").read_text()
    targets = re.findall(r"^step make (\w+)$", script, re.MULTILINE)
    done = subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert targets == ["lint", "docs", "test"]
    assert done.returncode == 0, done.stderr
