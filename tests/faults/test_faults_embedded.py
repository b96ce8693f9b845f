"""The faults that the embedded API server can play, each once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.conftest import running
from tests.faults.plane import EmbeddedPlane, Plane
from tests.faults.stage import Stage, opened
from tests.faults.table import FAULTS, Fault
from tests.faults.test_faults import SEED, named

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def embedded_plane() -> Iterator[Plane]:
    yield from running(EmbeddedPlane())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded_stage(embedded_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with opened(embedded_plane, tmp_path_factory.mktemp("embedded")) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.embedded], ids=named)
async def test_the_invariants_hold_on_the_embedded_api_server(embedded_stage: Stage, fault: Fault) -> None:
    await fault.play(embedded_stage, SEED)
