"""The pages of the vendors are current, and the example of adding one works as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vgpu_scheduler.dialects.hami import VendorSection
from vgpu_scheduler.dialects.hami.vendors import VENDOR_FACTORIES, Vendor

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_pages_are_current() -> None:
    done = subprocess.run([sys.executable, DOCS / "render.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("make", [make for factories in VENDOR_FACTORIES.values() for make in factories])
def test_a_page_names_every_key_of_its_vendor(make: Callable[[VendorSection], tuple[Vendor, ...]]) -> None:
    text = (DOCS / "vendors" / f"{make.__name__.replace('_', '-')}.md").read_text()
    vendor, *others = make(VendorSection())
    said = (*vendor.record.written, *vendor.claims.resources, *vendor.rules.all, *vendor.claims.quotas(vendor.key))
    options = vendor.options.annotations if vendor.options else ()
    for name in (*said, *options):
        assert re.search(rf"[`.]{re.escape(name)}`", text), name
    assert all(f"`{other.key}`" in text for other in others)
    assert "see above" not in text
    if vendor.lock:
        assert f"`{vendor.lock.annotation}`" in text


@pytest.mark.parametrize(
    ("page", "number"), [("adding-a-vendor.md", 0), ("adding-a-vendor.md", 1), ("adding-a-dialect.md", 0)]
)
def test_the_examples_of_the_guides_work(page: str, number: int, tmp_path: Path) -> None:
    """Each guide has examples, each with its test behind it."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert len(blocks) == (4 if page == "adding-a-vendor.md" else 2)
    file = tmp_path / "example.py"  # numba wants to find the source of what it compiles
    file.write_text(blocks[2 * number])
    room: dict[str, Any] = {}
    exec(compile(file.read_text(), file, "exec"), room)
    exec(blocks[2 * number + 1], room)
    tests = [value for name, value in room.items() if name.startswith("test_")]
    assert tests
    for run in tests:
        run()


def test_every_difference_from_hami_is_told() -> None:
    """Those that golden cases or tests of their own show, and no others."""
    page = (DOCS / "coming-from-hami.md").read_text()
    told = re.findall(r"`([a-z0-9-]+)`", "".join(re.findall(r"\|([^|]*)\|\n", page[page.index("## What differs") :])))
    others = ("volcano-", "koordinator-", "kubernetes-", "hami26-")
    listed = tomllib.loads((ROOT / "tests" / "vectors" / "deviations.toml").read_text())
    assert sorted(told) == sorted(name for name in listed if not name.startswith(others))
