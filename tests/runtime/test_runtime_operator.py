"""The operator as a process: its start, its end, and what it makes up for when its watches were broken."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.engine.builders import pod_object
from tests.groups.definitions import DEFINED_KINDS, DEFINITIONS, definition
from tests.kube.storage_objects import claim_volume
from tests.runtime.collector import collecting

from vgpu_devcluster import BEHAVIOUR, DevCluster, Fault, NodeSide
from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError
from vgpu_scheduler.runtime import operator as operator_module
from vgpu_scheduler.runtime.assembly import Connection
from vgpu_scheduler.runtime.operator import server_version

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/vgpu-system/leases/vgpu-scheduler"


class Stage:
    """A devcluster with a node side and an operator process."""

    def __init__(self, cluster: DevCluster, nodes: NodeSide, http: aiohttp.ClientSession, folder: Path) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.http = http
        self.kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
        self.operator = OperatorProcess(self.kubeconfig, folder / "operator.log")

    async def create(self, name: str, **more: Any) -> None:
        body = pod_object(name, **more)
        del body["metadata"]["uid"], body["metadata"]["resourceVersion"]
        body["spec"]["containers"][0]["image"] = "example"
        async with self.http.post(PODS, json=body) as answer:
            assert answer.status == 201, await answer.text()

    async def bound(self, name: str) -> bool:
        async with self.http.get(f"{PODS}/{name}") as answer:
            return "nodeName" in (await answer.json())["spec"]

    async def books(self) -> Any:
        return (await self.operator.ledger())["ledger"]


async def until(condition: Callable[[], Any], within: float = 30.0) -> None:
    """Wait for a condition, a coroutine function."""
    async with asyncio.timeout(within):
        while not await condition():
            await asyncio.sleep(0.02)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage with two nodes; the operator is not started."""
    with DevCluster.thread() as cluster:
        async with NodeSide(cluster.url) as nodes, aiohttp.ClientSession(cluster.url) as http:
            async with http.post("/api/v1/namespaces", json={"metadata": {"name": "vgpu-system"}}) as answer:
                assert answer.status == 201
            await nodes.register(["node-a", "node-b"], ("T4", "T4"))
            await nodes.start()
            made = Stage(cluster, nodes, http, tmp_path)
            try:
                yield made
            finally:
                made.operator.stop()


async def test_broken_watches_lose_nothing(stage: Stage) -> None:
    """While kopf cannot watch, one pod is deleted and another created; both are made up for."""
    stage.operator.start()
    await stage.operator.until_leading()
    for name in ("goes", "stays"):
        await stage.create(name)
    await stage.nodes.until(lambda: stage.nodes.counts["running"] == 2)
    await until(lambda: _slots(stage, 2))

    fault = stage.cluster.inject(Fault(verb="watch", user_agent="kopf", status=410))
    other = stage.cluster.inject(Fault(verb="watch", user_agent="vgpu-scheduler", drop=True))
    stage.cluster.compact()
    stage.cluster.end_watches(expired=True)
    await until(lambda: _metric_above(stage, "vgpu_scheduler_kopf_restarts_total", 0))
    assert await _slots(stage, 2)  # the state is as it was
    await stage.nodes.delete("default", "goes")
    await stage.create("comes")
    stage.cluster.heal(fault)
    stage.cluster.heal(other)

    await until(lambda: stage.bound("comes"))
    await until(lambda: _slots(stage, 2))
    assert await stage.operator.metric("vgpu_scheduler_ledger_drift_nodes") == 0
    assert not stage.nodes.violations
    assert stage.operator.stop() == 0


async def test_a_deleted_pod_that_waits_for_its_turn_gives_its_cards_back(stage: Stage) -> None:
    stage.operator.start()
    await stage.operator.until_leading()
    on_a = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}, "annotations": {BEHAVIOUR: "held"}}
    await stage.create("held", **on_a)
    await until(lambda: stage.bound("held"))
    await stage.create("waits", **on_a)
    await until(lambda: _slots(stage, 2))
    await stage.nodes.delete("default", "waits")
    await until(lambda: _slots(stage, 1))
    assert await stage.bound("held")


