"""Pods of each dialect of which one value is odd, and pods of which none is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from tests.dialects import vendors as cards_of_vendors
from tests.engine.builders import OURS
from tests.engine.dialect_worlds import HAMI, KOORDINATOR, VOLCANO, beside, engine_of, koordinator_node, volcano_node

from vgpu_scheduler.dialects.hami import Vendor
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import decode_node
from vgpu_scheduler.policy import PolicyDefaults

Obj = dict[str, Any]

BOOLEANS = ("1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False")
NO_BOOLEANS = ("yes", "no", "on", "off", "tRUE", " true", "true ", "2", "-1", "y", "enabled", "", "null", "trueish")
CLOSED = {
    "metax-tech.com/sgpu-app-class": ("online", "offline"),
    "metax-tech.com/sgpu-qos-policy": ("best-effort", "fixed-share", "burst-share"),
    "huawei.com/vnpu-mode": ("hami-core",),
}
MODES = {"nvidia.com/vgpu-mode": ("hami-core", "mig", "mps"), "volcano.sh/vgpu-mode": ("hami-core", "mig")}
GPU, MEMORY, PERCENT, CORES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
)
NUMBER, V_MEMORY, V_CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
K = "koordinator.sh/"


@dataclass(frozen=True)
class Odd:
    """A pod, and the name of what is odd about it; an empty name is nothing.

    Attributes
    ----------
    refused
        Whether no pod is placed for which this is said.
    """

    name: str
    limits: dict[str, str]
    annotations: dict[str, str] = field(default_factory=dict)
    refused: bool = False

    @property
    def wire(self) -> Obj:
        """The pod as it is written."""
        resources = {"limits": self.limits, "requests": self.limits}
        return {
            "metadata": {"name": "p", "namespace": "default", "uid": "p", "annotations": self.annotations},
            "spec": {"schedulerName": OURS, "containers": [{"name": "main", "resources": resources}]},
            "status": {"phase": "Pending"},
        }


def mangled(word: str, rng: Random) -> str:
    """A word that is nearly another: with a letter more, less, changed or in the other case, or nothing of it."""
    at = rng.randrange(len(word))
    return rng.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + rng.choice("xyz") + word[at:],
            word[:at] + word[at:].upper(),
            f" {word}",
            f"{word} ",
            word + word,
            rng.choice(["", "default", "true", "0", "*", "fast"]),
        ]
    )


def unlike(words: tuple[str, ...], rng: Random, *, contained: bool = False) -> str:
    """A text that is none of some words, and if ``contained`` has none of them anywhere."""
    while True:
        found = mangled(rng.choice(words), rng)
        if found not in words and not (contained and any(word in found for word in words)):
            return found


def policy_words(asked: dict[str, str], rng: Random) -> Odd:
    """A pod with a word of a policy that is not known, which every dialect reads."""
    name, words = rng.choice(
        [
            ("hami.io/node-scheduler-policy", ("binpack", "spread")),
            ("hami.io/gpu-scheduler-policy", ("binpack", "spread", "mutex", "numa", "topology-aware")),
        ]
    )
    return Odd(name, asked, {name: unlike(words, rng)})


def of_hami(vendor: Vendor, seed: int) -> Iterator[Odd]:
    """Odd pods that ask for the cards of one vendor."""
    rng = Random(f"{vendor.key} {seed}")
    plain = cards_of_vendors.wants(vendor, np.random.default_rng(seed))
    if isinstance(vendor.claims, ShareRequests):
        plain[vendor.claims.count] = "1"
        if vendor.claims.cores_of_card:
            plain[vendor.claims.cores] = str(rng.randint(1, 50))
    yield Odd("nvidia.com/numa-bind", plain, {"nvidia.com/numa-bind": rng.choice(NO_BOOLEANS)})
    yield policy_words(plain, rng)
    for name in vendor.options.annotations if vendor.options else ():
        nothing = vendor.options.followed_by_node.get(name)
        value = rng.choice(NO_BOOLEANS) if name not in CLOSED else unlike(CLOSED[name], rng)
        if value != nothing:
            yield Odd(name, plain, {name: value})
    if mode := vendor.rules.mode:
        none = unlike(MODES[mode], rng, contained=True)
        yield Odd(mode, plain, {mode: none}, refused=True)
        yield Odd(mode, plain, {mode: f"{rng.choice(MODES[mode])},{none.strip() or 'x'}"})
    claims = vendor.claims
    if isinstance(claims, ShareRequests):
        memory = str(max(8192 // claims.memory_factor, 1))
        for name in filter(None, (claims.memory, claims.memory_percent)):
            yield Odd(name, {claims.count: "1", name: rng.choice(["0", "0Mi", "0k"])})
        for name in claims.amounts:
            yield Odd(claims.count, {claims.count: "0", name: str(rng.randint(1, 90))})
        if claims.memory_percent:
            both = {claims.memory: memory, claims.memory_percent: str(rng.randint(1, 100))}
            yield Odd(claims.memory_percent, {claims.count: "1", **both})
            yield Odd(claims.memory_percent, {claims.count: "1", claims.memory_percent: str(rng.randint(101, 999))})
    elif vendor.key == "Enflame":
        slices, memory, cores = claims.resources
        for other in (memory, cores):
            yield Odd(other, {slices: "1", other: str(rng.randint(1, 50))})
            yield Odd(slices, {slices: "0", other: str(rng.randint(1, 50))})
    elif vendor.key == "AWSNeuron":
        devices, cut = claims.resources
        yield Odd(cut, {devices: "1", cut: str(rng.randint(1, 3))})
        yield Odd(devices, {devices: "0", cut: str(rng.randint(1, 3))})
    if vendor.key == "Mthreads":
        count, memory, cores = "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"
        yield Odd(memory, {count: "1", memory: str(rng.choice([3, 5, 7, 10, 20]))})
        for name in (memory, cores):
            yield Odd(name, {count: "2", name: str(2 * rng.randint(1, 7) + 1)})
    if vendor.key == "Metax-SGPU":
        online = {"metax-tech.com/sgpu-app-class": rng.choice(["online", "offline"])}
        yield Odd("metax-tech.com/sgpu:", {"metax-tech.com/sgpu": "2"}, online)
    if vendor.key.startswith("Ascend"):
        chip = f"huawei.com/{vendor.key}"
        yield Odd(f"{chip}-core", {chip: "1", f"{chip}-memory": "2000", f"{chip}-core": str(rng.randint(1, 8))})
        yield Odd(f"{chip}-memory", {chip: "2", f"{chip}-memory": str(rng.randint(100, 2000))})
    if vendor.key == "NVIDIA":
        yield Odd("nvidia.com/priority", {**plain, "nvidia.com/priority": str(rng.randint(2, 99))})


def of_volcano(seed: int) -> Iterator[Odd]:
    """Odd pods that ask for Volcano's cards."""
    rng = Random(seed)
    plain = {NUMBER: "1", V_MEMORY: str(rng.randint(1, 4000))}
    mode = "volcano.sh/vgpu-mode"
    yield policy_words(plain, rng)
    yield Odd(mode, plain, {mode: unlike(MODES[mode], rng)}, refused=True)
    yield Odd(V_MEMORY, {NUMBER: "1", V_MEMORY: rng.choice(["0", "0Mi", "0k"])})
    yield Odd(NUMBER, {NUMBER: rng.choice(["0", "0k"]), V_CORES: str(rng.randint(1, 99))})
    use, nouse = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
    yield Odd(use, plain, {use: rng.choice(["A10, T4", "A10,", ",A10", " a10,A10", "A10,,T4"])})
    yield Odd(nouse, plain, {nouse: rng.choice(["H100 , T4", "H100, T4", " H100"])})
    yield Odd(nouse, plain, {use: "A10", nouse: "H100"})


