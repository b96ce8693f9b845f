"""The version is set in pyproject.toml; whatever else names it follows, and the changelog tells of each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.releases.written import FOLDER

from vgpu_scheduler import __version__

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
ENTRY = re.compile(r"^## (\S+) \((\d{4}-\d{2}-\d{2}|not released yet)\)$", re.MULTILINE)
HEADING = re.compile(r"^## .*$", re.MULTILINE)
SEMANTIC = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
IMAGE = re.compile(r"\bvgpu-scheduler:(\d[\w.-]*)")
TEXTS = [
    ROOT / "README.md",
    *(path for folder in ("docs", "manifests", "charts") for path in sorted((ROOT / folder).rglob("*.[my][da]*"))),
]


def entries() -> dict[str, str]:
    """Return the entries of the changelog: version to date."""
    return dict(ENTRY.findall((ROOT / "CHANGELOG.md").read_text()))


def order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Return what versions are sorted by; one that is not final comes before the final one."""
    numbers, _, rest = version.partition("-")
    return tuple(map(int, numbers.split("."))), not rest, rest


def test_the_package_says_the_version_that_is_set() -> None:
    assert __version__ == VERSION
    assert SEMANTIC.fullmatch(VERSION)


def test_the_embedded_cluster_has_the_version_of_the_operator_and_needs_that_one() -> None:
    project = tomllib.loads((ROOT / "devcluster" / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert f"vgpu-scheduler=={VERSION}" in project["dependencies"]


def test_the_changelog_has_this_version_first_and_an_entry_for_each_that_was_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert len(HEADING.findall(text)) == len(ENTRY.findall(text)), "a heading of another form"
    versions = list(entries())
    assert versions[0] == VERSION
    assert versions == sorted(versions, key=order, reverse=True)
    assert {path.stem for path in FOLDER.glob("*.json")} <= set(versions)
    assert [version for version, date in entries().items() if date == "not released yet"] in ([], [VERSION])


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_images_are_named_with_this_version(path: Path) -> None:
    assert set(IMAGE.findall(path.read_text())) <= {VERSION}


def test_the_manifests_and_the_readme_name_the_image() -> None:
    deployment = yaml.safe_load((ROOT / "manifests" / "deployment.yaml").read_text())
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"vgpu-scheduler:{VERSION}"
    assert f"docker build -t vgpu-scheduler:{VERSION} " in (ROOT / "README.md").read_text()
