"""Prints the version that a tag releases: ``tagged_version.py v1.2.3``; fails if the tree is not that release."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(tag: str) -> str:
    """Return the version that a tag releases.

    Raises
    ------
    SystemExit
        If pyproject.toml has another version, that of the embedded cluster differs, or the changelog has no date.
    """
    version, embedded = (_version(name) for name in ("pyproject.toml", "devcluster/pyproject.toml"))
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, but pyproject.toml has the version {version}: its tag is v{version}")
    if embedded != version:
        raise SystemExit(f"devcluster/pyproject.toml has the version {embedded}, pyproject.toml {version}")
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d{{2}}-\d{{2}}\)$"
    if not re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise SystemExit(f"CHANGELOG.md has no heading `## {version} (YYYY-MM-DD)`: set the date of the release")
    return version


def _version(name: str) -> str:
    return str(tomllib.loads((ROOT / name).read_text())["project"]["version"])


if __name__ == "__main__":
    print(main(sys.argv[1]))
