"""Each fault once, while a burst of pods comes, and the invariants after it. ``make faults`` plays them many times."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from _pytest.mark import ParameterSet
from tests.conftest import running
from tests.faults.plane import Plane, RealPlane
from tests.faults.stage import Stage, opened
from tests.faults.table import FAULTS, Fault

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.asyncio(loop_scope="module")]

SEED = int(os.environ.get("FAULTS_SEED", "1"))
ALWAYS = {
    "nodes: drained",
    "operator: killed at step answered",
    "plugins: comes back with fewer cards",
    "pods: deleted by force",
    "preemption: eviction: 429, nothing evicted yet",
    "watches: dropped while pods are deleted",
    "writes: Binding: no answer",
    "writes: node patch: 500, but carried out",
}
"""Those that `make test` plays, too: one of each kind, of those that are soon over."""


def named(fault: Fault) -> str:
    """Return what a fault is called."""
    return f"{fault.group}: {fault.name}"


def with_marks() -> list[ParameterSet]:
    """Return all faults, most of them for `make test-long`."""
    assert {named(fault) for fault in FAULTS} >= ALWAYS
    marks = {True: (), False: (pytest.mark.long,)}
    return [pytest.param(fault, marks=marks[named(fault) in ALWAYS]) for fault in FAULTS]


@pytest.fixture(scope="module")
def real_plane() -> Iterator[Plane]:
    """A control plane of this suite's own: it is killed, and goes back in time."""
    yield from running(RealPlane())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(real_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with opened(real_plane, tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.apiserver
@pytest.mark.parametrize("fault", with_marks(), ids=named)
async def test_after_a_fault_the_invariants_hold(stage: Stage, fault: Fault) -> None:
    await fault.play(stage, SEED)