async def test_what_was_bound_is_traced(stage: Stage, tmp_path: Path) -> None:
    async with collecting() as (collector, url):
        operator = OperatorProcess(stage.kubeconfig, tmp_path / "traced.log", {"VGPU_TRACING__ENDPOINT": url})
        operator.start()
        try:
            await operator.until_leading()
            await stage.create("traced")
            await until(lambda: stage.bound("traced"))
        finally:
            assert await asyncio.to_thread(operator.stop) == 0  # what was not sent yet is sent at the end
    (whole,) = (span for span in collector.spans["/v1/traces"] if not span["parent"])
    assert (whole["k8s.pod.name"], whole["vgpu_scheduler.answer"]) == ("traced", "bound")
    assert 0 < whole["seconds"] < 60


async def test_a_standby_makes_up_for_broken_watches_as_the_leader_does(stage: Stage, tmp_path: Path) -> None:
    """A node goes meanwhile, of which kopf never tells when it watches again."""
    standby = OperatorProcess(stage.kubeconfig, tmp_path / "standby.log")
    stage.operator.start()
    await stage.operator.until_leading()
    try:
        standby.start()
        await stage.create("on-it", nodeSelector={"kubernetes.io/hostname": "node-b"})
        await stage.nodes.until(lambda: stage.nodes.counts["running"] == 1)

        async def holds(number: int) -> bool:
            ready, _ = await standby.get("/readyz")
            used = (await standby.ledger())["ledger"] if ready == 200 else None
            return used is not None and sum(len(cards) for cards in used.values()) == number

        await until(lambda: holds(1), within=60.0)
        faults = [
            stage.cluster.inject(Fault(verb="watch", user_agent="kopf", status=410)),
            stage.cluster.inject(Fault(verb="watch", user_agent="vgpu-scheduler", drop=True)),
        ]
        stage.cluster.compact()
        stage.cluster.end_watches(expired=True)
        await stage.nodes.remove("node-b")
        for fault in faults:
            stage.cluster.heal(fault)
        await until(lambda: holds(0))
        assert await standby.metric("vgpu_scheduler_leader") == 0
    finally:
        standby.stop()


async def _slots(stage: Stage, number: int) -> bool:
    used = [amounts[0] for cards in (await stage.books()).values() for amounts in cards.values()]
    return sum(used) == number


async def _metric_above(stage: Stage, name: str, least: float) -> bool:
    return await stage.operator.metric(name) > least


async def test_what_is_held_is_metered_while_it_leads_and_not_by_a_standby(stage: Stage, tmp_path: Path) -> None:
    held = "vgpu_scheduler_allocated_gibibyte_seconds_total"
    standby = OperatorProcess(stage.kubeconfig, tmp_path / "standby.log")
    stage.operator.start()
    await stage.operator.until_leading()
    standby.start()
    try:

        async def is_ready() -> bool:
            return (await standby.get("/readyz"))[0] == 200

        await until(is_ready, within=60.0)
        await stage.create("holds")
        await until(lambda: stage.bound("holds"))
        await until(lambda: _metric_above(stage, held, 0.0))
        before = await stage.operator.metric(held, namespace="default")
        await until(lambda: _metric_above(stage, held, before))
        assert await stage.operator.metric("vgpu_scheduler_allocated_card_seconds_total", namespace="default") > 0.0
        assert await standby.metric(held) == 0.0
    finally:
        standby.stop()


async def test_a_storage_kind_that_may_not_be_read_stops_only_the_pods_that_need_it(stage: Stage) -> None:
    """Neither the lead nor pods without claims wait for it."""
    stage.cluster.inject(Fault(verb="list", resource="csistoragecapacities", status=403))
    await stage.create("wants", volumes=[claim_volume()])
    stage.operator.start()
    await stage.operator.until_leading()
    await stage.create("plain")
    await until(lambda: stage.bound("plain"))
    assert not await stage.bound("wants")


async def test_pod_groups_that_may_not_be_read_stop_only_the_pods_that_name_them(stage: Stage) -> None:
    async with stage.http.post(DEFINITIONS, json=definition(DEFINED_KINDS[0])) as answer:
        assert answer.status == 201, await answer.text()
    stage.cluster.inject(Fault(verb="list", resource="podgroups", status=403))
    await stage.create("member", labels={"scheduling.x-k8s.io/pod-group": "team"})
    stage.operator.start()
    await stage.operator.until_leading()
    await stage.create("plain")
    await until(lambda: stage.bound("plain"))
    says = "PodGroup.scheduling.x-k8s.io default/team, which says how many pods the group needs, cannot be read."

    async def is_told() -> bool:
        async with stage.http.get(f"{PODS}/member") as answer:
            conditions = (await answer.json())["status"].get("conditions", [])
        return any(condition.get("message") == says for condition in conditions)

    await until(is_told)
    assert not await stage.bound("member")


