"""The pictures of the page that the docs show are there, and the script that draws them does."""

from __future__ import annotations

import shutil
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import unavailable

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "ui"
SHOWN = ("README.md", "docs/ui.md")


def module() -> Any:
    """Return the script, where there is what it needs."""
    if shutil.which("chromium") is None:
        unavailable("there is no chromium: apt-get install chromium")
    try:
        import_module("playwright.async_api")
    except ImportError:
        unavailable("Playwright is not installed: pip install playwright")
    return import_module("docs.ui_pictures")


def size(file: Path) -> tuple[int, int]:
    """Return width and height of a PNG."""
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n", file
    width, height = struct.unpack(">II", head[16:])
    return width, height


def test_each_picture_is_shown_and_small() -> None:
    text = "".join((ROOT / name).read_text() for name in SHOWN)
    drawn = sorted(FOLDER.glob("*.png"))
    assert len(drawn) >= 8
    for file in drawn:
        assert f"(docs/ui/{file.name})" in text or f"(ui/{file.name})" in text
        assert 5_000 < file.stat().st_size < 100_000, file


@pytest.mark.browser
@pytest.mark.timeout(180)
async def test_the_script_draws_each_of_them_from_a_real_run(tmp_path: Path) -> None:
    script = module()
    assert {picture.file for picture in script.PICTURES} == {file.name for file in FOLDER.glob("*.png")}
    await script.draw(tmp_path)
    for picture in script.PICTURES:
        file = tmp_path / picture.file
        assert size(file) == picture.size == size(FOLDER / picture.file)
        assert file.stat().st_size > 5_000, f"{picture.name} is empty"
