"""Now: what the doctor has found, and what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ui.browsers import served, view_of
from tests.ui.clusters import Lived, lived
from tests.ui.test_ui_policies import BROKEN, SMALL
from tests.whatif.test_whatif_remedies import node, running

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.doctor import Seen, examine
from vgpu_scheduler.reading import facts_of_view, read_facts
from vgpu_scheduler.ui import Window

Object = dict[str, Any]
NOW = "/?format=json"


def looking(looks: list[Object], *objects: Object) -> Callable[[Window], Window]:
    """Have the doctor look at objects, and note each look."""

    async def look() -> Seen:
        looks.append({})
        return await asyncio.to_thread(facts_of_view, view_of(objects), "vgpu-system")

    return lambda window: replace(window, look=look)


async def shown(browser: Any) -> Object:
    """Wait until the page has what the doctor found, and return it."""
    async with asyncio.timeout(10.0):
        while (found := (await browser.get(NOW)).body["doctor"]) is None:
            await asyncio.sleep(0)
    return dict(found)


async def test_what_the_doctor_found_is_shown_with_what_to_do() -> None:
    objects = [node("a"), SMALL, BROKEN]
    looks: list[Object] = []
    async with served(objects, change=looking(looks, *objects)) as browser:
        assert "It is looking at the cluster" in (await browser.get("/")).text
        found = await shown(browser)
        report = examine(facts_of_view(view_of(objects), "vgpu-system"))
        assert found["findings"] == [finding.as_json() for finding in report.findings]
        assert found["findings"][0]["id"] == "policy-not-ready"
        text = (await browser.get("/")).text
        assert "ClusterVGPUPolicy broken: " in text
        assert "Correct the field that the message names." in text
        assert "doctor.md#policy-not-ready" in text
        assert "checks were not made" in text
        assert "objects of kind Lease, of which a file has none" in text
        assert len(looks) == 1


async def test_it_looks_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Object] = []
    async with served([node("a")], change=looking(looks, node("a"))) as browser:
        first = await shown(browser)
        for _ in range(3):
            assert await shown(browser) == first
        assert len(looks) == 1
        monkeypatch.setattr("vgpu_scheduler.ui.checkup._EVERY", 0.0)
    async with served([node("a")], change=looking(looks, node("a"))) as browser:
        async with asyncio.timeout(10.0):
            while len(looks) < 3:
                await browser.get("/cards")
                await browser.get("/")


@pytest.mark.parametrize("error", [ApiUnreachableError("the API server is away"), ValueError("odd")])
async def test_why_it_could_not_look_is_said(error: Exception) -> None:
    async def look() -> Seen:
        raise error

    async with served([node("a")], change=lambda window: replace(window, look=look)) as browser:
        assert str(error) in (await shown(browser))["trouble"]
        assert (
            f"It could not look: {'ValueError: ' * isinstance(error, ValueError)}{error}"
            in (await browser.get("/")).text
        )


@pytest.mark.parametrize("refused", [False, True])
async def test_on_a_live_cluster_it_finds_what_the_doctor_finds(tmp_path: Path, *, refused: bool) -> None:
    async def refuse(cluster: Lived) -> None:
        for resource in ("leases", "resourcequotas") if refused else ():
            cluster.devcluster.inject(Fault(resource=resource, status=403))
        cluster.devcluster.inject(Fault(resource="selfsubjectaccessreviews", status=403))

    async with lived(tmp_path, node("a"), running("x", "b", "GPU-b-0", 3000), prepare=refuse) as cluster:
        found = await shown(cluster.browser)
        report = examine(await read_facts(cluster.api, cluster.options))
        assert found["findings"] == [finding.as_json() for finding in report.findings]
        assert found["findings"] != []
        assert [each["check"] for each in found["skipped"]] == [skipped.check for skipped in report.skipped]
        reasons = " ".join(each["reason"] for each in found["skipped"])
        for right in ("list leases.coordination.k8s.io", "list resourcequotas"):
            assert (right in reasons) is refused