def of_koordinator(seed: int) -> Iterator[Odd]:
    """Odd pods that ask for Koordinator's devices."""
    rng = Random(seed)
    plain = {f"{K}gpu-core": str(rng.randint(1, 100)), f"{K}gpu-memory-ratio": str(rng.randint(1, 100))}
    zero = rng.choice(["0", "0k", "0Mi"])
    yield policy_words(plain, rng)
    for name in ("gpu", "gpu.shared", "gpu-memory"):
        yield Odd(K + name, {**plain, K + name: zero})
    yield Odd(f"{K}gpu-core", {f"{K}gpu-memory-ratio": str(rng.randint(1, 100)), f"{K}gpu-core": zero})
    yield Odd("nvidia.com/gpu", {**plain, "nvidia.com/gpu": "0"})
    yield Odd(f"{K}gpu-memory", {f"{K}gpu-core": "50", f"{K}gpu-memory": str(rng.choice([1024, 8192, 24576, 1000000]))})


def right(vendor: Vendor, seed: int) -> Odd:
    """A pod of a vendor that means what it says."""
    rng = Random(seed)
    annotations = {"nvidia.com/numa-bind": rng.choice(BOOLEANS)}
    for name in vendor.options.annotations if vendor.options else ():
        annotations[name] = rng.choice(CLOSED.get(name, BOOLEANS))
    if vendor.rules.mode:
        listed = rng.sample(MODES[vendor.rules.mode], rng.randint(1, 3))
        annotations[vendor.rules.mode] = rng.choice([",", ", "]).join(listed)
    limits = cards_of_vendors.wants(vendor, np.random.default_rng(seed))
    if vendor.key == "Mthreads":
        limits = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": str(rng.choice([2, 4, 8, 16, 32]))}
    if vendor.key == "Metax-SGPU":
        limits["metax-tech.com/sgpu"] = "1"
    return Odd("", limits, annotations)


def hami_engine(vendor: Vendor, **defaults: Any) -> Engine:
    """An engine with nodes of one vendor."""
    engine = Engine(EngineOptions([HAMI], PolicyDefaults(**defaults), [OURS]))
    for name in cards_of_vendors.NODES:
        listed = cards_of_vendors.node(name, [vendor], np.random.default_rng(7))
        engine.observe_node(decode_node(with_room(listed)), 0.0)
    return engine


def with_room(wire: Obj) -> Obj:
    """A node that offers its kubelet's part of whatever is asked for."""
    amounts = {"pods": "99", "cpu": "99"}
    for vendor in HAMI.claims.vendors:
        amounts |= dict.fromkeys((*vendor.claims.counts, *vendor.claims.resources), "9999999")
    wire["status"]["allocatable"] = {**amounts, **wire["status"]["allocatable"]}
    return wire


def other_engine(name: str, **defaults: Any) -> Engine:
    """An engine with a node of Volcano or Koordinator."""
    engine = engine_of({"volcano": VOLCANO, "koordinator": KOORDINATOR}[name])
    if defaults:
        engine = Engine(EngineOptions(engine.options.dialects, PolicyDefaults(**defaults), [OURS]))
    if name == "volcano":
        engine.observe_node(decode_node(volcano_node("a", "g0", "g1")), 0.0)
    else:
        engine.observe_inventory("a", beside("g0", "g1"), 0.0)
        wire = koordinator_node("a")
        wire["status"]["allocatable"] |= {f"{K}gpu": "200", f"{K}gpu.shared": "20"}
        engine.observe_node(decode_node(wire), 0.0)
    return engine
