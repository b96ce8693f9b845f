"""When a collection is listed again, when a watch resumes, and how long is waited before either."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiResponse, ApiUnreachableError, Reflector

LOOK_AGAIN = 77.0
FIRST, SECOND = 0.2, 0.4
"""Seconds of the first pauses of the back-off."""


def event(version: int) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": {"metadata": {"resourceVersion": str(version)}}}).encode()


def ended_with(code: int) -> bytes:
    return b'{"type":"ERROR","object":{"kind":"Status","code":%d,"message":"told"}}' % code


class Script:
    """Stands for an API server and for the objects: plays what watches show, and notes what is asked for.

    Parameters
    ----------
    watches
        What each watch shows, or the error with which it is refused. After the last the test ends.
    listed
        The versions of the lists, in order; 100 after the last.
    gives_up
        Whether refused watches are given up until the next list.
    """

    def __init__(
        self, watches: Sequence[Sequence[bytes | Exception] | Exception], listed: Sequence[str], *, gives_up: bool
    ) -> None:
        self._watches = list(watches)
        self._listed = list(listed)
        self._gives_up = gives_up
        self.asked: list[str | float] = []

    async def list_all(self) -> str:
        self.asked.append("list")
        return self._listed.pop(0) if self._listed else "100"

    def opened(self) -> bool:
        return True

    def take(self, line: bytes) -> str:
        return str(json.loads(line)["object"]["metadata"]["resourceVersion"])

    def failed(self, error: Exception) -> bool:
        return self._gives_up and isinstance(error, ApiError)

    @asynccontextmanager
    async def stream(self, path: str, params: dict[str, str], idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        if not self._watches:
            raise asyncio.CancelledError
        self.asked.append(f"watch {params['resourceVersion']}")
        shown = self._watches.pop(0)
        if isinstance(shown, Exception):
            raise shown

        async def lines() -> AsyncIterator[bytes]:
            for line in shown:
                if isinstance(line, Exception):
                    raise line
                yield line

        yield lines()


def refused(code: int) -> ApiError:
    return ApiError(ApiResponse(code, b'{"message": "no"}'))


@pytest.mark.parametrize(
    ("watches", "asked"),
    [
        ([[event(5)], [event(6)]], ["watch 1", FIRST, "watch 5", FIRST]),
        ([[], [], [event(5)]], ["watch 1", FIRST, "watch 1", SECOND, "watch 1", FIRST]),
        ([[event(5), ApiUnreachableError("lost")]], ["watch 1", FIRST]),
        ([[event(5), ended_with(410)]] * 3, ["watch 1", *[FIRST, "list", "watch 100"] * 2, FIRST, "list"]),
        ([[event(5), ended_with(500)]], ["watch 1", FIRST, "list"]),
        ([[event(5), ended_with(429)]], ["watch 1", FIRST]),
        ([refused(410), refused(404)], ["watch 1", FIRST, "list", "watch 100", SECOND, "list"]),
        ([refused(403), refused(500)], ["watch 1", FIRST, "watch 1", SECOND]),
        ([ValueError("any")], ["watch 1", FIRST, "list"]),
        ([[b"{}"]], ["watch 1", FIRST, "list"]),
    ],
)
async def test_it_goes_on_where_it_was_or_lists_again(
    watches: Sequence[Any], asked: Sequence[str | float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await played(Script(watches, (), gives_up=False), "1", monkeypatch) == asked


async def test_a_watch_that_is_given_up_is_tried_after_a_later_list(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script([refused(403), refused(403)], (), gives_up=True)
    again = [LOOK_AGAIN, "list"]
    assert await played(script, "1", monkeypatch) == ["watch 1", FIRST, *again, "watch 100", SECOND, *again]


@pytest.mark.parametrize(
    ("version", "asked"),
    [(None, ["list", LOOK_AGAIN, "list", "watch 9", FIRST]), ("", [LOOK_AGAIN, "list", LOOK_AGAIN, "list", "watch 9"])],
)
async def test_what_is_not_there_is_looked_for_later(
    version: str | None, asked: Sequence[str | float], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script([[event(10)]], ("", "9"), gives_up=False)
    assert (await played(script, version, monkeypatch))[: len(asked)] == asked


async def played(script: Script, version: str | None, monkeypatch: pytest.MonkeyPatch) -> list[str | float]:
    """Return what is asked for, and how long is waited, until no watch is left to be shown."""

    async def sleep(seconds: float) -> None:
        script.asked.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await Reflector(cast("ApiClient", script), "/things", script, look_again=LOOK_AGAIN, version=version).run()
    return script.asked
