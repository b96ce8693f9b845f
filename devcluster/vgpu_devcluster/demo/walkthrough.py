"""The steps of the demo. Every number is measured during the run, and every claim is checked."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from vgpu_devcluster.demo.cluster import FLEET, POOL, DemoCluster, unschedulable
from vgpu_devcluster.demo.fleet import CardUse, Fleet
from vgpu_devcluster.demo.output import Output
from vgpu_devcluster.demo.pods import NAMESPACE, pod_of
from vgpu_scheduler.model import DECISION

STEPS = (
    "a fleet of mixed cards comes up",
    "a burst of slices is bound",
    "a pod that does not fit stays pending, and says why",
    "capacity is freed, and the pod is bound",
    "a policy decides: spread, binpack, and a limit",
    "the operator is killed in a burst, and nothing is lost",
)
_WITHIN = 60.0
_FORGED = 3
_SENT_AGAIN = 5
"""Requests that a busy machine may cause beside three per pod, for any burst."""

Manifest = dict[str, Any]


class DemoFailure(Exception):  # noqa: N818 - the demo's word for it
    """A claim of the demo does not hold; the message names it."""


class Walkthrough:
    """Goes through the steps once.

    Parameters
    ----------
    output
        Where to show the numbers and claims.
    burst
        The number of pods in a burst.
    """

    def __init__(self, output: Output, burst: int) -> None:
        self._output = output
        self._burst = burst

    async def run(self, cluster: DemoCluster) -> None:
        """Go through the steps.

        Raises
        ------
        DemoFailure
            If a claim does not hold.
        """
        steps: tuple[Callable[[DemoCluster], Awaitable[None]], ...] = (
            self._fleet,
            self._bind_burst,
            self._stay_pending,
            self._free_capacity,
            self._compare,
            self._kill,
        )
        for number, (title, step) in enumerate(zip(STEPS, steps, strict=True), start=1):
            self._output.title(f"[{number}/{len(STEPS)}] {title}")
            try:
                await step(cluster)
            except (TimeoutError, RuntimeError) as error:
                raise DemoFailure(f"step {number} ({title}): {error}") from error
            except DemoFailure as failure:
                raise DemoFailure(f"step {number} ({title}): {failure}") from failure

    async def _fleet(self, cluster: DemoCluster) -> None:
        await cluster.start_fleet()
        began = time.monotonic()
        await cluster.start_operator()
        known = int(await cluster.operator.metric("vgpu_scheduler_nodes"))
        cards_known = sum(len(cluster.nodes.cards(node)) for node in (*FLEET, "reserved-0"))
        self._check(holds=known == len(FLEET) + 1, otherwise=f"the operator knows {known} of {len(FLEET) + 1} nodes")
        self._output.say(
            f"{known} nodes with {cards_known} cards; the operator leads after {time.monotonic() - began:.1f} s"
        )

    async def _bind_burst(self, cluster: DemoCluster) -> None:
        before = cluster.requests()
        seconds = await self._run_burst(cluster, "slice", {})
        await self._events_settle(cluster, before[1])
        writes, events, reads = (
            (after - first) / self._burst for after, first in zip(cluster.requests(), before, strict=True)
        )
        self._output.say(f"{self._burst} pods bound and running in {seconds:.2f} s: {self._burst / seconds:.0f} pods/s")
        self._output.say(f"per pod: {writes:.2f} writes, {events:.2f} events, {reads:.2f} reads")
        self._output.heat_map(await self._booked(cluster))
        most = 3.0 + max(0.05, _SENT_AGAIN / self._burst)
        self._check(
            holds=writes + events + reads <= most, otherwise=f"a pod took more than {most:.2f} requests on average"
        )
        await self._check_books(cluster)

    async def _stay_pending(self, cluster: DemoCluster) -> None:
        tolerations = [{"key": "pool", "operator": "Exists"}]
        reserved = {"nodeSelector": POOL, "tolerations": tolerations}
        await cluster.create([pod_of("tenant", {"gpu": 2, "gpumem": 8192, "gpucores": 40}, spec=reserved)])
        await cluster.until_async(lambda: self._bound(cluster, "tenant"), "the tenant to be bound", _WITHIN)
        await cluster.create([pod_of("whole", {"gpu": 2, "gpumem-percentage": 100, "gpucores": 100}, spec=reserved)])
        await cluster.until_async(lambda: self._condition(cluster, "whole"), "a condition on the pod", _WITHIN)
        message = await self._condition(cluster, "whole")
        self._output.say(f"PodScheduled=False: {message}")
        self._check(
            holds="CardInsufficientMemory" in message, otherwise="the condition does not name the lack of memory"
        )

    async def _free_capacity(self, cluster: DemoCluster) -> None:
        self._check(holds=not await self._bound(cluster, "whole"), otherwise="the pod was bound although it cannot fit")
        await cluster.nodes.finish(NAMESPACE, "tenant")
        began = time.monotonic()
        await cluster.until_async(lambda: self._bound(cluster, "whole"), "the pod to be bound", _WITHIN)
        self._output.say(f"the tenant ended, and the pod was bound {time.monotonic() - began:.2f} s later")
        await self._check_books(cluster)

    async def _compare(self, cluster: DemoCluster) -> None:
        idle = {}
        for policy in ("spread", "binpack"):
            await cluster.clear()
            await cluster.set_policy("house", {"nodes": {"policy": policy}, "devices": {"policy": policy}})
            await self._run_burst(cluster, policy, {})
            cards = [card for row in (await self._booked(cluster)).cards.values() for card in row]
            idle[policy] = sum(not card.used for card in cards)
            self._output.say(f"ClusterVGPUPolicy house says {policy}: {idle[policy]} of {len(cards)} cards stay idle")
            decision = json.loads((await cluster.pod(f"{policy}-0"))["metadata"]["annotations"][DECISION])
            source = decision["policy"]["nodes"]
            self._check(
                holds=source == "ClusterVGPUPolicy house", otherwise=f"the decision names {source} as its policy"
            )
        self._check(holds=idle["binpack"] > idle["spread"], otherwise="binpack left no more cards idle than spread")
        await cluster.set_policy("house", {"limits": {"devicesPerPod": 1}})
        await cluster.create([pod_of("greedy", {"gpu": 2, "gpumem": 1024})])
        await cluster.until_async(lambda: self._condition(cluster, "greedy"), "a condition on the pod", _WITHIN)
        message = await self._condition(cluster, "greedy")
        self._output.say(f"with limits.devicesPerPod: 1, a pod that asks for two waits: {message}")
        self._check(
            holds="limits.devicesPerPod of ClusterVGPUPolicy house" in message, otherwise="the condition names no limit"
        )
        await cluster.delete_policy("house")
        await cluster.until_async(lambda: self._bound(cluster, "greedy"), "the policy's end to let the pod go", _WITHIN)
        await self._check_books(cluster)

    async def _kill(self, cluster: DemoCluster) -> None:
        await cluster.clear()
        forged = {
            "hami.io/vgpu-node": "a100-0",
            "hami.io/vgpu-devices-allocated": ";".join(
                f"{card.uuid},NVIDIA,{card.memory},100:" for card in cluster.nodes.cards("a100-0")
            )
            + ";",
        }
        nowhere = {"nodeSelector": {"kubernetes.io/hostname": "nowhere"}}
        await cluster.create(
            [pod_of(f"forged-{n}", {"gpu": 1}, annotations=forged, spec=nowhere) for n in range(_FORGED)]
        )
        before = cluster.started()
        await cluster.create([pod_of(f"kill-{n}", _SLICE) for n in range(self._burst)])
        await cluster.until(lambda: cluster.started() - before >= self._burst // 4, "a quarter of the burst", _WITHIN)
        cluster.operator.kill()
        survived = await cluster.running()
        self._output.say(f"killed with {survived} of {self._burst} pods running, the rest on their way")
        began = time.monotonic()
        await cluster.start_operator()
        await cluster.until(lambda: cluster.started() - before >= self._burst, "the rest of the burst", _WITHIN)
        lost = self._burst - await cluster.running()
        doubled = len(cluster.nodes.violations)
        self._output.say(
            f"restarted: all bound {time.monotonic() - began:.1f} s later, lost {lost}, duplicated {doubled}"
        )
        self._check(holds=lost == 0, otherwise=f"{lost} pods were lost")
        await self._check_books(cluster)
        held = await self._held_by_forged(cluster)
        self._output.say(f"ledger equals its rebuild; {_FORGED} unbound pods with forged allocations hold {held} cards")
        self._check(holds=held == 0, otherwise="a forged allocation reserved something")

    # Parts -----------------------------------------------------------------------------------------------------------

    async def _run_burst(self, cluster: DemoCluster, name: str, annotations: Mapping[str, str]) -> float:
        began, before = time.monotonic(), cluster.started()
        await cluster.create([pod_of(f"{name}-{n}", _SLICE, annotations=annotations) for n in range(self._burst)])
        await cluster.until(lambda: cluster.started() - before >= self._burst, "the burst to run", _WITHIN)
        return time.monotonic() - began

    async def _events_settle(self, cluster: DemoCluster, before: int) -> None:
        """Wait for one event per pod: events are written after the binds."""
        await cluster.until(lambda: cluster.requests()[1] - before >= self._burst, "one event per pod", _WITHIN)

    async def _bound(self, cluster: DemoCluster, name: str) -> bool:
        return bool((await cluster.pod(name))["spec"].get("nodeName"))

    async def _condition(self, cluster: DemoCluster, name: str) -> str:
        return unschedulable(await cluster.pod(name))

    async def _booked(self, cluster: DemoCluster) -> Fleet:
        """Return the fleet as in the operator's ledger."""
        ledger = (await cluster.operator.ledger())["ledger"]
        return Fleet(
            {
                node: [
                    CardUse(card.model, card.memory, ledger.get(node, {}).get(card.uuid, [0, 0, 0])[1])
                    for card in cluster.nodes.cards(node)
                ]
                for node in FLEET
            },
            await cluster.running(),
        )

    async def _held_by_forged(self, cluster: DemoCluster) -> int:
        """Count the cards of which the ledger books more than bound pods were given."""
        ledger = (await cluster.operator.ledger())["ledger"]
        slots: dict[str, int] = {}
        for pod in await cluster.pods():
            if pod["spec"].get("nodeName"):
                value = pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]
                for device in value.replace(";", "").split(":"):
                    if device:
                        slots[device.split(",")[0]] = slots.get(device.split(",")[0], 0) + 1
        booked = {uuid: amounts[0] for used in ledger.values() for uuid, amounts in used.items()}
        return sum(booked[uuid] != slots.get(uuid, 0) for uuid in booked)

    async def _check_books(self, cluster: DemoCluster) -> None:
        self._check(
            holds=not cluster.nodes.violations, otherwise=f"the node side objects: {cluster.nodes.violations[:3]}"
        )
        drift = (await cluster.operator.ledger())["drift"]
        self._check(holds=not drift, otherwise=f"the ledger differs from its rebuild on {sorted(drift)}")
        over = await cluster.operator.metric("vgpu_scheduler_over_capacity_nodes")
        self._check(holds=over == 0, otherwise=f"{over:.0f} nodes have a card used beyond its capacity")

    def _check(self, *, holds: bool, otherwise: str) -> None:
        if not holds:
            raise DemoFailure(otherwise)


_SLICE = {"gpu": 1, "gpumem": 4096, "gpucores": 10}
