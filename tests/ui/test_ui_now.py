"""Now: what the doctor has found, and what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ui.browsers import current_of, served, view_of
from tests.ui.clusters import MERGE, NODES, PODS, Lived, lived
from tests.ui.test_ui_live import waiting
from tests.ui.test_ui_policies import BROKEN, SMALL
from tests.whatif.test_whatif_remedies import node, running

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.doctor import DoctorInput, examine
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import ClusterView, doctor_input_of_view, read_doctor_input
from vgpu_scheduler.ui import PageSetup
from vgpu_scheduler.ui.recent import LastHour, RecentEvents
from vgpu_scheduler.whatif import World

Object = dict[str, Any]
NOW = "/?format=json"


def looking(looks: list[Object], *objects: Object) -> Callable[[PageSetup], PageSetup]:
    """Have the doctor look at objects, and note each look."""

    async def look() -> DoctorInput:
        looks.append({})
        return await asyncio.to_thread(doctor_input_of_view, view_of(objects), "vgpu-system")

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
        assert "It is reading the cluster" in (await browser.get("/")).text
        found = await shown(browser)
        report = examine(doctor_input_of_view(view_of(objects), "vgpu-system"))
        assert found["findings"] == [finding.as_json() for finding in report.findings]
        assert found["findings"][0]["id"] == "policy-not-ready"
        text = (await browser.get("/")).text
        assert "ClusterVGPUPolicy broken: " in text
        assert "Correct the field that the message names." in text
        assert "doctor.md#policy-not-ready" in text
        assert "checks were not made" in text
        assert "objects of kind Lease" in text
        assert len(looks) == 1


async def test_it_looks_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Object] = []
    async with served([node("a")], change=looking(looks, node("a"))) as browser:
        first = await shown(browser)
        for _ in range(3):
            assert await shown(browser) == first
        assert len(looks) == 1
        monkeypatch.setattr("vgpu_scheduler.ui.polling._EVERY", 0.0)
    async with served([node("a")], change=looking(looks, node("a"))) as browser:
        async with asyncio.timeout(10.0):
            while len(looks) < 3:
                await browser.get("/cards")
                await browser.get("/")


@pytest.mark.parametrize("error", [ApiUnreachableError("the API server is away"), ValueError("odd")])
async def test_why_it_could_not_look_is_said(error: Exception) -> None:
    async def look() -> DoctorInput:
        raise error

    async with served([node("a")], change=lambda window: replace(window, look=look)) as browser:
        assert str(error) in (await shown(browser))["trouble"]
        assert (
            f"It could not read the cluster: {'ValueError: ' * isinstance(error, ValueError)}{error}"
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
        report = examine(await read_doctor_input(cluster.api, cluster.options))
        assert found["findings"] == [finding.as_json() for finding in report.findings]
        assert found["findings"] != []
        assert [each["check"] for each in found["skipped"]] == [skipped.check for skipped in report.skipped]
        reasons = " ".join(each["reason"] for each in found["skipped"])
        for right in ("list leases.coordination.k8s.io", "list resourcequotas"):
            assert (right in reasons) is refused


def scheduled(obj: Object, at: str, **status: Any) -> Object:
    return {
        **obj,
        "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]} | status,
    }


def finished(at: str) -> list[Object]:
    return [{"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": at}}}]


def happened(shown: Object) -> list[tuple[str, str, str]]:
    return [(each["what"], each["name"], each["node"]) for each in shown["changed"]["happened"]]


async def test_times_are_those_of_a_history_out_of_one_look() -> None:
    west = scheduled(running("west", "n", "GPU-n-0", 2000), "2026-01-01T22:30:00-01:00")
    failed = scheduled(running("failed", "n", "GPU-n-1", 2000), "2026-01-01T22:00:00Z", phase="Failed")
    failed["status"]["initContainerStatuses"] = finished("2026-01-01T23:40:00Z")
    unsaid = running("unsaid", "n", "GPU-n-1", 2000)
    unsaid["status"] = {"phase": "Running", "startTime": "2026-01-01T23:20:00Z"}
    async with served([node("n"), west, failed, unsaid]) as browser:
        assert happened((await browser.get(NOW)).body) == [
            ("ended", "default/failed", "n"),
            ("bound", "default/west", "n"),
            ("bound", "default/unsaid", "n"),
        ]


async def test_what_objects_tell_of_the_last_hour_is_shown() -> None:
    young, old = node("young"), node("old")
    young["metadata"]["creationTimestamp"] = "2026-01-01T23:20:00Z"
    old["metadata"]["creationTimestamp"] = "2026-01-01T22:20:00Z"
    done = scheduled(running("done", "old", "GPU-old-1", 2000), "2026-01-01T22:00:00Z", phase="Succeeded")
    done["status"]["containerStatuses"] = finished("2026-01-01T23:59:00Z")
    odd = scheduled(running("odd", "old", "GPU-old-1", 2000), "2026-01-01T23:40:00+01:00")
    other = scheduled(running("other", "old", "GPU-old-1", 2000), "2026-01-01T23:45:00Z")
    other["metadata"]["annotations"] = {}
    other["spec"] |= {"schedulerName": "default-scheduler", "containers": [{"name": "main"}]}
    objects = [
        *(young, old, done, odd, other),
        scheduled(running("new", "old", "GPU-old-0", 2000), "2026-01-01T23:30:00Z"),
        scheduled(running("early", "old", "GPU-old-0", 2000), "2026-01-01T22:59:59Z"),
    ]
    async with served(objects) as browser:
        shown = (await browser.get(NOW)).body
        assert happened(shown) == [
            ("ended", "default/done", "old"),
            ("bound", "default/new", "old"),
            ("came", "young", ""),
        ]
        assert shown["changed"]["since"] is None
        text = (await browser.get("/")).text
        assert "1 pod bound, 1 ended; 1 node came, 0 went; 0 cards became unhealthy." in text
        assert "files do not contain their history" in text


@pytest.mark.parametrize("name", ["ours", "ours-too", "another"])
async def test_a_pod_without_cards_is_bound_here_where_it_names_any_of_our_schedulers(
    name: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scheduler_names: [ours, ours-too]\n")
    plain = scheduled(running("plain", "a", "GPU-a-1", 2000), "2026-01-01T23:45:00Z")
    plain["metadata"]["annotations"] = {}
    plain["spec"] |= {"schedulerName": name, "containers": [{"name": "main"}]}
    current = current_of([node("a"), plain], settings)
    recent = await current.ask(lambda world, view: RecentEvents(world, None).lately(view.read_at))
    assert recent.count("bound") == (name != "another")


async def test_times_are_read_as_objects_come_and_not_at_each_view(monkeypatch: pytest.MonkeyPatch) -> None:
    current = current_of([node("a"), scheduled(running("p", "a", "GPU-a-1", 2000), "2026-01-01T23:45:00Z")])

    def looked_at_twice(world: World, view: ClusterView) -> tuple[LastHour, LastHour]:
        recent = RecentEvents(world, None)
        first = recent.lately(view.read_at)
        for name in ("bound_at", "ended_at", "parse_time"):
            monkeypatch.setattr(f"vgpu_scheduler.ui.recent.{name}", None)
        return first, recent.lately(view.read_at)

    first, again = await current.ask(looked_at_twice)
    assert first == again
    assert first.count("bound") == 1


async def test_what_happens_while_the_page_is_served_is_remembered(tmp_path: Path) -> None:
    async with lived(tmp_path, node("a"), node("b", cards=1), waiting("y"), waiting("z")) as cluster:
        first = (await cluster.browser.get(NOW)).body
        assert first["changed"]["since"] is not None
        assert {what for what, *_ in happened(first)} <= {"came"}
        await cluster.bind("y", running("y", "a", "GPU-a-1", 4000))
        await cluster.until(lambda shown: ("bound", "default/y", "a") in happened(shown), NOW)
        await cluster.write("DELETE", f"{PODS}/y", {"gracePeriodSeconds": 0})
        await cluster.until(lambda shown: ("ended", "default/y", "a") in happened(shown), NOW)
        await cluster.write("DELETE", f"{PODS}/z", {"gracePeriodSeconds": 0})
        await cluster.create(node("c"))
        await cluster.until(lambda shown: ("came", "c", "") in happened(shown), NOW)
        await cluster.write("DELETE", f"{NODES}/b", {})
        await cluster.until(lambda shown: ("went", "b", "") in happened(shown), NOW)
        registered = node("a")["metadata"]["annotations"]["hami.io/node-nvidia-register"]
        sick = {"hami.io/node-nvidia-register": registered.replace("true", "false", 1)}
        await cluster.write("PATCH", f"{NODES}/a", {"metadata": {"annotations": sick}}, content_type=MERGE)
        await cluster.until(lambda shown: ("unhealthy", "GPU-a-0", "a") in happened(shown), NOW)
        shown = (await cluster.browser.get(NOW)).body
        assert sorted(happened(shown)) == sorted(set(happened(shown)))  # each once, whoever tells of it
        assert not [each for each in happened(shown) if "default/z" in each]  # it was never bound
        text = (await cluster.browser.get("/")).text
        assert "1 card became unhealthy" in text
        assert "are covered since" in text


async def test_the_engine_is_asked_about_pods_that_wait_by_waiting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def nearest(_: World, pod: Pod) -> str:
        asked.append(pod.key)
        return ""

    monkeypatch.setattr("vgpu_scheduler.ui.pages.waiting._nearest", nearest)
    async with served([node("a"), waiting("x")]) as browser:
        assert (await browser.get(NOW)).body["waiting"][0]["pods"] == 1
        assert asked == []
        await browser.get("/waiting")
        assert asked == ["default/x"]


async def test_a_page_that_many_ask_for_at_once_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def nearest(_: World, pod: Pod) -> str:
        asked.append(pod.key)
        return ""

    monkeypatch.setattr("vgpu_scheduler.ui.pages.waiting._nearest", nearest)
    monkeypatch.setattr("vgpu_scheduler.ui.server._KEPT_FOR", 1e9)
    async with served([node("a"), waiting("x")]) as browser:
        answers = await asyncio.gather(*(browser.get("/waiting") for _ in range(20)))
        assert len({answer.text for answer in answers}) == 1
        assert asked == ["default/x"]
