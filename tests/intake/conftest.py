"""A devcluster in a thread of its own, and a watcher of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.intake.watching import Watcher

from vgpu_scheduler.apiclient import ApiClient, connect
from vgpu_scheduler.devcluster import DevCluster


@pytest.fixture
async def watcher(tmp_path: Path) -> AsyncIterator[Watcher]:
    """A watcher that does not watch yet."""
    with DevCluster.thread(bookmark_interval=0.2) as cluster:
        api = await connect(str(cluster.kubeconfig(tmp_path / "kubeconfig")), None, "intake")
        other = ApiClient(api.credentials, "somebody-else")
        yield Watcher(cluster, api, other)
        await other.close()
        await api.close()
