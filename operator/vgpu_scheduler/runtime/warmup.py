"""Compiles the kernels before the first decision: numba compiles each at its first call, which takes half a second.

Two processes share the work if there are two cores. Building an image runs ``python -m vgpu_scheduler.runtime.warmup``,
so that new pods find the kernels compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from vgpu_scheduler.allocators import HamiAllocator
from vgpu_scheduler.allocators.pieces import largest_free_pieces
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.hami.codec import RegisteredDevice, encode_register_json
from vgpu_scheduler.dialects.hami.mig import MigProfile, SliceSpan
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import REGISTER_ANNOTATION
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.engine.preemption import Preemptor
from vgpu_scheduler.kernels.ahead import compile_choosing, compile_collecting
from vgpu_scheduler.kernels.cache import cache_place, is_compiled, note_compiled
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import OrderKind
from vgpu_scheduler.policy import CLUSTER_KIND, PolicyDefaults, decode_policy
from vgpu_scheduler.scorers import LEAST_SEEN, RequestClass, learn_prices

_POLICIES = (
    {"nodes": {"policy": "binpack"}},
    {"nodes": {"scorers": [{"name": name} for name in ("hami", "binpack", "fragmentation", "deviceshare")]}},
    {"nodes": {"scorers": [{"name": "fragmentation"}]}},
    {"nodes": {"scorers": [{"name": "fragmentation", "prices": "Auto"}]}},
)
"""Together these policies run every scorer and every order of cards."""
_MODULE = "vgpu_scheduler.runtime.warmup"
_CHOOSING = "choosing"
"""The argument with which this module compiles one part of the kernels in a second process."""
_BESIDE_WITHIN = 300.0
"""Seconds to wait for the second process; on a slow machine it needs a tenth of that."""
_RULES = {"nvidia.com/nouse-gpuuuid": "GPU-1", "nvidia.com/vgpu-mode": "mig"}


def warm_up() -> None:
    """Place a few pods on one node of a throw-away engine, also on its MIG card, so that every kernel is compiled."""
    engine = _engine_with_a_node()
    if not is_compiled() and (os.cpu_count() or 1) > 1:
        with _choosing_compiled_beside():
            compile_collecting(*_fit_arguments(engine))
            _warm_up_shares()
    for number, spec in enumerate(_POLICIES):
        metadata = {"name": "warm-up", "uid": "w", "generation": number, "resourceVersion": str(number)}
        engine.policy_tracker.observe(decode_policy({"kind": CLUSTER_KIND, "metadata": metadata, "spec": spec}))
        engine.observe_pod(_pod(str(number), _RULES if number else {}), 0.0)
        engine.attempt(0.0)
    _warm_up_prices(engine, _pod("priced", _RULES))
    _warm_up_preemption(engine)
    _warm_up_figures(engine)
    _warm_up_shares()
    note_compiled()


@contextmanager
def _choosing_compiled_beside() -> Iterator[None]:
    """Compile the kernels that choose cards in a second process during the block; what it misses is compiled here."""
    command = [sys.executable, "-m", _MODULE, _CHOOSING]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache_place())}
    with ExitStack() as stack:
        beside = None
        with suppress(OSError):  # the process limit is reached, or memory is short
            beside = stack.enter_context(
                subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)  # noqa: S603 - this module
            )
            stack.callback(beside.kill)
        yield
        if beside is not None:
            with suppress(subprocess.TimeoutExpired):  # a process that hangs delays nothing: the rest is compiled here
                beside.wait(_BESIDE_WITHIN)


def _compile_choosing() -> None:
    compile_choosing(*_fit_arguments(_engine_with_a_node()))


def _engine_with_a_node() -> Engine:
    card = RegisteredDevice(
        id="GPU-0", count=10, devmem=1024, devcore=100, type="NVIDIA", mode="hami-core", health=True
    )
    cut = replace(card, id="GPU-2", mode="mig", mig_profiles=(MigProfile("1g", 1024, 100, 1, (SliceSpan(0, 1),)),))
    node = {
        "metadata": {"name": "n", "uid": "n", "annotations": {REGISTER_ANNOTATION: encode_register_json([card, cut])}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10", "nvidia.com/gpu": "10"}},
    }
    engine = Engine(EngineOptions([hami_dialect()], PolicyDefaults(order=OrderKind.NUMA_FIRST), ["warm-up"]))
    engine.observe_node(decode_node(node), 0.0)
    return engine


def _pod(uid: str, annotations: dict[str, str], priority: int = 0, **more: str) -> Pod:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "128", **more}
    return decode_pod(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": uid, "annotations": annotations},
            "spec": {
                "schedulerName": "warm-up",
                "priority": priority,
                "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
            },
            "status": {"phase": "Pending"},
        }
    )


def _fit_arguments(engine: Engine) -> tuple[Any, ...]:
    """Return the arguments of the fit kernel for a pod on the engine's nodes."""
    pod_class = engine.algorithm.classes.of(_pod("p", {}))
    assert isinstance(pod_class, SchedulableClass)
    assert isinstance(pod_class.node.allocator, HamiAllocator)
    return pod_class.node.allocator.fit_arguments(engine.state.matrix(pod_class.node.dialect))


