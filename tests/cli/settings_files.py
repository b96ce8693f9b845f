"""Files of settings for the tests."""

from __future__ import annotations

from pathlib import Path


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path