async def test_it_gives_the_lease_up_when_it_ends(stage: Stage) -> None:
    stage.operator.start()
    await stage.operator.until_leading()
    assert (await stage.operator.get("/readyz"))[0] == 200
    assert (await stage.operator.get("/livez"))[0] == 200
    assert stage.operator.stop() == 0
    async with stage.http.get(LEASE) as answer:
        assert (await answer.json())["spec"].get("holderIdentity", "") == ""


async def test_it_ends_with_a_failure_when_the_lease_is_lost(stage: Stage) -> None:
    stage.operator.start()
    await stage.operator.until_leading()
    stage.cluster.inject(Fault(resource="leases", status=503))
    await until(lambda: _ended(stage.operator))
    assert stage.operator.exit_code == 1
    assert "the lease is lost" in stage.operator.log


@pytest.mark.long
async def test_the_lease_is_held_through_lists_that_take_longer_than_it_lasts(stage: Stage, tmp_path: Path) -> None:
    """Neither of two replicas ends, and the one that won goes on to lead."""
    stage.cluster.inject(Fault(verb="list", resource="pods", user_agent="vgpu-scheduler", delay=5.0))
    other = OperatorProcess(stage.kubeconfig, tmp_path / "other.log")
    try:
        stage.operator.start()
        other.start()
        await stage.create("p")
        await until(lambda: stage.bound("p"), within=60.0)
        assert (stage.operator.exit_code, other.exit_code) == (None, None)
        async with stage.http.get(LEASE) as answer:
            assert (await answer.json())["spec"]["leaseTransitions"] == 1
    finally:
        other.stop()


async def test_what_the_last_leader_bound_is_listed_once_the_lease_is_won(stage: Stage) -> None:
    found: list[str] = []

    def note(method: str, path: str, user_agent: str, code: int) -> None:
        if user_agent.startswith("vgpu-scheduler") and code < 300:
            if path.startswith(LEASE.rpartition("/")[0]) and method in {"POST", "PUT"} and "lease" not in found:
                found.append("lease")
            elif path.partition("?")[0] == "/api/v1/pods" and "watch" not in path:
                found.append("list")

    stage.cluster.requests.on_request = note
    stage.operator.start()
    await stage.create("p")
    await until(lambda: stage.bound("p"))
    assert found == ["list", "lease", "list", "list"], "of all pods; then of the unbound ones, and of the bound ones"


async def test_a_new_leader_that_cannot_list_says_so_and_schedules_once_it_can(stage: Stage, tmp_path: Path) -> None:
    standby = OperatorProcess(stage.kubeconfig, tmp_path / "standby.log")
    stage.operator.start()
    await stage.operator.until_leading()
    try:
        standby.start()
        await until(lambda: _answers(standby, "/readyz", 200), within=60.0)
        fault = stage.cluster.inject(Fault(verb="list", resource="nodes", status=403))
        assert stage.operator.stop() == 0
        await standby.until_leading()
        await stage.create("p")
        await until(lambda: _answers(standby, "/readyz", 503))
        _, text = await standby.get("/readyz")
        assert text.startswith("it leads, and decides nothing yet: /api/v1/nodes cannot be listed: 403: ")
        assert await standby.metric("vgpu_scheduler_unlisted_kinds", kind="node", code="403") == 1.0
        assert not await stage.bound("p")
        stage.cluster.heal(fault)
        await until(lambda: stage.bound("p"))
        assert (await standby.get("/readyz"))[0] == 200
        assert await standby.metric("vgpu_scheduler_unlisted_kinds") == 0.0
    finally:
        standby.stop()


