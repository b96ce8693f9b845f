"""Beside this operator as HAMi 2.10 is: what is planted on a real API server is named, and nothing else."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.as_hami import HAMI, LOCK, annotate, decided, gpu, hami_pod
from tests.e2e.conftest import MANIFESTS, Cluster
from tests.e2e.test_ui import token_of

from vgpu_devcluster.process import OperatorProcess

ACCOUNT = "system:serviceaccount:vgpu-system:vgpu-scheduler-shadow"
MIN_DURATION = 8
"""Seconds that a fault has to last: a busy machine holds a lock for longer than an idle one."""
LOOKS = 12.0
"""Seconds in which it looks at the cluster at least twice: on a busy machine it pauses longer between looks."""


@asynccontextmanager
async def shadow(cluster: Cluster, folder: Path) -> AsyncIterator[Any]:
    """Watch under the account of the manifests, as their container does; yield what returns the report."""
    plane = cluster.plane
    plane.kubectl("apply", "-k", str(MANIFESTS / "shadow"))
    deployment = yaml.safe_load((MANIFESTS / "shadow" / "deployment.yaml").read_text())
    flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    flags = [f"--state={folder / 'state'}" if flag.startswith("--state=") else flag for flag in flags]
    plane.tokens[ACCOUNT] = await token_of(cluster, "vgpu-system", "vgpu-scheduler-shadow")
    config = shutil.copy(plane.kubeconfig(ACCOUNT), folder / "shadow")  # a colon in a name separates files
    settings = folder / "settings.yaml"
    settings.write_text("profile: HAMi210\n")
    flags += [f"--kubeconfig={config}", f"--min-duration={MIN_DURATION}s", f"--config={settings}"]
    command = [sys.executable, "-m", "vgpu_scheduler", *flags]
    process = await asyncio.create_subprocess_exec(
        *command, "-o", "json", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        if line.startswith("watching"):
            break
    assert line, "it ended"

    async def report() -> Any:
        process.send_signal(signal.SIGTERM)  # as Kubernetes ends it
        out, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return json.loads(out)

    try:
        yield report
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_what_is_planted_is_named_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    side = cluster.nodes
    await side.register(["first", "second"], ("A10", "A10"), count=4)
    await side.start()
    # It is frozen for long, and leads on.
    operator = cluster.operator(VGPU_PROFILE="HAMi210", VGPU_SCHEDULER_NAMES=HAMI, VGPU_LEASE__DURATION="60")
    operator.start()
    try:
        await operator.until_leading()
        async with shadow(cluster, tmp_path) as report:
            for number in range(4):
                await cluster.create(hami_pod(f"placed-{number}", gpu(6000)))
                await cluster.until(lambda number=number: cluster.bound(f"placed-{number}"), "a pod to be bound")
            await plant(cluster, operator)
            await cluster.until(lambda: cluster.bound("kept"), "the pod to be bound that was kept")
            found = await report()
    finally:
        operator.stop()
    summary = found["summary"]
    assert (summary["placed"], summary["arrived"]) == (5, 6)
    assert {each["pod"] for each in summary["missed"]} == {"default/kept"}
    assert {(each["object"], each["id"]) for each in summary["leaked"]} == {
        ("Pod default/leaked", "allocation-unbound")
    }
    assert {(each["object"], each["id"]) for each in summary["stalled"]} == {("Node second", "lock-stale")}
    assert summary["over"] == []
    assert (summary["choices"]["compared"], summary["choices"]["same"]) == (6, 5)  # it is beside itself
    assert [each["pod"] for each in summary["choices"]["nowhere"]] == ["default/leaked"]


async def plant(cluster: Cluster, operator: OperatorProcess) -> None:
    """Leak a card, have a lock stall, and keep a pod waiting for as long as that takes to be worth a word."""
    operator.freeze()
    try:
        (card, *_) = (card.uuid for card in cluster.nodes.cards("first"))
        leaked = hami_pod("leaked", gpu(1000), node="nowhere")
        await decided(cluster, leaked, "first", f"{card},NVIDIA,1000,10:;")
        taken = datetime.now(UTC) - timedelta(minutes=4)
        await annotate(cluster, "second", {LOCK: f"{taken:%Y-%m-%dT%H:%M:%SZ},default,gone"})
        await cluster.create(hami_pod("kept", gpu(2000)))
        await asyncio.sleep(MIN_DURATION + LOOKS)  # it takes that long: a wait is what is planted
    finally:
        operator.thaw()
