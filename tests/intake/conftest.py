"""A devcluster in a thread of its own, and a watcher of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.intake.watching import Watcher

from vgpu_devcluster import DevCluster
from vgpu_scheduler.apiclient import ApiClient, connect


@pytest.fixture
async def watcher(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Watcher]:
    """A watcher that does not watch yet; its parameter says how many seconds lie between bookmarks."""
    with DevCluster.thread(bookmark_interval=getattr(request, "param", 0.2)) as cluster:
        api = await connect(str(cluster.kubeconfig(tmp_path / "kubeconfig")), None, "intake")
        other = ApiClient(api.credentials, "somebody-else")
        yield Watcher(cluster, api, other)
        await other.close()
        await api.close()
        await _end_leftovers()


async def _end_leftovers() -> None:
    """End what kopf left behind: before Python 3.12 its ``wait_for`` may lose a cancellation, and the loop hangs."""
    async with asyncio.timeout(30):
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=0.2)
