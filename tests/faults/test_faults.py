"""Each fault once, while a burst of pods comes, and the invariants after it. ``make faults`` plays them many times."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.conftest import running_control_plane
from tests.e2e.conftest import USERS, install
from tests.faults.plane import FaultyPlane
from tests.faults.stage import Stage, opened
from tests.faults.table import FAULTS, Fault

pytestmark = [pytest.mark.apiserver, pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SEED = int(os.environ.get("FAULTS_SEED", "1"))


@pytest.fixture(scope="module")
def plane() -> Iterator[FaultyPlane]:
    """A control plane of this suite's own: it is killed, and goes back in time."""
    made = FaultyPlane(service_accounts=True, users=USERS)
    for plane in running_control_plane(made):
        install(plane)
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(plane: FaultyPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with opened(plane, tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.group}: {fault.name}")
async def test_after_a_fault_the_invariants_hold(stage: Stage, fault: Fault) -> None:
    await fault.play(stage, SEED)
