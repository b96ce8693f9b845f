"""Watches that are dropped, truncated, silent, slow or refused, and an API server that dies, forgets and goes back."""

from __future__ import annotations

import asyncio
from random import Random

from tests.faults.catalogue import Fault, lister
from tests.faults.pods import NUMBERS, Object, burst
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Cast, Stage
from tests.faults.stories_plugins import LOCKS, annotate

from vgpu_devcluster import CAMBRICON, ENFLAME_DRS, MTHREADS, NVIDIA
from vgpu_devcluster.allocation import PHASE

RELISTING = Cast(settings={"VGPU_SWEEP_INTERVAL": "1"})
AS_INSTALLED = Cast(settings={"VGPU_LEASE__DURATION": "8", "VGPU_LEASE__RENEW_INTERVAL": "1"})
PODS = sum(NUMBERS.values())

FAULTS: list[Fault] = []
watches, servers = lister(FAULTS, "watches"), lister(FAULTS, "API server and etcd")


@watches("dropped", "all watches are cut 4 times in a burst")
async def dropped(stage: Stage, random: Random) -> None:
    await stage.come()
    for part in range(4):
        await stage.some_run(part * PODS // 5)
        stage.proxy.cut_watches()


@watches("dropped while pods are deleted", "all watches are cut; pods are deleted before they are connected again")
async def dropped_while_pods_go(stage: Stage, random: Random) -> None:
    await stage.come()
    await stage.some_run(PODS // 2)
    stage.proxy.add(Rule(What.WATCH, Do.CUT, times=8))
    stage.proxy.cut_watches()
    await stage.delete_some(random, 5)
    await stage.come(*burst("more-"))


@watches("truncated", "each watch ends in the middle of a line, 4 times in a burst")
async def truncated(stage: Stage, random: Random) -> None:
    await stage.come()
    for part in range(4):
        await stage.some_run(part * PODS // 5)
        stage.proxy.truncate_watches()


@watches("silent, then all at once", "no watch delivers anything for 2 s in a burst, in which pods are deleted")
async def silent(stage: Stage, random: Random) -> None:
    await stage.come()
    await stage.some_run(PODS // 4)
    with stage.proxy.silent():
        await stage.delete_some(random, 3)
        await stage.come(*burst("unseen-"))
        await asyncio.sleep(2.0)  # the length of the silence is the fault


@watches(
    "silent for good",
    "no watch delivers anything any more, and no connection is closed",
    checked="the periodic lists show what the watches do not",
    cast=RELISTING,
)
async def silent_for_good(stage: Stage, random: Random) -> None:
    with stage.proxy.silent():
        await stage.come()
        await stage.some_run(PODS)
        stage.proxy.cut_watches()


@watches("slow", "each chunk of a watch comes 0.1 s late")
async def slow(stage: Stage, random: Random) -> None:
    stage.proxy.pace = 0.1
    await stage.come()
    await stage.some_run(PODS)


@watches("410 on a watch", "watches are cut, and begin with a 410")
async def gone(stage: Stage, random: Random) -> None:
    await stage.come()
    await stage.some_run(PODS // 3)
    stage.proxy.add(Rule(What.WATCH, Do.REFUSE, 410, times=12))
    stage.proxy.cut_watches()


@watches(
    "410 on the continuation of a list",
    "lists in pages of 5 objects, of which some continuations have expired",
    cast=RELISTING,
)
async def continuation_gone(stage: Stage, random: Random) -> None:
    rule = stage.proxy.add(Rule(What.CONTINUED, Do.REFUSE, 410, times=6, every=2))
    stage.proxy.page = 5
    await stage.come(*burst(times=2))
    await stage.until(lambda: _hit(rule, 3), "lists to expire")


@watches("429 and 500 on reads", "up to 12 requests that list or get objects are refused", cast=RELISTING)
async def reads_refused(stage: Stage, random: Random) -> None:
    rules = [stage.proxy.add(Rule(What.READ, Do.REFUSE, status, times=6, every=2)) for status in (429, 500)]
    stage.proxy.cut_watches()
    await stage.come()
    await stage.until(lambda: _hit(rules[0], 3), "reads to be refused")


async def _hit(rule: Rule, times: int) -> bool:
    return rule.hits >= times


@servers("API server slow", "each answer takes 2 s", cast=AS_INSTALLED)
async def slow_answers(stage: Stage, random: Random) -> None:
    stage.proxy.delay = 2.0
    await stage.come(*burst()[::3])
    await stage.some_run(len(burst()[::3]))


@servers("API server killed and restarted", "SIGKILL in a burst, started again on the same etcd")
async def killed(stage: Stage, random: Random) -> None:
    await stage.come()
    await stage.some_run(random.randrange(1, PODS // 2))
    await asyncio.to_thread(stage.plane.crash)
    stage.count("API server killed")


@servers("etcd compacted", "pods are deleted and created while watches are cut; etcd keeps the newest revision only")
async def compacted(stage: Stage, random: Random) -> None:
    await stage.come()
    await stage.some_run(PODS // 2)
    cut = stage.proxy.add(Rule(What.WATCH, Do.CUT, times=10_000))
    stage.proxy.cut_watches()
    await stage.come(*burst("more-"))
    await stage.delete_some(random, 4)
    await asyncio.to_thread(stage.plane.compact)
    await asyncio.to_thread(stage.plane.crash)  # the new watch cache begins where it starts
    cut.times = 0
    stage.count("etcd compacted")


@servers("etcd restored to an older state", "a backup from the middle of a burst is restored after it")
async def restored(stage: Stage, random: Random) -> None:
    await stage.come()
    await stage.some_run(random.randrange(1, PODS - 2))
    await asyncio.to_thread(stage.plane.snapshot)
    renewed = await _renewals(stage)
    await stage.some_run(PODS)
    await stage.come(*burst("lost-"))
    await stage.some_run(PODS + 3)

    async def renewed_since() -> bool:
        return await _renewals(stage) != renewed

    await stage.until(renewed_since, "the Lease to be renewed: no copy is younger than that")
    await stage.nodes.stop()
    # What nodes know is told before the operator, which knows what is forgotten now, writes anything: it may still bind
    # pods, and the lock that is taken away below would be the one of such a pod.
    held_off = [stage.proxy.add(Rule(what, Do.CUT, times=10_000)) for what in (What.NODE, What.BINDING)]
    await asyncio.to_thread(stage.plane.restore)
    stage.count("etcd restored")
    for found in await stage.pods():
        if _was_served(found):
            await stage.run(found)  # its kubelet knows, whatever the API server has forgotten
    await take_nameless_lock(stage)
    for rule in held_off:
        rule.times = 0
    await stage.nodes.start()
    await stage.until(lambda: _started_anew(stage), "the operator to start anew")


async def take_nameless_lock(stage: Stage) -> None:
    """Take Cambricon's lock away if its pod is not bound any more, or was served: else it lasts for five minutes."""
    served = all(
        pod["status"].get("phase") != "Pending" for pod in await stage.pods() if pod["spec"].get("nodeName") == "mlu"
    )
    node = await stage.node("mlu")
    if served and LOCKS[CAMBRICON] in (node["metadata"].get("annotations") or {}):
        await annotate(stage, "mlu", LOCKS[CAMBRICON], None)
        stage.count("lock removed")


def _was_served(pod: Object) -> bool:
    """Tell whether a plugin has given a pod devices, all or some, which does not run yet as far as is known.

    Moore Threads' plugin writes nothing on a pod, so each of its pods that is bound is taken for served.
    """
    notes = pod["metadata"].get("annotations") or {}
    told = notes.get(PHASE) == "success" or any(notes.get(vendor.flag) == "true" for vendor in (CAMBRICON, ENFLAME_DRS))
    told = told or MTHREADS.time in notes or notes.get(NVIDIA.to_allocate) != notes.get(NVIDIA.allocated)
    return bool(pod["spec"].get("nodeName")) and told and pod["status"].get("phase") == "Pending"


async def _renewals(stage: Stage) -> list[str]:
    """Return when the Leases of operators were renewed."""
    async with stage.http.get("/apis/coordination.k8s.io/v1/leases") as answer:
        leases = (await answer.json())["items"]
    return [lease["spec"]["renewTime"] for lease in leases if lease["metadata"]["name"] == "vgpu-scheduler"]


async def _started_anew(stage: Stage) -> bool:
    return stage.replicas[0].deaths > 0