def _warm_up_prices(engine: Engine, pod: Pod) -> None:
    """Place a pod with prices learned as if many pods like it were bound."""
    state = engine.state
    reach = np.ones(len(state.devices.models), dtype=np.int64)
    prices = learn_prices(
        state.devices, state.nodes, [RequestClass(engine.algorithm.classes.claims(pod), 1, LEAST_SEEN, reach)]
    )
    assert prices is not None, "the node of the warm-up has cards"
    state.replace_prices({hami_dialect().name: prices})
    engine.observe_pod(pod, 0.0)
    engine.attempt(0.0)


def _warm_up_preemption(engine: Engine) -> None:
    """Search for victims both ways: by cards, and by everything that a node has."""
    for cards in ("1", "2"):
        pod = _pod(f"preempts-{cards}", {}, priority=1, **{"nvidia.com/gpu": cards, "nvidia.com/gpumem": "1024"})
        pod_class = engine.algorithm.classes.of(pod)
        assert isinstance(pod_class, SchedulableClass)
        order, rows = engine.preemptions.evaluator.order, engine.state.nodes.rows()
        preemptor = Preemptor(pod, pod_class)
        list(order.by_cards(preemptor, rows) if cards == "1" else order.by_level(preemptor, rows))


def _warm_up_figures(engine: Engine) -> None:
    """Measure what the cards lack for a pod, as for the event of a pod that fits nowhere."""
    columns, *_ = _fit_arguments(engine)
    largest_free_pieces(columns, np.arange(columns.partitioned.shape[0]))


def _warm_up_shares() -> None:
    """Place pods by amounts alone, as Koordinator does, on nodes with and without a topology tree."""
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    card = {"type": "gpu", "minor": 0, "id": "GPU-0", "health": True, "resources": amounts}
    for listed in (card, {**card, "topology": {}}):
        _place_by_amounts(listed, amounts)


def _place_by_amounts(card: dict[str, Any], amounts: dict[str, str]) -> None:
    engine = Engine(EngineOptions([koordinator_dialect()], scheduler_names=["warm-up"]))
    node = {"metadata": {"name": "n", "uid": "n"}, "status": {"allocatable": {"pods": "10", **amounts}}}
    engine.observe_node(decode_node(node), 0.0)
    engine.observe_inventory("n", {"spec": {"devices": [card]}}, 0.0)
    containers = [{"name": "c", "resources": {"limits": amounts, "requests": amounts}}]
    spec = {"schedulerName": "warm-up", "containers": containers}
    engine.observe_pod(decode_pod({"metadata": {"name": "p", "namespace": "n", "uid": "p"}, "spec": spec}), 0.0)
    engine.attempt(0.0)


if __name__ == "__main__":
    _compile_choosing() if sys.argv[1:] == [_CHOOSING] else warm_up()