@pytest.mark.long
async def test_a_new_leader_that_cannot_list_for_long_gives_the_lease_up(stage: Stage, tmp_path: Path) -> None:
    """It is started anew, and leaves the Lease alone until it has listed everything."""
    hasty = "from vgpu_scheduler.runtime import replica; replica.PATIENCE = 1.0; from vgpu_scheduler.cli import main; "
    command = [sys.executable, "-c", f"{hasty}main(['run'])"]
    standby = OperatorProcess(stage.kubeconfig, tmp_path / "standby.log", command=command)
    stage.operator.start()
    await stage.operator.until_leading()
    try:
        standby.start()
        await until(lambda: _answers(standby, "/readyz", 200), within=60.0)
        fault = stage.cluster.inject(Fault(verb="list", resource="resourcequotas", status=500))
        assert stage.operator.stop() == 0
        await until(lambda: _ended(standby))
        assert standby.exit_code == 1
        assert "UnlistedKindError: /api/v1/resourcequotas cannot be listed: 500" in standby.log
        async with stage.http.get(LEASE) as answer:
            lease = (await answer.json())["spec"]
        assert not lease["holderIdentity"]
        standby.start()
        await until(lambda: _answers(standby, "/readyz", 503))
        await until(lambda: _told(standby, "starting: /api/v1/resourcequotas cannot be listed: 500"))
        async with stage.http.get(LEASE) as answer:
            assert (await answer.json())["spec"] == lease
        stage.cluster.heal(fault)
        await standby.until_leading()
    finally:
        standby.stop()


async def _told(operator: OperatorProcess, why: str) -> bool:
    return why in (await operator.get("/readyz"))[1]


async def _ended(operator: OperatorProcess) -> bool:
    return operator.exit_code is not None


@pytest.mark.parametrize("server", ["refuses", "is silent"])
async def test_sigterm_ends_it_within_seconds_even_if_no_server_ever_answered(stage: Stage, server: str) -> None:
    if server == "refuses":
        text = stage.kubeconfig.read_text()
        stage.kubeconfig.write_text(text.replace(stage.cluster.url, "http://127.0.0.1:1"))
    else:
        stage.cluster.inject(Fault(user_agent="vgpu-scheduler", delay=600.0))
        stage.cluster.inject(Fault(user_agent="kopf", delay=600.0))
        stage.cluster.inject(Fault(user_agent="kubernetes", delay=600.0))
    stage.operator.start()
    await until(lambda: _answers(stage.operator, "/livez", 200))
    assert (await stage.operator.get("/readyz"))[0] == 503
    began = time.monotonic()
    assert await asyncio.to_thread(stage.operator.stop) == 0
    assert time.monotonic() - began < 15.0  # seconds on an idle machine


async def _answers(operator: OperatorProcess, path: str, status: int) -> bool:
    return (await operator.get(path))[0] == status


async def test_sigterm_ends_a_leader_whose_server_is_silent(stage: Stage) -> None:
    stage.operator.start()
    await stage.operator.until_leading()
    stage.cluster.inject(Fault(user_agent="vgpu-scheduler", delay=600.0))
    await stage.create("p")  # its lock is waited for
    began = time.monotonic()
    assert await asyncio.to_thread(stage.operator.stop) is not None
    assert time.monotonic() - began < 14.0


# Parts ---------------------------------------------------------------------------------------------------------------


class Versions:
    """Answers ``/version``, one answer after the other."""

    def __init__(self, *answers: ApiResponse | None) -> None:
        self._answers = list(answers)

    async def request(self, method: str, path: str) -> ApiResponse:
        assert (method, path) == ("GET", "/version")
        answer = self._answers.pop(0)
        if answer is None:
            raise ApiUnreachableError("nobody there")
        return answer


def version(major: str, minor: str, **more: str) -> ApiResponse:
    return ApiResponse(200, json.dumps({"major": major, "minor": minor, **more}).encode())


@pytest.mark.parametrize(
    ("answer", "label_first", "observes_generation"),
    [
        (version("1", "33"), True, False),
        (version("1", "34"), True, True),
        (version("1", "34+"), True, True),
        (version("1", "35"), False, True),
        (version("1", "36+"), False, True),
        (version("1", "36", emulationMajor="1", emulationMinor="33"), True, False),
        (version("2", "0"), False, True),
    ],
)
async def test_what_the_api_server_can_do_follows_from_its_version(
    answer: ApiResponse, *, label_first: bool, observes_generation: bool
) -> None:
    found = await server_version(Versions(answer))  # type: ignore[arg-type]
    connection = Connection(None, "me", found)  # type: ignore[arg-type]
    assert (connection.label_first, connection.observes_generation) == (label_first, observes_generation)


async def test_the_version_is_asked_for_until_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(operator_module.asyncio, "sleep", sleep)
    answers = Versions(None, ApiResponse(503, b"{}"), version("1", "34"))
    assert await server_version(answers) == (1, 34)  # type: ignore[arg-type]
    assert waits == [1.0, 1.0]
