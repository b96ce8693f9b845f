"""How tasks and clients end."""

from __future__ import annotations

import asyncio

import pytest
from kubernetes_asyncio.client import Configuration

from vgpu_scheduler.apiclient import ApiClient, Credentials, end_tasks


async def test_tasks_are_waited_for_whatever_they_end_with() -> None:
    ended = []

    async def works(name: str, error: Exception | None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it tidies up
            ended.append(name)
            if error is not None:
                raise error

    tasks = [asyncio.create_task(works(name, error)) for name, error in (("a", None), ("b", ValueError()))]
    await asyncio.sleep(0)
    await end_tasks(task for task in tasks)
    assert (ended, [task.done() for task in tasks]) == (["a", "b"], [True, True])
    await end_tasks([])


async def test_a_client_is_closed_whatever_is_done_with_it() -> None:
    with pytest.raises(ValueError, match="odd"):
        async with ApiClient(Credentials(Configuration(host="http://localhost")), "test") as api:
            raise ValueError("odd")
    assert api._session.closed
