"""Compiles the kernels before the first decision: numba does it at the first call, which takes half a second each.

An image is built with ``python -m vgpu_scheduler.runtime.warmup``, so that no new pod has to do it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numba import config

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.hami.codec import RegisteredDevice, encode_register_json
from vgpu_scheduler.dialects.hami.mig import MigProfile, Span
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import REGISTER_ANNOTATION
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import OrderKind
from vgpu_scheduler.policy import CLUSTER_KIND, Policies, PolicyDefaults, decode_policy
from vgpu_scheduler.scorers import LEAST_SEEN, Asked, learn_prices

_POLICIES = (
    {"nodes": {"policy": "binpack"}},
    {"nodes": {"scorers": [{"name": name} for name in ("hami", "binpack", "fragmentation", "deviceshare")]}},
    {"nodes": {"scorers": [{"name": "fragmentation"}]}},
    {"nodes": {"scorers": [{"name": "fragmentation", "prices": "Auto"}]}},
)
"""Between them they run every scorer and every order of cards."""


def is_compiled() -> bool:
    """Tell whether kernels of these sources were compiled before, by whichever process."""
    options: dict[str, Any] = vars(config)
    return bool(options["DISABLE_JIT"]) or any(Path(options["CACHE_DIR"]).iterdir())


def warm_up() -> None:
    """Place a few pods on one node of a throw-away engine, its MIG card too: every kernel runs with its real types."""
    card = RegisteredDevice(
        id="GPU-0", count=10, devmem=1024, devcore=100, type="NVIDIA", mode="hami-core", health=True
    )
    cut = replace(card, id="GPU-2", mode="mig", mig_profiles=(MigProfile("1g", 1024, 100, 1, (Span(0, 1),)),))
    node = {
        "metadata": {"name": "n", "uid": "n", "annotations": {REGISTER_ANNOTATION: encode_register_json([card, cut])}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10", "nvidia.com/gpu": "10"}},
    }
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "128"}
    engine = Engine([hami_dialect()], Policies(PolicyDefaults(order=OrderKind.NUMA_FIRST)), ["warm-up"])
    engine.observe_node(decode_node(node), 0.0)
    rules = {"nvidia.com/nouse-gpuuuid": "GPU-1", "nvidia.com/vgpu-mode": "mig"}
    for number, spec in enumerate(_POLICIES):
        metadata = {"name": "warm-up", "uid": "w", "generation": number, "resourceVersion": str(number)}
        engine.effective_policies.observe(decode_policy({"kind": CLUSTER_KIND, "metadata": metadata, "spec": spec}))
        pod = {
            "metadata": {"name": "p", "namespace": "n", "uid": str(number), "annotations": rules if number else {}},
            "spec": {
                "schedulerName": "warm-up",
                "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
            },
            "status": {"phase": "Pending"},
        }
        engine.observe_pod(decode_pod(pod), 0.0)
        engine.attempt(0.0)
    _warm_up_prices(engine, decode_pod({**pod, "metadata": {"name": "p", "namespace": "n", "uid": "priced"}}))
    _warm_up_shares()


def _warm_up_prices(engine: Engine, pod: Pod) -> None:
    """Place a pod with prices as if many of its kind were bound."""
    state = engine.state
    reach = np.ones(len(state.devices.models), dtype=np.int64)
    prices = learn_prices(state.devices, state.nodes, [Asked(engine.cycle.claims(pod), 1, LEAST_SEEN, reach)])
    assert prices is not None, "the node of the warm-up has cards"
    state.replace_prices({hami_dialect().name: prices})
    engine.observe_pod(pod, 0.0)
    engine.attempt(0.0)


def _warm_up_shares() -> None:
    """Place a pod by amounts alone, as Koordinator's devices are."""
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    card = {"type": "gpu", "minor": 0, "id": "GPU-0", "health": True, "resources": amounts}
    engine = Engine([koordinator_dialect()], Policies(PolicyDefaults()), ["warm-up"])
    node = {"metadata": {"name": "n", "uid": "n"}, "status": {"allocatable": {"pods": "10", **amounts}}}
    engine.observe_node(decode_node(node), 0.0)
    engine.observe_inventory("n", {"spec": {"devices": [card]}}, 0.0)
    containers = [{"name": "c", "resources": {"limits": amounts, "requests": amounts}}]
    spec = {"schedulerName": "warm-up", "containers": containers}
    engine.observe_pod(decode_pod({"metadata": {"name": "p", "namespace": "n", "uid": "p"}, "spec": spec}), 0.0)
    engine.attempt(0.0)


if __name__ == "__main__":
    warm_up()
