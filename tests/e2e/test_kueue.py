"""The real controller of Kueue on a real API server, as the recipe configures it: queues are its, cards are ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.apiserver.binaries import AssetsUnavailableError, kueue
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kueue_controller import KUEUE_ACCOUNT, running_kueue
from tests.conftest import running, unavailable
from tests.e2e.conftest import MANIFESTS, OLDER, USERS, Cluster, allocations, install, opened, slice_pod

Obj = dict[str, Any]
RECIPE = MANIFESTS / "examples" / "kueue"
GROUP = MANIFESTS / "examples" / "group-kueue.yaml"
TEAMS = ("team-a", "team-b")
GIB = 1024
"""In MiB."""
IN_GIB = {"Gi": 1, "": 1 / 1024**3}
pytestmark = pytest.mark.skipif(OLDER, reason="what Kueue does does not depend on the API server")


def queued(folder: Path, **changes: Obj) -> Iterator[ControlPlane]:
    """Run a control plane with Kueue, and with the files of the recipe."""
    try:
        kueue()
    except AssetsUnavailableError as error:
        unavailable(str(error))
    users = {**USERS, KUEUE_ACCOUNT: ["system:serviceaccounts", "system:authenticated"]}
    for plane in running(ControlPlane(service_accounts=True, users=users)):
        install(plane)
        configuration = yaml.safe_load((RECIPE / "configuration.yaml").read_text())
        with plane.controllers("job-controller"), running_kueue(plane, folder, {**configuration, **changes}):
            for file in ("queues", "memory-required"):
                plane.kubectl("apply", "-f", str(RECIPE / f"{file}.yaml"))
            for team in TEAMS:
                plane.create_namespace(team, exist_ok=True)
            yield plane


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The recipe as it is."""
    yield from queued(tmp_path_factory.mktemp("kueue"))


