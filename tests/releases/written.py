"""What this version writes on the pods that it binds, for cards of every vendor and of every dialect.

``python -m tests.releases.written`` keeps it beside that of earlier versions, when a version is released.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.engine.builders import OURS, asks, pod_object
from tests.engine.dialect_worlds import CORE, MEMORY, NUMBER, RATIO, beside, koordinator_node, volcano_node
from tests.simulation.cluster import SimCard, SimNode
from tests.simulation.vendors import OTHER_CARDS

from vgpu_scheduler import __version__
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import volcano_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.policy import PolicyDefaults

FOLDER = Path(__file__).parent / "written_by"
NODE = "node-a"

Case = dict[str, Any]
"""A pod as it is bound, and what it holds: dialect to UUID to amounts."""


def dialects() -> Dialects:
    """Return all of them."""
    return Dialects([hami_dialect(), volcano_dialect(), koordinator_dialect()])


def asked() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and what a container asks for."""
    yield "slice", asks(1, 1000, 30)
    yield "two-slices", asks(2, 2000, 10)
    yield "whole-card", asks(1, 8000, 100)
    for vendor, card in OTHER_CARDS.items():
        for number, claim in enumerate(card.claims):
            yield f"{vendor.lower()}-{number}", asks(0, **dict(claim))
    yield "volcano", {"limits": {NUMBER: "1", MEMORY: "4096"}, "requests": {NUMBER: "1", MEMORY: "4096"}}
    yield "koordinator", {"limits": {CORE: "50", RATIO: "50"}, "requests": {CORE: "50", RATIO: "50"}}


def world() -> Engine:
    """Return an engine that knows a node with a card of every vendor, and one of each other dialect."""
    engine = Engine(EngineOptions(dialects(), PolicyDefaults(), [OURS]))
    cards = (SimCard(f"{NODE}-0"), SimCard(f"{NODE}-1", mig=True), SimCard(f"{NODE}-2"))
    engine.observe_node(SimNode(NODE, "uid-a", 1, cards).shown(), 0.0)
    engine.observe_node(decode_node(volcano_node("v", "GPU-v0")), 0.0)
    engine.observe_node(decode_node(koordinator_node("k")), 0.0)
    engine.observe_inventory("k", beside("GPU-k0", "GPU-k1"), 0.0)
    return engine


def cases() -> Iterator[Case]:
    """Yield what is written for each of them, on a node that nobody else uses; without those that are refused."""
    for name, resources in asked():
        engine = world()
        waiting = pod_object(name, resources)
        engine.observe_pod(decode_pod(waiting), 0.0)
        decision = engine.attempt(0.0)
        if decision is None or decision.placement is None:
            continue
        placement = decision.placement
        written = engine.dialects.annotations(placement, 1_700_000_000.0, decode_pod(waiting))
        waiting["metadata"]["annotations"] = {**waiting["metadata"]["annotations"], **written}
        waiting["spec"]["nodeName"] = placement.node
        held = {d: {uuid: list(found) for uuid, found in usage.charges.items()}
                for d, usage in engine.dialects.uses(decode_pod(waiting)).items()}  # fmt: skip
        yield {"pod": waiting, "holds": held}


def main() -> None:
    """Keep it."""
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{__version__}.json"
    target.write_text(json.dumps(list(cases()), indent=1, sort_keys=True) + "\n")
    print(f"{target} is written")


if __name__ == "__main__":
    main()
