"""The real controllers of JobSet and LeaderWorkerSet on a real API server: their groups run whole, or wait whole."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.apiserver.binaries import AssetsUnavailableError, job_controllers
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.job_controllers import JOB_SET, LEADER_WORKER_SET
from tests.conftest import running, unavailable
from tests.e2e.conftest import MANIFESTS, OLDER, USERS, Cluster, install, opened, slice_pod
from tests.groups.definitions import DEFINED_KINDS, definition

from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.whatif import pods_of

Obj = dict[str, Any]
CARD = 30_000
"""What only one pod has room for on a card, in MiB."""
REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
RANDOM = re.compile("-[a-z0-9]{5}$")
OF_OTHERS = re.compile(
    r"hami\.io/|vgpu-scheduler\.io/|controller-revision-hash$|(batch\.kubernetes\.io/)?controller-uid$"
)
"""What the scheduler writes, and UIDs and hashes of what is made between a workload and its pods."""
pytestmark = pytest.mark.skipif(OLDER, reason="what the controllers do does not depend on the API server")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the controllers, and the definitions of all kinds of PodGroups."""
    try:
        job_controllers()
    except AssetsUnavailableError as error:
        unavailable(str(error))
    for plane in running(ControlPlane(service_accounts=True, users=USERS)):
        install(plane)
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(definition(kind) for kind in DEFINED_KINDS))
        folder = tmp_path_factory.mktemp("controllers")
        with ExitStack() as stack:
            stack.enter_context(plane.controllers("job-controller", "statefulset-controller"))
            for each in (JOB_SET, LEADER_WORKER_SET):
                stack.enter_context(each.running(plane, folder))
            yield plane


