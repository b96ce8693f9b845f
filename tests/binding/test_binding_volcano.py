"""Pods of Volcano's names on an embedded API server, with a double of its device plugin that knows no mercy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.binding.bench import PODS, Bench, bench
from tests.engine.dialect_worlds import MEMORY, NUMBER, engine_of

from vgpu_devcluster import BEHAVIOUR, VolcanoPlugin
from vgpu_scheduler.runtime.assembly import make_dialects
from vgpu_scheduler.settings import Settings

Obj = dict[str, Any]


@asynccontextmanager
async def served(
    folder: Path, version: str = "v1.12", *, memory: int = 24576, groups: Obj | None = None, **more: Any
) -> AsyncIterator[tuple[Bench, VolcanoPlugin]]:
    """A binder, and a node ``v`` with two cards of this memory and a version of Volcano's plugin."""
    settings = Settings(dialects=("volcano",), volcano={"plugin_version": version}, **more)
    async with (
        bench(folder, engine=engine_of(*make_dialects(settings))) as b,
        VolcanoPlugin(b.cluster.url, version=version, delay=0.0) as plugin,
    ):
        await plugin.register("v", memory=memory, groups=groups or {})
        await b.learn()
        b.watch()
        yield b, plugin


async def decided(b: Bench, name: str, *limits: Obj, **annotations: str) -> str:
    """Have a pod decided that has a container for each of some limits, and bound; return its message or its phase."""
    containers = [
        {"name": f"c{number}", "image": "example", "resources": {"limits": {n: str(a) for n, a in each.items()}}}
        for number, each in enumerate(limits)
    ]
    pod = await b.create(name, containers=containers, annotations=annotations)
    await b.until(lambda: b.engine.state.pod(pod.uid))
    [decision] = b.engine.schedule_next(b.clock.monotonic())
    if decision.placement is None:
        return decision.message
    b.binder.submit(decision)
    await b.until(lambda: phase_of(b, name) not in {"", "Pending"}, within=60.0)
    return phase_of(b, name)


def phase_of(b: Bench, name: str) -> str:
    pod = b.engine.state.find("default", name)
    return "" if pod is None else "Failed" if pod.terminal else "Running" if pod.started else "Pending"


async def test_cards_in_one_container_are_served(tmp_path: Path) -> None:
    async with served(tmp_path) as (b, plugin):
        assert await decided(b, "one", {NUMBER: 1, MEMORY: 1000}, {}) == "Running"
        assert await decided(b, "two", {}, {NUMBER: 2, MEMORY: 1000}) == "Running"
        assert plugin.violations == []


async def test_instances_of_mig_cards_are_handed_out_once(tmp_path: Path) -> None:
    kinds = {"group1": ("1g.6gb", 6144, 4), "group2": ("2g.12gb", 12288, 2)}
    allowed = [
        {"group": group, "geometries": [{"name": name, "memory": memory, "count": count}]}
        for group, (name, memory, count) in kinds.items()
    ]
    section = {"knownMigGeometries": [{"models": ["A30"], "allowedGeometries": allowed}]}
    groups = {group: (memory,) * count for group, (_, memory, count) in kinds.items()}
    async with served(tmp_path, groups=groups, volcano_devices={"nvidia": section}) as (b, plugin):
        for number, asked in enumerate((5000, 12000, 5000, 12000, 5000, 5000)):
            assert await decided(b, f"p{number}", {NUMBER: 1, MEMORY: asked}) == "Running", number
        assert "1 Card" in await decided(b, "more", {NUMBER: 1, MEMORY: 100})
        assert plugin.violations == []
        assert sorted(plugin.handed_out("v")) == sorted(
            [f"GPU-v-0[group1-{position}]" for position in range(4)]
            + [f"GPU-v-1[group2-{position}]" for position in range(2)]
        )
        assert not b.engine.state.drift()


async def test_half_of_a_card_is_half_on_a_node_that_counts_in_blocks(tmp_path: Path) -> None:
    section = {"resourceMemoryPercentageName": "volcano.sh/vgpu-memory-percentage", "gpuMemoryFactor": 10}
    async with served(tmp_path, memory=2457, volcano_devices={"nvidia": section}) as (b, plugin):
        half = {NUMBER: 1, "volcano.sh/vgpu-memory-percentage": 50}
        assert [await decided(b, f"half-{number}", half) for number in range(4)] == ["Running"] * 4
        assert "CardInsufficientMemory" in await decided(b, "one-too-many", half)
        assert plugin.violations == []
        assert {card: amounts[:2] for card, amounts in plugin.handed_out("v").items()} == {
            "GPU-v-0": (2, 2 * 1228),
            "GPU-v-1": (2, 2 * 1228),
        }


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (
            ({NUMBER: 1, MEMORY: 1000}, {NUMBER: 1, MEMORY: 1000}),
            f'containers "c0" and "c1": {NUMBER} in several containers',
        ),
        (({}, {MEMORY: 1000}), f'container "c1": {MEMORY} without a limit of {NUMBER}'),
    ],
    ids=["cards in several containers", "memory without a number"],
)
async def test_what_the_plugin_would_not_serve_is_refused_by_name(
    tmp_path: Path, limits: tuple[Obj, ...], reason: str
) -> None:
    async with served(tmp_path) as (b, plugin):
        told = await decided(b, "odd", *limits)
        assert plugin.violations == []
        assert reason in told


async def test_a_node_takes_nobody_whose_turn_a_pod_has_lost(tmp_path: Path) -> None:
    async with served(tmp_path) as (b, plugin):
        assert await decided(b, "rejected", {NUMBER: 1, MEMORY: 1000}, **{BEHAVIOUR: "reject"}) == "Failed"
        told = await decided(b, "next", {NUMBER: 1, MEMORY: 2000})
        assert plugin.violations == []
        assert "1 node(s) had a pod that never took its devices" in told
        assert await decided(b, "two", {NUMBER: 2, MEMORY: 2000}) == "Running"

        await b.until(lambda: b.tells("DevicesNotTaken"))
        [note] = [note for reason, note in await b.events() if reason == "DevicesNotTaken"]
        assert "pod default/rejected" in note
        assert "delete it" in note

        assert (await b.call("DELETE", f"{PODS}/rejected", {"gracePeriodSeconds": 0})).ok
        await b.until(b.submit)
        await b.until(lambda: phase_of(b, "next") == "Running", within=60.0)
        assert plugin.violations == []


async def test_where_the_plugin_looks_at_no_numbers_several_containers_are_served(tmp_path: Path) -> None:
    async with served(tmp_path, "v1.11") as (b, plugin):
        assert await decided(b, "several", {NUMBER: 1, MEMORY: 1000}, {}, {NUMBER: 2, MEMORY: 1000}) == "Running"
        assert await decided(b, "rejected", {NUMBER: 1, MEMORY: 1000}, **{BEHAVIOUR: "reject"}) == "Failed"
        assert "1 node(s) had a pod that never took its devices" in await decided(b, "two", {NUMBER: 2, MEMORY: 2000})
        assert plugin.violations == []
