"""Plugins that die and come back: who runs stays charged, nobody new comes, and all goes on when they are back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.e2e.conftest import Cluster

from vgpu_devcluster import ENFLAME_DRS, MTHREADS, NVIDIA, Card, Vendor, equip, made_cards
from vgpu_devcluster.process import OperatorProcess

CASES: Mapping[str, tuple[Vendor, Callable[[str], list[Card]], Mapping[str, str], list[int]]] = {
    "hami-core": (
        NVIDIA,
        lambda node: equip(node, ["A10"], count=4),
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000", "nvidia.com/gpucores": "10"},
        [1, 2000, 10],
    ),
    "mthreads": (
        MTHREADS,
        lambda node: made_cards(node, MTHREADS, 1, 49152),
        {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "16", "mthreads.com/sgpu-core": "4"},
        [1, 8192, 4],
    ),
    "enflame-drs": (
        ENFLAME_DRS,
        lambda node: made_cards(node, ENFLAME_DRS, 1, 49152),
        {"enflame.com/drs-gcu": "3"},
        [3, 24576, 50],
    ),
}
"""By node: the vendor, the card of the node, what each pod asks for, and what of a card a pod uses."""


def wants(case: str, name: str) -> dict[str, Any]:
    limits = dict(CASES[case][2])
    return {
        "metadata": {"name": f"{case}-{name}"},
        "spec": {
            "schedulerName": "vgpu-scheduler",
            "nodeSelector": {"kubernetes.io/hostname": case},
            "containers": [{"name": "main", "image": "example", "resources": {"limits": limits}}],
        },
    }


async def test_a_dead_plugin_keeps_its_tenants_and_gets_no_new_pod(cluster: Cluster, operator: OperatorProcess) -> None:
    side = cluster.nodes
    for case, (vendor, cards, *_) in CASES.items():
        await side.register([case], cards, vendor=vendor)
    await side.start()
    await cluster.create(*(wants(case, "tenant") for case in CASES))
    await side.until(lambda: side.counts["running"] == len(CASES))
    charged = {case: {side.cards(case)[0].uuid: used} for case, (*_, used) in CASES.items()}

    async def told(name: str) -> bool:
        messages = {facts[0].count: await cluster.message(f"{case}-{name}") for case, facts in CASES.items()}
        return all(f"1 Insufficient {count}" in message for count, message in messages.items())

    async def in_order() -> bool:
        page = await operator.ledger()
        booked = {node: {card: used[:3] for card, used in cards.items()} for node, cards in page["ledger"].items()}
        return booked == charged and not page["drift"]

    for name, forgotten in (("late", False), ("later", True)):
        for case in CASES:
            await side.kill_plugin(case, forgotten=forgotten)
        await cluster.create(*(wants(case, name) for case in CASES))
        await cluster.until(lambda named=name: told(named), f"the {name} pods to wait")
        if forgotten:  # nobody counts these cards now, so they are in no book; who has them keeps them
            unlisted = charged.pop("mthreads")
        await cluster.until(in_order, "the tenants to be charged, and nobody else")
    charged["mthreads"] = unlisted
    for case in CASES:
        await side.revive_plugin(case)
    await side.until(lambda: side.counts["running"] == 2 * len(CASES) + 2, within=60.0)  # one card has no room for 3
    assert side.violations == []
    for case, (*_, used) in CASES.items():
        pods = 2 if case == "enflame-drs" else 3
        charged[case] = {card: [amount * pods for amount in used] for card in charged[case]}
    await cluster.until(in_order, "all that found room to be charged")
