"""The workflows publish nothing untested, have no right that they do not use, and name what they run by its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(path.name for path in FOLDER.glob("*.yaml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})")
RIGHTS = {
    "version": {"contents": "read"},
    "test": {"contents": "read"},
    "image": {"contents": "read", "packages": "write"},
    "sign-image": {"packages": "write", "id-token": "write"},
    "chart": {"contents": "read", "packages": "write", "id-token": "write"},
    "wheel": {"contents": "read"},
    "publish-wheel": {"id-token": "write"},
}
"""What each job of a release may do; whoever adds to it says why in the workflow."""


def read(name: str) -> dict[Any, Any]:
    return dict(yaml.safe_load((FOLDER / name).read_text()))


def needed(jobs: dict[str, Any], name: str) -> set[str]:
    """Return the jobs that have to pass before a job starts."""
    direct = jobs[name].get("needs", [])
    direct = {direct} if isinstance(direct, str) else set(direct)
    return direct.union(*(needed(jobs, other) for other in direct))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_names_whole_versions(name: str) -> None:
    used = [
        step["uses"]
        for job in read(name)["jobs"].values()
        for step in (*job.get("steps", ()), job)
        if "uses" in step and not step["uses"].startswith("./")
    ]
    assert used
    assert [action for action in used if not PINNED.fullmatch(action)] == []


def test_each_job_of_a_release_has_the_rights_of_its_task_alone() -> None:
    release = read("release.yaml")
    assert release["permissions"] == {}
    assert {name: job["permissions"] for name, job in release["jobs"].items()} == RIGHTS
    text = (FOLDER / "release.yaml").read_text()
    assert "secrets." not in text
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_a_release_publishes_what_was_tested() -> None:
    jobs = read("release.yaml")["jobs"]
    assert jobs["test"]["uses"] == "./.github/workflows/ci.yaml"
    ci = read("ci.yaml")
    assert "workflow_call" in ci[True]  # YAML reads `on` as true
    assert ci["jobs"]["run"]["steps"][-1]["run"] == ".ci/run"
    writing = {name for name, rights in RIGHTS.items() if "write" in rights.values()}
    assert all({"version", "test"} <= needed(jobs, name) for name in writing)
    # What people see by a name, they see once all parts were built and tried.
    assert all({"image", "wheel"} <= needed(jobs, name) for name in ("sign-image", "chart", "publish-wheel"))
    architectures = {entry["architecture"] for entry in jobs["image"]["strategy"]["matrix"]["include"]}
    assert architectures == {"amd64", "arm64"}


def test_a_tag_releases_the_version_of_the_tree_once_the_changelog_has_its_date(tmp_path: Path) -> None:
    for name in (".ci/tagged_version.py", "pyproject.toml", "devcluster/pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version

    def said(tag: str) -> tuple[int, str]:
        command = [sys.executable, ".ci/tagged_version.py", tag]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()

    own = f"v{version[1]}"
    text = re.sub(
        rf"^(## {re.escape(version[1])}) \(.*\)$", r"\1 (not released yet)", changelog.read_text(), flags=re.MULTILINE
    )
    changelog.write_text(text)
    assert said(own) == (1, f"CHANGELOG.md has no heading `## {version[1]} (YYYY-MM-DD)`: set the date of the release")
    changelog.write_text(text.replace("(not released yet)", f"({date(2026, 1, 2)})", 1))
    assert said(own) == (0, version[1])
    assert said("v9.9.9") == (
        1,
        f"the tag is v9.9.9, but pyproject.toml has the version {version[1]}: its tag is {own}",
    )
    embedded = tmp_path / "devcluster" / "pyproject.toml"
    embedded.write_text(embedded.read_text().replace(f'version = "{version[1]}"', 'version = "8.8.8"'))
    assert said(own) == (1, f"devcluster/pyproject.toml has the version 8.8.8, pyproject.toml {version[1]}")


def test_workflows_that_cannot_be_checked_are_told_of(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "env", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    bare = {**os.environ, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path)}
    for required, status in (("", 0), ("1", 1)):
        done = subprocess.run(
            [ROOT / ".ci/actionlint.sh"],
            env=bare | {"REQUIRE_APISERVER": required},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status
        assert "the workflows are NOT checked: actionlint is built with Go" in done.stderr


def test_a_browser_that_cannot_be_installed_is_told_of(tmp_path: Path) -> None:
    for name in ("bash", "env", "id"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [ROOT / ".ci/browser.sh"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "chromium is NOT installed: that needs root and apt-get" in done.stderr) == (3, True)
    assert ".ci/browser.sh ||" in (ROOT / ".ci/run").read_text()
