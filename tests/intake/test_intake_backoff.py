"""How long watches wait before they are tried again."""

from __future__ import annotations

import pytest

from vgpu_scheduler.apiclient.reflector import watch_backoff


async def test_pauses_double_until_something_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    backoff = watch_backoff()
    for _ in range(7):
        await backoff.sleep()
    assert paused == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0])
    backoff.reset()
    await backoff.sleep(30.0)
    await backoff.sleep()
    assert paused[-2:] == [30.0, 0.4], "what the API server asks for counts as a pause"
    await backoff.sleep(0.5)
    assert paused[-1] == 0.8, "it never shortens one"
