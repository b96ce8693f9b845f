"""kopf is started again soon after its first end, then less and less often, and soon again once it has lasted."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from vgpu_scheduler.apiclient import Credentials
from vgpu_scheduler.intake.supervised import SupervisedKopf


def _nothing() -> None:
    pass


class Ending(SupervisedKopf):
    """A kopf that ends at once, but for its last start, which lasts a minute."""

    def __init__(self, starts: int) -> None:
        login = cast("Credentials", None)
        super().__init__(login, "test", lost_track=_nothing, after_spawn=_nothing, restarted=_nothing)
        self.starts = starts
        self.now = 0.0

    def _register(self, registry: object) -> None:
        """Watch nothing."""

    async def _run_once(self) -> None:
        self.starts -= 1
        self.now += 0.0 if self.starts else 60.0
        raise RuntimeError("ended")


async def test_restarts_wait_longer_and_longer_until_kopf_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    kopf, waited = Ending(8), list[float]()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: kopf.now, raising=False)

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if not kopf.starts:
            raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await kopf.run()
    assert waited == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 1.0]
