"""What inputs are put into: pods that ask each vendor, a node that every vendor registers on, and an engine."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from tests.dialects.vendors import wants
from tests.engine.builders import OURS, asks, cards, node_object, pod_object
from tests.engine.dialect_worlds import HAMI, KOORDINATOR, VOLCANO, koordinator_node, volcano_node

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami import vendors
from vgpu_scheduler.engine import Engine, EngineOptions, ObservationSignals, Problem
from vgpu_scheduler.intake import (
    BUDGETS,
    CLUSTER_POLICIES,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    QUOTAS,
    SELECTING,
    Kind,
    Observer,
)
from vgpu_scheduler.intake.kinds import STORAGE
from vgpu_scheduler.intake.listing import decode_as
from vgpu_scheduler.kube import DecodeError
from vgpu_scheduler.policy import PolicyDefaults

Obj = dict[str, Any]

VENDORS = vendors()
DIALECTS: tuple[Dialect, ...] = (HAMI, VOLCANO, KOORDINATOR)
KINDS: dict[str, Kind[Any]] = {
    kind.name: kind
    for kind in (PODS, NODES, NAMESPACES, QUOTAS, POLICIES, CLUSTER_POLICIES, BUDGETS, *STORAGE, *SELECTING)
}
OTHERS = ({"volcano.sh/vgpu-number": "1"}, {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"})
ASKED: tuple[Obj, ...] = (*(wants(vendor, np.random.default_rng(1)) for vendor in VENDORS), *OTHERS)
"""What a container asks of each vendor."""
REGISTRATIONS = (
    *(vendor.cards.source.annotation for vendor in VENDORS if vendor.cards.source.annotation),
    "volcano.sh/node-vgpu-register",
)
ALLOCATIONS = (
    *sorted({key for vendor in VENDORS for key in vendor.record.written}),
    "volcano.sh/vgpu-ids-new",
    "volcano.sh/devices-to-allocate",
    "scheduling.koordinator.sh/device-allocated",
)
CHOICES = tuple(
    dict.fromkeys(
        name
        for dialect in DIALECTS
        for name in (
            *dialect.claims.pod_annotations,
            *(n for names in dialect.claims.overrides.values() for n in names),
        )
    )
)
"""The annotations by which users choose."""


def pods_of_all_makers(annotations: dict[str, str], **more: Any) -> list[Obj]:
    """Return a pod for each vendor that asks for its cards, all with the same annotations."""
    return [
        pod_object(f"p{number}", {"limits": asked, "requests": asked}, annotations=annotations, **more)
        for number, asked in enumerate(ASKED)
    ]


NODE_SIDES = ({"hami.io/vgpu-node": "n", "volcano.sh/vgpu-node": "n"}, {"nodeName": "n", "started": True})
"""The annotations of a pod that name its node, and the rest of one that runs there."""
WHOLE = (
    ("Node", node_object("n", cards("n", 2), annotations={"hami.io/mutex.lock": "2026-01-01T00:00:00Z,default,p"})),
    ("Node", volcano_node("v", "v-gpu-0", "v-gpu-1")),
    ("Node", koordinator_node("k")),
    ("Pod", pod_object("waits", asks(1, 1000))),
)
"""What is in the cluster beside the input."""


class UndocumentedError(Exception):
    """Something went wrong in a way that no one is told to expect."""


def observe_all(*objects: tuple[str, object]) -> None:
    """Have an engine observe objects of kinds and decide the pods that wait; their order is that of the arguments.

    Raises
    ------
    UndocumentedError
        If reading, taking in or deciding fails otherwise than by a :class:`DecodeError`, or the books are wrong then.
    """
    problems: list[Problem] = []
    engine = Engine(EngineOptions(DIALECTS, PolicyDefaults(), [OURS], system_spread=True, preemption=True))
    engine.storage.mark_synced()
    observer = Observer(engine, lambda: 0.0, ObservationSignals(), problems.append)
    for name, obj in (*WHOLE, *objects):
        kind = KINDS[name]
        try:
            found = decode_as(kind, json.dumps(obj).encode() if isinstance(obj, dict) else obj)  # type: ignore[arg-type]
        except DecodeError as error:
            if "internal error" in str(error):
                raise UndocumentedError(str(error)) from error
            continue
        observer.observe(kind, found)
    while (decision := engine.attempt(0.0)) is not None:
        if decision.error is not None:
            raise UndocumentedError(repr(decision.error)) from decision.error
    for problem in problems:
        if "internal error" in problem.message:
            raise UndocumentedError(problem.message)
    if drift := engine.state.drift():
        raise UndocumentedError(f"the ledger is not its rebuild: {drift}")