class Teams:
    """What a test sees of the two teams.

    Attributes
    ----------
    cluster
        Two nodes with two cards of 40 GiB each.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def get(self, path: str) -> Obj:
        async with self.cluster.http.get(path) as answer:
            return dict(await answer.json())

    async def submit(self, team: str, name: str, **limits: int) -> None:
        """Submit the job of the recipe under a name, which is also that of its group, with other limits of its pods."""
        job = yaml.safe_load((RECIPE / "job.yaml").read_text().replace("train", name))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        container["resources"]["limits"].update({f"nvidia.com/{key}": value for key, value in limits.items()})
        async with self.cluster.http.post(f"/apis/batch/v1/namespaces/{team}/jobs", json=job) as answer:
            assert answer.status == 201, await answer.text()

    async def create(self, team: str, pod: Obj, queue: str = "gpus") -> tuple[int, str]:
        """Create a pod in a queue of a team; return the status and the text of the answer."""
        labels = {**pod["metadata"].get("labels", {}), **({"kueue.x-k8s.io/queue-name": queue} if queue else {})}
        body = {**pod, "metadata": {**pod["metadata"], "labels": labels}}
        async with self.cluster.http.post(f"/api/v1/namespaces/{team}/pods", json=body) as answer:
            return answer.status, await answer.text()

    async def create_group(self, team: str, memory: int) -> None:
        """Create the group of plain pods, each with so many MiB of a card; Kueue gates them."""
        for pod in yaml.safe_load_all(GROUP.read_text().replace("gpumem: 8000", f"gpumem: {memory}")):
            status, text = await self.create(team, pod)
            assert status == 201, text
            assert json.loads(text)["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]

    async def pods(self, team: str, job: str = "") -> list[Obj]:
        """Return the pods of a team, or of its job, that have not ended."""
        label = f"?labelSelector=batch.kubernetes.io/job-name={job}" if job else ""
        found = (await self.get(f"/api/v1/namespaces/{team}/pods{label}"))["items"]
        return [pod for pod in found if pod["status"]["phase"] not in {"Succeeded", "Failed"}]

    async def suspended(self, team: str, job: str) -> bool:
        return bool((await self.get(f"/apis/batch/v1/namespaces/{team}/jobs/{job}"))["spec"]["suspend"])

    async def reasons(self, team: str) -> str:
        """Return what Kueue says of the workloads of a team."""
        found = (await self.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{team}/workloads"))["items"]
        conditions = [each for workload in found for each in workload.get("status", {}).get("conditions", ())]
        return "\n".join(f"{each['type']} {each['status']}: {each['message']}" for each in conditions)

    async def counted(self, team: str) -> tuple[float, float]:
        """Return how many GiB Kueue says that the queue of a team uses, and how many of them are borrowed."""
        status = (await self.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{team}"))["status"]
        (resource,) = status["flavorsUsage"][0]["resources"]
        return gib(resource["total"]), gib(resource["borrowed"])

    async def booked(self, team: str) -> float:
        """Return how many GiB of cards the pods of a team hold."""
        nodes = allocations(await self.pods(team)).values()
        return sum(memory for cards in nodes for _, memory, _ in cards.values()) / GIB

    async def until_running(self, team: str, number: int, job: str = "") -> None:
        async def run() -> bool:
            pods = await self.pods(team, job)
            return [pod["status"]["phase"] for pod in pods] == ["Running"] * number

        await self._until(run, f"{number} pods of {team} {job} to run")

    async def until_counted(self, team: str, used: int, borrowed: int = 0) -> None:
        async def counts() -> bool:
            return await self.counted(team) == (used, borrowed)

        await self._until(counts, f"{team} to use {used} GiB")

    async def until_said(self, team: str, text: str) -> None:
        async def said() -> bool:
            return text in await self.reasons(team)

        await self._until(said, text)

    async def until_told(self, team: str, prefix: str, text: str) -> None:
        """Wait until this scheduler says something of a pod."""

        async def told() -> bool:
            found = [pod for pod in await self.pods(team) if pod["metadata"]["name"].startswith(prefix)]
            return any(text in condition.get("message", "") for pod in found for condition in conditions(pod))

        await self._until(told, text)

    async def _until(self, condition: Callable[[], Awaitable[object]], what: str) -> None:
        try:
            await self.cluster.until(condition, what, within=30)
        except AssertionError as error:
            seen = "\n".join([await self._seen(team) for team in TEAMS])
            raise AssertionError(f"{error}\n{seen}") from error

    async def _seen(self, team: str) -> str:
        lines = [f"{team}: {await self.counted(team)} counted", await self.reasons(team)]
        for pod in await self.pods(team):
            lines.append(f"{pod['metadata']['name']} {pod['status']['phase']} {pod['spec'].get('schedulingGates')}")
            lines.extend(f"  {each['type']} {each['status']} {each.get('message', '')}" for each in conditions(pod))
        return "\n".join(lines)

    async def assert_agreed(self) -> None:
        """Kueue counts what this scheduler has given out."""
        for team in TEAMS:
            assert (await self.counted(team))[0] == await self.booked(team), team


def gib(quantity: str) -> float:
    unit = "Gi" if quantity.endswith("Gi") else ""
    return float(quantity.removesuffix(unit)) * IN_GIB[unit]


def conditions(pod: Obj) -> list[Obj]:
    return list(pod["status"].get("conditions", ()))


@asynccontextmanager
async def of_two_teams(plane: ControlPlane, folder: Path) -> AsyncIterator[Teams]:
    """Run the operator beside Kueue."""
    async with opened(plane, folder) as cluster:
        await cluster.nodes.register(["one", "two"], ("A100-40G",) * 2)
        await cluster.nodes.start()
        process = cluster.operator()
        process.start()
        try:
            await process.until_leading()
            yield Teams(cluster)
            for team in TEAMS:
                kinds = "jobs,pods,workloads"
                await asyncio.to_thread(plane.kubectl, "delete", kinds, "--all", "-n", team, "--force")
        finally:
            process.stop()


@pytest.fixture
async def teams(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Teams]:
    """The teams with the recipe as it is."""
    async with of_two_teams(plane, tmp_path) as found:
        yield found


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[Teams]:
    """The teams with a Kueue that soon takes back what does not run."""
    strategy = {"backoffBaseSeconds": 1, "backoffMaxSeconds": 1}
    for plane in queued(tmp_path, waitForPodsReady={"timeout": "3s", "requeuingStrategy": strategy}):
        async with of_two_teams(plane, tmp_path) as found:
            yield found


async def test_jobs_stay_within_quotas_borrow_wait_and_are_reclaimed(teams: Teams) -> None:
    await teams.submit("team-a", "within")
    await teams.until_running("team-a", 2, "within")
    await teams.until_counted("team-a", 64)
    await teams.assert_agreed()
    await teams.submit("team-a", "borrows")
    await teams.until_running("team-a", 2, "borrows")
    await teams.until_counted("team-a", 128, borrowed=48)
    await teams.assert_agreed()

    await teams.submit("team-a", "beyond")
    await teams.until_said("team-a", "QuotaReserved False: couldn't assign flavors to pod set main: insufficient")
    assert await teams.suspended("team-a", "beyond")
    assert not await teams.pods("team-a", "beyond")
    for pod in await teams.pods("team-a", "within"):
        await teams.cluster.nodes.finish("team-a", pod["metadata"]["name"])
    await teams.until_running("team-a", 2, "beyond")
    await teams.until_counted("team-a", 128, borrowed=48)
    await teams.assert_agreed()

    await teams.submit("team-b", "own")
    await teams.until_running("team-b", 2, "own")
    await teams.until_counted("team-b", 64)
    await teams.until_running("team-a", 2)
    await teams.until_counted("team-a", 64)
    await teams.assert_agreed()
    assert "Evicted True: Preempted to accommodate a workload" in await teams.reasons("team-a")
    assert not teams.cluster.nodes.violations


@pytest.mark.parametrize("workload", ["kueue", "train"])
async def test_what_is_admitted_waits_whole_where_cards_are_fragmented(teams: Teams, workload: str) -> None:
    for number in range(4):
        status, text = await teams.create("team-b", slice_pod(f"filler-{number}", gpu=1, gpumem=24 * GIB))
        assert status == 201, text
    await teams.until_running("team-b", 4)
    await teams.until_counted("team-b", 96, borrowed=16)
    await teams.assert_agreed()

    if workload == "train":
        await teams.submit("team-a", workload, gpu=1, gpumem=32 * GIB)
    else:
        await teams.create_group("team-a", 32 * GIB)
    await teams.until_told("team-a", workload, "CardInsufficientMemory")
    await teams.cluster.nodes.finish("team-b", "filler-0")
    await teams.until_told("team-a", workload, "at most 1 of them")
    assert not any(pod["spec"].get("nodeName") for pod in await teams.pods("team-a")), "one fits, and may not run alone"
    await teams.until_counted("team-a", 64)
    assert await teams.booked("team-a") == 0, "Kueue counts what it admits, placed or not"
    await teams.cluster.nodes.finish("team-b", "filler-1")
    await teams.until_running("team-a", 2)
    await teams.until_counted("team-b", 48)
    await teams.assert_agreed()
    assert not teams.cluster.nodes.violations


async def test_what_is_admitted_and_has_no_cards_goes_back_into_its_queue(impatient: Teams) -> None:
    blockers = [slice_pod(f"blocker-{number}", gpu=1, gpumem=30 * GIB) for number in range(4)]
    await impatient.cluster.create(*blockers)
    await impatient.until_running("default", 4)
    await impatient.submit("team-a", "train")
    await impatient.until_told("team-a", "train-", "CardInsufficientMemory")
    await impatient.create_group("team-b", 16 * GIB)
    for team in TEAMS:
        await impatient.until_said(team, "PodsReady timeout")

    async def deleted() -> bool:
        return all(pod["metadata"].get("deletionTimestamp") for pod in await impatient.pods("team-b"))

    await impatient.cluster.until(deleted, "the pods of the group to be deleted")
    for blocker in blockers:
        await impatient.cluster.nodes.finish("default", blocker["metadata"]["name"])
    await impatient.until_running("team-a", 2, "train")
    await impatient.until_counted("team-a", 64)


async def test_what_cannot_be_counted_is_refused_and_what_is_uncertain_counts_more(teams: Teams) -> None:
    percent = slice_pod("percent", gpu=1)
    percent["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem-percentage"] = "50"
    for pod in (slice_pod("whole", gpu=1), slice_pod("nothing", gpu=1, gpumem=0), percent):
        status, text = await teams.create("team-a", pod)
        assert (status, "ask for nvidia.com/gpumem as well" in text) == (422, True), text
    status, text = await teams.create("team-a", slice_pod("past-the-queue", gpu=1, gpumem=GIB), queue="")
    assert json.loads(text)["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}], "it waits for a queue"
    double = slice_pod("double", gpu=1, gpumem=8 * GIB)
    (container,) = double["spec"]["containers"]
    double["spec"]["containers"] = [container, {**container, "name": "second"}]
    status, text = await teams.create("team-a", double)
    assert status == 201, text
    await teams.until_counted("team-a", 32)

    async def bound() -> bool:
        return await teams.booked("team-a") == 16

    await teams.cluster.until(bound, "the pod with two containers to be bound")
    assert [pod["metadata"]["name"] for pod in await teams.pods("team-a") if pod["spec"].get("nodeName")] == ["double"]