@pytest.fixture
async def cluster(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two nodes with two cards each."""
    async with opened(plane, tmp_path) as found:
        await found.nodes.register(["one", "two"], ("A100-40G",) * 2)
        await found.nodes.start()
        yield found
        plane.kubectl("delete", "jobsets,leaderworkersets,statefulsets,jobs", "--all", "--wait=false", "-n", "default")


def example(name: str, memory: int) -> list[Obj]:
    """Return the objects of an example, whose pods ask for another amount of memory."""
    text = (MANIFESTS / "examples" / f"{name}.yaml").read_text()
    text, times = re.subn(r"nvidia.com/gpumem: \d+", f"nvidia.com/gpumem: {memory}", text)
    assert times
    return list(yaml.safe_load_all(text))


async def applied(cluster: Cluster, objects: list[Obj]) -> None:
    text = yaml.safe_dump_all(objects)
    await asyncio.to_thread(cluster.plane.kubectl, "apply", "-n", "default", "-f", "-", stdin=text)


async def of_workload(cluster: Cluster, label: str) -> dict[str, Obj]:
    """Return the pods that have a label, by name."""
    pods = [pod for pod in await cluster.pods() if label in (pod["metadata"].get("labels") or {})]
    return {pod["metadata"]["name"]: pod for pod in pods}


async def until_there(cluster: Cluster, label: str, number: int) -> None:
    async def there() -> bool:
        return len(await of_workload(cluster, label)) == number

    await cluster.until(there, f"{number} pods with label {label}")


async def until_running(cluster: Cluster, label: str, number: int) -> None:
    async def run() -> bool:
        pods = await of_workload(cluster, label)
        return sum(pod["status"].get("phase") == "Running" for pod in pods.values()) == number

    await cluster.until(run, f"{number} pods with label {label} to run")


async def until_told(cluster: Cluster, names: list[str], text: str) -> None:
    """Wait until one of the pods says it."""

    async def told() -> bool:
        return any([text in await cluster.message(name) for name in names])

    try:
        await cluster.until(told, text)
    except AssertionError as error:
        raise AssertionError({name: await cluster.message(name) for name in names}) from error


async def deleted(cluster: Cluster, name: str) -> None:
    async with cluster.http.delete(f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0") as answer:
        assert answer.status == 200, await answer.text()


async def written(cluster: Cluster, kind: str, obj: Obj) -> Obj:
    """Return an object of a file with the metadata that it has in the cluster."""
    name = obj["metadata"]["name"]
    found = await asyncio.to_thread(cluster.plane.kubectl, "get", kind, name, "-n", "default", "-o", "json")
    return {**obj, "metadata": json.loads(found.stdout)["metadata"]}


def assert_simulated(workload: Obj, theirs: dict[str, Obj]) -> None:
    """Compare the pods that controllers made with those that ``simulate`` makes of the same object."""
    ours = {pod["metadata"]["name"]: pod for pod in pods_of(workload)}
    by_name = {name if name in ours else RANDOM.sub("", name): pod for name, pod in theirs.items()}
    assert set(by_name) == set(ours)
    for name, pod in by_name.items():
        found, revision = pod["metadata"], pod["metadata"]["labels"].get(REVISION, "none")
        for key in ("labels", "annotations"):
            told = {each: value.replace(revision, "new") for each, value in found.get(key, {}).items()}
            expected = {each: value for each, value in told.items() if not OF_OTHERS.match(each)}
            made = ours[name]["metadata"].get(key, {})
            assert {each: value for each, value in made.items() if not OF_OTHERS.match(each)} == expected
        (owner,), (expected_owner,) = found["ownerReferences"], ours[name]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == (expected_owner["kind"], expected_owner["name"])
        assert workload["kind"] != "JobSet" or pod["spec"]["subdomain"] == ours[name]["spec"]["subdomain"]


@pytest.fixture
async def blocked(cluster: Cluster) -> None:
    """A card of the four is taken."""
    await cluster.create(slice_pod("blocker", gpu=1, gpumem=CARD))


@pytest.fixture
async def operator(cluster: Cluster, blocked: None) -> AsyncIterator[OperatorProcess]:
    process = cluster.operator()
    process.start()
    try:
        await process.until_leading()

        async def placed() -> bool:
            return bool(await cluster.bound("blocker"))

        await cluster.until(placed, "the pod that takes a card")
        yield process
    finally:
        process.stop()


async def test_a_job_set_waits_whole_and_runs_whole(cluster: Cluster, operator: OperatorProcess) -> None:
    label = "jobset.sigs.k8s.io/jobset-name"
    objects = example("group-jobset", CARD)
    await applied(cluster, objects)
    await until_there(cluster, label, 4)
    pods = await of_workload(cluster, label)
    await until_told(cluster, list(pods), "at most 3 of them")
    assert not [name for name in pods if await cluster.bound(name)], "three would fit, and none may run alone"
    await deleted(cluster, "blocker")
    await until_running(cluster, label, 4)
    assert not cluster.nodes.violations
    pods = await of_workload(cluster, label)
    where = [pods[name]["spec"]["nodeName"] for name in sorted(pods)]
    assert where[0] == where[1] != where[2] == where[3], "neighbours are next to each other"
    assert_simulated(await written(cluster, "jobsets.jobset.x-k8s.io", objects[1]), pods)


async def test_the_groups_of_a_leader_worker_set_wait_whole_and_run_whole(
    cluster: Cluster, operator: OperatorProcess
) -> None:
    label = "leaderworkerset.sigs.k8s.io/name"
    objects = example("group-leaderworkerset", CARD)
    await applied(cluster, objects)
    await until_there(cluster, label, 4)
    await until_running(cluster, label, 2)
    pods = await of_workload(cluster, label)
    assert set(pods) == {"serving-0", "serving-0-1", "serving-1", "serving-1-1"}
    waits = [name for name, pod in pods.items() if not pod["spec"].get("nodeName")]
    assert len({name[:9] for name in waits}) == 1, "one group runs, the other waits"
    await until_told(cluster, waits, "at most 1 of them")
    await deleted(cluster, "blocker")
    await until_running(cluster, label, 4)
    assert not cluster.nodes.violations
    pods = await of_workload(cluster, label)
    assert_simulated(await written(cluster, "leaderworkersets.leaderworkerset.x-k8s.io", objects[0]), pods)
