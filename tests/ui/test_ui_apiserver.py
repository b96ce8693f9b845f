"""The page on the real API server: what it lists and watches there is what it shows."""

from __future__ import annotations

import asyncio

import numpy as np
from tests.apiserver.control_plane import ControlPlane
from tests.ui.clusters import followed
from tests.ui.test_ui_live import change_at_random, some_objects, used, waiting
from tests.whatif.test_whatif_remedies import running


async def test_the_page_follows_a_real_cluster_through_a_restart_of_the_api_server(
    empty_control_plane: ControlPlane,
) -> None:
    async with followed(str(empty_control_plane.kubeconfig()), *some_objects(), waiting("first")) as cluster:
        await cluster.bind("first", running("x", "a", "GPU-a-1", 4000))
        assert await cluster.until(lambda cards: 4000 in used(cards)) < 1.0
        await change_at_random(cluster, np.random.default_rng(7), 20)
        await asyncio.to_thread(empty_control_plane.restart)
        await cluster.create(waiting("after"))
        await cluster.until(lambda text: "default/after" in text, "/waiting", 30.0)
        await cluster.until(lambda text: "out of date" not in text, "/", 30.0)
        assert await cluster.cards() == await cluster.top()
