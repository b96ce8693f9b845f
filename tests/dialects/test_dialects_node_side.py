"""Which annotations of nodes tell of nothing but that somebody is alive, or who is served now."""

from __future__ import annotations

import pytest

from vgpu_scheduler.dialects import is_sign_of_life
from vgpu_scheduler.dialects.factory import DIALECTS


@pytest.mark.parametrize("name", DIALECTS)
def test_locks_are_signs_of_life_and_cordons_are_none(name: str) -> None:
    dialect = DIALECTS[name]()
    assert all(is_sign_of_life(lock.annotation) for lock in dialect.node_side.locks)
    assert not any(map(is_sign_of_life, dialect.inventory.cordons.values()))


@pytest.mark.parametrize(
    ("annotation", "is_sign"),
    [
        ("hami.io/node-handshake", True),
        ("hami.io/node-handshake-dcu", True),
        ("vgpu-scheduler.io/last-allocated", True),
        ("another.io/gpu-lock", True),
        ("another.io/mutex.lock.2", True),
        ("another.io/last-allocated", False),
        ("another.io/block", False),
        ("another.io/x.locked", False),
        ("hami.io/node-nvidia-register", False),
        ("", False),
    ],
)
def test_signs_of_life_are_known_by_their_names_in_any_ecosystem(annotation: str, is_sign: bool) -> None:  # noqa: FBT001
    assert is_sign_of_life(annotation) is is_sign
