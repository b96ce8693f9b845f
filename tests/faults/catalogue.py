"""The list of faults: each a story with a name, how it is injected, and what is checked besides the invariants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.faults.invariants import check, explain
from tests.faults.pods import NODES
from tests.faults.stage import Cast, Stage

from vgpu_devcluster import Vendor

Story = Callable[[Stage, Random], Awaitable[None]]

ALONE = Cast()


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    group, name
        What it is called.
    how
        How it is injected.
    checked
        What is checked besides the invariants.
    cast, nodes
        Which operators play, on which nodes.
    volumes, admission, preemption
        Whether Kubernetes' volume controllers, admission policies, or rights to evict are needed: only the real API
        server has them.
    """

    group: str
    name: str
    how: str
    story: Story
    checked: str = ""
    cast: Cast = ALONE
    nodes: Mapping[str, tuple[Vendor, ...]] = field(default_factory=lambda: NODES)
    volumes: bool = False
    admission: bool = False
    preemption: bool = False

    @property
    def embedded(self) -> bool:
        """Whether it can be played on the embedded API server."""
        return not (self.volumes or self.admission or self.preemption)

    async def play(self, stage: Stage, seed: int) -> dict[str, int]:
        """Play the story and check; return what was injected, and how often.

        Raises
        ------
        AssertionError
            If something does not hold, or nothing was injected.
        """
        if self.volumes:
            await stage.controllers()
        if self.preemption:
            await stage.rights_to_evict()
        async with stage.story(self.cast, self.nodes):
            try:
                await self.story(stage, Random(seed))
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"{error or 'it took too long'}\n{await explain(stage)}") from error
            await check(stage)
            injected = stage.injected
            assert injected, "nothing was injected"
            return injected


def lister(faults: list[Fault], group: str) -> Callable[..., Callable[[Story], Story]]:
    """Return a decorator that puts a story on a list; see :class:`Fault`."""

    def fault(name: str, how: str, checked: str = "", **more: Any) -> Callable[[Story], Story]:
        def listed(story: Story) -> Story:
            faults.append(Fault(group, name, how, story, checked, **more))
            return story

        return listed

    return fault
