"""Fixtures that any test may use: the real API server, started once per session."""

from __future__ import annotations

import gc
import logging
import os
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

import pytest
from hypothesis import settings
from tests.apiserver.binaries import AssetsUnavailableError
from tests.apiserver.control_plane import ControlPlane
from tests.bytecode import keep_bytecode

if TYPE_CHECKING:
    from collections.abc import Iterator

_OFTEN = 1
"""How many seeds of each test of random inputs are played every time; the others belong to the long tests."""
_FIXTURES = frozenset(("control_plane", "empty_control_plane", "sa_control_plane", "installed_plane"))


def pytest_configure() -> None:
    """Have workers and operators start fast, and no test fail because the machine is slow or by chance."""
    keep_bytecode()
    settings.register_profile("patient", deadline=None, derandomize=True)
    settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let whoever is in a hurry try fewer random inputs."""
    parser.addoption(
        "--seeds", type=int, metavar="N", help="run the tests of random inputs with the first N seeds alone"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need the real API server, and those of further seeds, so that ``-m`` may leave them out."""
    for item in items:
        if _seed_of(item) >= _OFTEN:
            item.add_marker(pytest.mark.long)
        if _FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.apiserver)
    seeds = config.getoption("--seeds")
    if seeds is not None:
        beyond = [item for item in items if _seed_of(item) >= seeds]
        config.hook.pytest_deselected(items=beyond)
        items[:] = [item for item in items if _seed_of(item) < seeds]


def _seed_of(item: pytest.Item) -> int:
    """Return the seed of a test of random inputs; -1 for other tests."""
    seed = item.callspec.params.get("seed") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    return seed if isinstance(seed, int) else -1


def pytest_collection_finish() -> None:
    """Let no collection of garbage look at the vectors again: they make more than a million objects, which stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _logging_put_back() -> Iterator[None]:
    """Put back what a command that runs in the test's own process does to the logs: other tests read them."""
    root, loggers = logging.getLogger(), [logging.getLogger(name) for name in ("", "vgpu_scheduler", "kopf", "numba")]
    levels, handlers = [logger.level for logger in loggers], list(root.handlers)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A bare control plane: without the ServiceAccount admission plugin, pods are what their creator says."""
    yield from running(ControlPlane(users={"scheduler": [], "tenant": []}))


@pytest.fixture(scope="session")
def sa_control_plane() -> Iterator[ControlPlane]:
    """A control plane with the ServiceAccount admission plugin: pods get a service account and a token volume."""
    yield from running(ControlPlane(service_accounts=True, users={"scheduler": [], "tenant": []}))


@pytest.fixture
def empty_control_plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The bare control plane without any node or pod, before and after the test."""
    control_plane.clear()
    yield control_plane
    control_plane.clear()


class Startable(Protocol):
    """What is started and stopped."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


Plane = TypeVar("Plane", bound=Startable)


def running(plane: Plane) -> Iterator[Plane]:
    """Run a control plane for the time of a fixture; where it cannot be built, skip or fail."""
    try:
        plane.start()
    except AssetsUnavailableError as error:
        unavailable(str(error))
    try:
        yield plane
    finally:
        plane.stop()


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail where everything has to run."""
    if os.environ.get("REQUIRE_APISERVER") == "1":
        pytest.fail(f"REQUIRE_APISERVER=1, but {reason}", pytrace=False)
    pytest.skip(reason)
