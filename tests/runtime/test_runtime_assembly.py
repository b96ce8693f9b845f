"""What is made from settings."""

from __future__ import annotations

import pytest

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.settings import Settings


@pytest.mark.parametrize("option", ["rejected_node_wait", "bind_timeout", "node_side_timeout"])
def test_an_engine_without_settings_waits_as_long_as_one_with_default_settings(option: str) -> None:
    assert getattr(EngineOptions(()), option) == getattr(engine_options(Settings()), option)
