"""Events of changes: each listener hears of its own keys, and nothing stays behind."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import numpy as np
import pytest

from vgpu_scheduler.binding.change_events import ChangeEvents

KEYS = ("a", "b", "c")


@pytest.mark.parametrize("seed", range(30))
def test_a_change_sets_the_events_of_its_key_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    events = ChangeEvents()
    listeners: list[tuple[set[str], asyncio.Event, ExitStack]] = []
    for _ in range(60):
        match int(rng.integers(4)):
            case 0:
                keys = [str(key) for key in rng.choice(KEYS, size=int(rng.integers(1, 4)))]  # the same one twice, too
                stack = ExitStack()
                listeners.append(({*keys}, stack.enter_context(events.listening(*keys)), stack))
            case 1 if listeners:
                listeners.pop(int(rng.integers(len(listeners))))[2].close()
            case 2:
                events.wake_all()
                assert all(event.is_set() for _, event, _ in listeners)
            case _:
                changed = str(rng.choice(KEYS))
                events.changed(changed)
                assert [event.is_set() for _, event, _ in listeners] == [changed in keys for keys, _, _ in listeners]
        for _, event, _ in listeners:
            event.clear()
    for _, _, stack in listeners:
        stack.close()
    events.wake_all()
    assert not any(event.is_set() for _, event, _ in listeners)
    assert not events._listening
