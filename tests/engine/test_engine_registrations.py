"""When the devices of a node are read anew."""

from __future__ import annotations

import pytest
from tests.engine.builders import cards, engine_with, node

from vgpu_scheduler.engine.registrations import Registrations


@pytest.mark.parametrize(
    ("annotations", "is_read"),
    [
        ({"hami.io/mutex.lock": "2026-01-01T00:00:00Z,default,p"}, False),
        ({"hami.io/node-handshake": "Reported 2026.01.01 00:00:00"}, False),
        ({"vgpu-scheduler.io/last-allocated": "uid"}, False),
        ({"example.com/note": "x"}, True),
    ],
)
def test_what_only_tells_of_somebody_alive_has_no_devices_read(
    monkeypatch: pytest.MonkeyPatch, annotations: dict[str, str], *, is_read: bool
) -> None:
    engine = engine_with([node("a", cards("a", 1))])
    read, really = [], Registrations._read
    monkeypatch.setattr(Registrations, "_read", lambda self, each: read.append(each) or really(self, each))

    engine.observe_node(node("a", cards("a", 1), annotations=annotations, version=2), 1.0)

    assert bool(read) is is_read


def test_nothing_is_kept_of_a_node_that_is_gone_but_what_is_listed_beside_it() -> None:
    engine = engine_with([node("a", annotations={"hami.io/node-nvidia-register": "odd"})])
    assert engine._registrations._unclear == {"a"}
    engine.remove_node("a")
    assert not engine._registrations._unclear
