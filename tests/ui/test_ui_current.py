"""The thread of the world: what has changed goes before what is asked."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest
from tests.ui.browsers import view_of
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

from vgpu_scheduler.reading import make_world
from vgpu_scheduler.ui import CurrentWorld

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def current() -> CurrentWorld:
    view = view_of([node("a")])
    return CurrentWorld(make_world(view), view)


async def test_changes_go_before_questions_that_wait(current: CurrentWorld) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def ask_long(*_: object) -> None:
        began.set()
        assert goes_on.wait(20)

    long = asyncio.create_task(current.ask(ask_long))
    await asyncio.to_thread(began.wait)
    questions = [asyncio.create_task(current.ask(lambda world, _: set(world.pods))) for _ in range(3)]
    await asyncio.sleep(0.01)
    change = asyncio.create_task(current.apply_changes([(pod("x", {GPU: 1, MEMORY: 1}), False)], NOW))
    await asyncio.sleep(0.01)
    goes_on.set()

    assert await asyncio.gather(*questions) == [{"default/x"}] * 3
    assert await change
    await long
    current.close()


async def test_what_nobody_waits_for_any_more_is_not_done(current: CurrentWorld) -> None:
    began, goes_on = threading.Event(), threading.Event()
    done: list[str] = []

    def ask_long(*_: object) -> None:
        began.set()
        assert goes_on.wait(20)

    long = asyncio.create_task(current.ask(ask_long))
    await asyncio.to_thread(began.wait)
    left = asyncio.create_task(current.ask(lambda *_: done.append("left")))
    await asyncio.sleep(0.01)
    left.cancel()
    await asyncio.wait({left})
    goes_on.set()
    await long
    await current.ask(lambda *_: done.append("asked"))

    assert done == ["asked"]
    waiting = asyncio.create_task(current.ask(lambda *_: threading.Event().wait(0.2)))
    last = asyncio.create_task(current.ask(lambda *_: done.append("too late")))
    await asyncio.sleep(0.05)
    current.close()
    with pytest.raises(asyncio.CancelledError):
        await last
    await waiting


async def test_an_error_of_a_question_reaches_who_asked(current: CurrentWorld) -> None:
    with pytest.raises(ZeroDivisionError):
        await current.ask(lambda *_: 1 // 0)
    assert await current.ask(lambda world, _: set(world.nodes)) == {"a"}
    current.close()
