"""Pods about which no admission webhook is asked: what they may ask is what helps as it is written, and no less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from tests.whatif.test_whatif_admitted import (
    ASCEND,
    ILUVATAR,
    MAKERS,
    MTHREADS,
    ascend,
    done,
    hooked,
    iluvatar,
    mthreads,
    node,
)
from tests.whatif.test_whatif_condition_remedies import answer, quota
from tests.whatif.test_whatif_remedies import pod

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import World, ask, make_dialect, remedies

Object = dict[str, Any]

MOST: Final = 2
HOME: Final = "scheduling"
IGNORED: Final = {"hami.io/webhook": "ignore"}
WAYS: Final[Mapping[str, tuple[str, Object, Object]]] = {
    "label of the pod": ("default", IGNORED, {}),
    "label of the namespace": ("default", {}, IGNORED),
    "system namespace": ("kube-system", {}, {}),
    "namespace of the operator": (HOME, {}, {}),
}
"""Namespace, labels of the pod, and labels of the namespace of a pod that is left alone."""
ASKED: Final = {"ascend": f"{ASCEND}-memory", "iluvatar": f"{ILUVATAR}.vMem", "mthreads": f"{MTHREADS}sgpu-memory"}
SLICES: Final = {"ascend": 1024, "iluvatar": 1, "mthreads": 1}


def world_of(objects: list[Object], asked: Object, way: str) -> tuple[World, Pod]:
    namespace, labels, of_namespace = WAYS[way]
    spaces = [{"kind": "Namespace", "metadata": {"name": namespace, "labels": of_namespace}}]
    there = [
        {**each, "metadata": {**each["metadata"], "namespace": namespace}} if each["kind"] != "Node" else each
        for each in objects
    ]
    metadata = {**asked["metadata"], "namespace": namespace, "labels": labels}
    world = World(EngineOptions([make_dialect("hami")], home=HOME))
    world.add([*spaces, *there, {**asked, "metadata": metadata}])
    (waiting,) = world.pending.values()
    return world, waiting


def asking(written: Object, resource: str, amount: int) -> Object:
    (container,) = written["spec"]["containers"]
    limits = {**container["resources"]["limits"], resource: str(amount)}
    changed = {**container, "resources": {**container["resources"], "limits": limits}}
    return {**written, "spec": {**written["spec"], "containers": [changed]}}


def most_that_fits(objects: list[Object], asked: Object, way: str, resource: str, step: int) -> int:
    """Return the most of a resource that a pod may ask so that it goes somewhere, as it is written; 0 if none."""
    (container,) = asked["spec"]["containers"]
    now = int(container["resources"]["limits"].get(resource, 65537))
    fits = (
        amount
        for amount in range(now - step, 0, -step)
        if bool(ask(*world_of(objects, asking(asked, resource, amount), way)).node)
    )
    return next(fits, 0)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("maker", MAKERS)
def test_the_most_that_fits_is_told_of_a_pod_that_no_webhook_sees(maker: str, way: str) -> None:
    rng = np.random.default_rng([MAKERS.index(maker), list(WAYS).index(way)])
    make, resource, step, looked_at = (
        {"ascend": ascend, "iluvatar": iluvatar, "mthreads": mthreads}[maker],
        ASKED[maker],
        SLICES[maker],
        0,
    )
    for _ in range(20):
        there, asked = make(rng)
        objects = [there, quota("q", {resource: int(rng.integers(5, 60)) * step})]
        world, waiting = world_of(objects, asked, way)
        if ask(world, waiting).node:
            continue
        most = most_that_fits(objects, asked, way, resource, step)
        if not most:
            continue
        looked_at += 1
        limits = [
            int(each.pod["spec"]["containers"][0]["resources"]["limits"].get(resource, 0))
            for each in remedies(world, waiting)
            if each.pod and not each.objects and not each.ended
        ]
        assert max(limits, default=0) >= most, (asked, limits)
        if looked_at == MOST:
            break
    assert looked_at >= 2


@pytest.mark.parametrize("way", WAYS)
def test_cards_of_which_a_webhook_takes_all_may_be_asked_for_in_parts(way: str) -> None:
    """Of several cards of Moore Threads a webhook has all; what is left alone may ask for less of each."""
    amounts = {f"{MTHREADS}vgpu": 10, f"{MTHREADS}sgpu-core": 32, f"{MTHREADS}sgpu-memory": 192}
    there = node({}, amounts)
    asked = pod("asked", {f"{MTHREADS}vgpu": 2, f"{MTHREADS}sgpu-core": 8, f"{MTHREADS}sgpu-memory": 40})
    limited = quota("q", {f"{MTHREADS}sgpu-memory": 20})
    world, waiting = world_of([there, limited], asked, way)
    said = f"ask 20 of {MTHREADS}sgpu-memory instead of 40 in container main, 20 less (in units of 512 MiB)"
    assert said in [each.text for each in remedies(world, waiting)]
    if way == "label of the pod":  # what is known of a pod alone
        assert any(text.startswith(said) for text in answer(world)[1].remedies)
    stored = hooked(done(asked, said)).pod
    assert stored is not None
    assert stored["spec"]["containers"][0]["resources"]["limits"][f"{MTHREADS}sgpu-memory"] == "192"
