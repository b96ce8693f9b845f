"""What is made from settings."""

from __future__ import annotations

import pytest

from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.settings import Settings


@pytest.mark.parametrize("option", ["rejected_node_wait", "bind_timeout", "node_side_timeout"])
def test_an_engine_without_settings_waits_as_long_as_one_with_default_settings(option: str) -> None:
    assert getattr(EngineOptions(()), option) == getattr(engine_options(Settings()), option)


@pytest.mark.parametrize("listed", [["hami"], ["volcano", "hami"], ["hami", "volcano", "koordinator"]])
def test_every_dialect_is_in_use_or_known_beside(listed: list[str]) -> None:
    made = engine_options(Settings(dialects=listed))
    assert [dialect.name for dialect in made.dialects] == listed
    assert {dialect.name for dialect in made.unlisted} == DIALECTS.keys() - set(listed)
