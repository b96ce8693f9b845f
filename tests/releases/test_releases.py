"""What earlier versions have written on pods is read as it was meant, for as long as such pods may run."""

from __future__ import annotations

import json

import pytest
from tests.releases.written import FOLDER, cases, dialects

from vgpu_scheduler import __version__
from vgpu_scheduler.kube import decode_pod

KEPT = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("version", KEPT)
def test_what_a_release_has_written_is_read_as_it_was_meant(version: str) -> None:
    kept = json.loads((FOLDER / f"{version}.json").read_text())
    assert len(kept) >= 50
    for case in kept:
        found = dialects().uses(decode_pod(case["pod"]))
        held = {dialect: {uuid: list(it) for uuid, it in usage.charges.items()} for dialect, usage in found.items()}
        assert held == case["holds"], case["pod"]["metadata"]["name"]
        assert not any(usage.problem or usage.unreadable for usage in found.values())


def test_what_this_version_writes_is_kept() -> None:
    """A change of it needs a version of its own: nodes and replicas of two versions are there at the same time."""
    assert __version__ in KEPT
    assert list(cases()) == json.loads((FOLDER / f"{__version__}.json").read_text())
