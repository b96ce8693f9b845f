"""The page about node sides cites the version that the tests run, and functions that the doubles have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "node-sides.md").read_text()


def test_the_cited_version_of_koordlet_is_the_one_that_is_built() -> None:
    module = (ROOT / "tests" / "apiserver" / "koordlet" / "go.mod").read_text()
    versions = re.findall(r"koordinator-sh/koordinator (v\S+)", module)
    assert set(versions) == {"v1.6.1"}
    assert "`github.com/koordinator-sh/koordinator` v1.6.1" in PAGE


@pytest.mark.parametrize(
    ("double", "names"),
    [
        ("volcano", re.findall(r"`(_[a-z_]+|register)`", PAGE.partition("## Volcano")[2])),
        ("koordlet", re.findall(r"`(?:koordlet|Koordlet)\.([a-z_]+)`", PAGE)),
    ],
)
def test_the_doubles_have_the_functions_that_are_named(double: str, names: list[str]) -> None:
    text = (ROOT / "devcluster" / "vgpu_devcluster" / f"{double}.py").read_text()
    assert len(names) > 3
    assert [name for name in names if f"def {name}(" not in text] == []
