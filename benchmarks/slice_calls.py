"""How many steps a slice takes: the calls of this project's functions, and its files, from the watch event to the end.

An API server of a few lines answers at once, and the node side does its part right after the Binding, so that the count
is the same on every machine. ``python -m benchmarks.slice_calls`` prints it, with the functions that are called most.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

from tests.engine.builders import asks, cards, make_engine, node_object, pod_object

import vgpu_scheduler
from vgpu_scheduler.apiclient import ApiClient, ApiResponse
from vgpu_scheduler.binding import BindContext, Binder, BinderHooks, BinderOptions, EventSource, Reporter
from vgpu_scheduler.intake import NODES, PODS, Kind, Observer
from vgpu_scheduler.kube import decode_event

_OURS: Final = str(Path(vgpu_scheduler.__file__).parent)
_LOCK: Final = "hami.io/mutex.lock"
_KINDS: Final[dict[str, Kind[Any]]] = {kind.name: kind for kind in (NODES, PODS)}
_WARM, _COUNTED, _NODES = 20, 100, 50
_MOST_CALLED: Final = 40

Object = dict[str, Any]


class FakeApi:
    """Answers what a bind asks for, and keeps the objects."""

    def __init__(self) -> None:
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.version = 1000

    def _raise(self, found: Object) -> bytes:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        return json.dumps(found, separators=(",", ":")).encode()

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> ApiResponse:
        """Carry a request out; those that are about events say nothing."""
        await asyncio.sleep(0)
        name = path.rsplit("/", maxsplit=1)[-1]
        if "/nodes/" in path and method == "PATCH":
            found = self.nodes[name]
            for operation in body:
                key = operation["path"].split("/")[-1].replace("~1", "/")
                if operation["op"] == "add":
                    found["metadata"].setdefault("annotations", {})[key] = operation["value"]
                elif operation["op"] == "remove":
                    del found["metadata"]["annotations"][key]
            return ApiResponse(200, self._raise(found))
        if path.endswith("/binding"):
            found = self.pods[body["metadata"]["name"]]
            found["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
            found["spec"]["nodeName"] = body["target"]["name"]
            self._raise(found)
            return ApiResponse(201, b'{"kind":"Status","status":"Success"}')
        return ApiResponse(201, b"{}")

    def event(self, found: Object) -> bytes:
        """Return a line of a watch about an object as it is now."""
        return b'{"type":"MODIFIED","object":' + self._raise(found) + b"}"


class Clock:
    """Time passes only from slice to slice."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def monotonic(self) -> float:
        """Return seconds."""
        return self.seconds

    def now(self) -> datetime:
        """Return the time of day."""
        return datetime.fromtimestamp(1_700_000_000 + self.seconds, UTC)


class Bench:
    """An engine and a binder over a fake API server."""

    def __init__(self) -> None:
        self.api = FakeApi()
        api, clock = cast("ApiClient", self.api), Clock()
        self.clock = clock
        self.engine = make_engine()
        self.reporter = Reporter(api, EventSource("vgpu-scheduler", "bench"), clock)
        context = BindContext(
            api, self.engine, self.reporter, clock, lambda _: True,
            lambda kind, answer: self.observer.observe_answer(_KINDS[kind], answer),
        )  # fmt: skip
        self.bound = asyncio.Event()
        self.binder = Binder(context, BinderOptions(), BinderHooks(on_attempt=lambda _: self.bound.set()))
        self.observer = Observer(
            self.engine, clock.monotonic, self.binder.node_moved, self.binder.wake.set, self.reporter.problem
        )
        for number in range(_NODES):
            found = node_object(f"n{number}", cards(f"n{number}", 8))
            self.api.nodes[f"n{number}"] = found
            self.see(NODES, found)

    def see(self, kind: Kind[Any], found: Object) -> None:
        """Take in an object as a watch shows it."""
        event = decode_event(self.api.event(found), kind.decode)
        assert event.object is not None
        self.observer.observe(kind, event.object)

    async def slice(self, name: str, resources: Object) -> None:
        """Have a pod come, bound, served and started."""
        self.clock.seconds += 1.0
        found = pod_object(name, resources)
        self.api.pods[name] = found
        self.see(PODS, found)
        decisions = self.engine.attempt_unit(self.clock.monotonic(), most_looks=32)
        assert decisions[0].placement is not None, decisions[0].message
        self.binder.submit(*decisions)
        await self.bound.wait()
        self.bound.clear()
        self.see(PODS, found)
        node = self.api.nodes[decisions[0].placement.node]
        if _LOCK in node["metadata"].get("annotations", {}):
            annotations = found["metadata"]["annotations"]
            annotations["hami.io/bind-phase"] = "success"
            self.see(PODS, found)
            del node["metadata"]["annotations"][_LOCK]
            self.see(NODES, node)
        await asyncio.gather(*self.binder._tasks)


@contextmanager
def counted(found: Counter[tuple[str, str]]) -> Iterator[None]:
    """Count the calls of this project's functions, by file and name."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_OURS):
            found[code.co_filename[len(_OURS) + 1 :], code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


async def count(resources: Object) -> Counter[tuple[str, str]]:
    """Return the calls of many pods, after some that do not count."""
    bench, found = Bench(), Counter[tuple[str, str]]()
    for number in range(_WARM):
        await bench.slice(f"warm-{number}", resources)
    with counted(found):
        for number in range(_COUNTED):
            await bench.slice(f"pod-{number}", resources)
    await bench.binder.stop(0.0)
    return found


def main() -> None:
    """Count, and print."""
    for what, resources in (("slice", asks(1, 1000)), ("plain pod", asks(0, cpu="1m"))):
        found = asyncio.run(count(resources))
        files, functions = {file for file, _ in found}, len(found)
        print(f"{what}: {found.total() / _COUNTED:.0f} calls of {functions} functions in {len(files)} files")
        if "-v" in sys.argv:
            for (file, name), number in found.most_common(_MOST_CALLED):
                print(f"{number / _COUNTED:7.1f}  {file}:{name}")


if __name__ == "__main__":
    main()
