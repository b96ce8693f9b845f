"""What counts as percent is from 0 to 100: in what pods claim, and in what nodes list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.dialects import koordinator_objects as koordinator
from tests.dialects import volcano_objects as volcano

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.errors import ClaimError, CodecError
from vgpu_scheduler.dialects.koordinator.names import CORES, RATIO, SHARE
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Claim, ClaimDefaults, Device

AMOUNTS = (0, 1, 30, 50, 99, 100, 101, 150, 200, 300, 400)
OF_GPUS = ("nvidia", "gpu", "core", "memory", "ratio", "shared")
USUAL = (("core", "memory"), ("core", "ratio"), ("shared", "core", "ratio"), ("shared", "core", "memory"))


def amount(rng: np.random.Generator, name: str) -> str:
    if name in {"shared", "nvidia"}:
        return str(int(rng.integers(0, 4)))
    return f"{rng.integers(0, 40)}Gi" if name == "memory" else str(rng.choice(AMOUNTS))


def defaults(rng: np.random.Generator) -> ClaimDefaults:
    cores = int(rng.integers(1, 101)) if rng.random() < 0.3 else None
    return ClaimDefaults(cores=cores, exclusive=bool(rng.random() < 0.2))


def claimed(dialect: Dialect, pod: Pod, said: ClaimDefaults) -> tuple[list[Claim], str]:
    """Return the claims of a pod, and why it is refused."""
    try:
        return [claim for held in dialect.claims.read(pod, said) for claim in held.claims], ""
    except ClaimError as error:
        return [], str(error)


@pytest.mark.parametrize("seed", range(20))
def test_koordinators_pods_claim_percent_of_each_device(seed: int) -> None:
    rng, told = np.random.default_rng(seed), 0
    for _ in range(200):
        names = (
            USUAL[int(rng.integers(0, len(USUAL)))]
            if rng.random() < 0.7
            else rng.choice(OF_GPUS, size=int(rng.integers(1, 4)), replace=False)
        )
        requests = {str(name): amount(rng, str(name)) for name in names}
        requests |= {kind: amount(rng, kind) for kind in ("rdma", "fpga") if rng.random() < 0.2}
        claims, refusal = claimed(koordinator.DIALECT, koordinator.pod(**requests), defaults(rng))
        assert not refusal or any(koordinator.LONG[name] in refusal for name in requests), refusal
        for claim in claims:
            told += 1
            assert all(0 <= claim.amounts[each] <= 100 for each in (SHARE, CORES, RATIO)), (requests, claim)
    assert told


@pytest.mark.parametrize("seed", range(20))
def test_volcanos_containers_claim_percent_of_each_card(seed: int) -> None:
    rng, refused = np.random.default_rng(seed), 0
    for _ in range(200):
        limits = {"n": str(int(rng.integers(1, 3)))}
        limits |= {name: str(rng.choice(AMOUNTS)) for name in ("cores", "pct") if rng.random() < 0.7}
        beyond = int(limits.get("cores", 0)) > 100 or not 1 <= int(limits.get("pct", 1)) <= 100
        written = " ".join(f"{name}={value}" for name, value in limits.items())
        pod = volcano.pod(volcano.container("main", written))
        claims, refusal = claimed(volcano.DIALECT, pod, defaults(rng))
        assert ("is not a percentage of a card" in refusal) is beyond, limits
        assert beyond or len(claims) == 1
        for claim in claims:
            assert 0 <= claim.amounts[2] <= 100
            assert 0 <= claim.percent[1] <= 100
        refused += beyond
    assert 0 < refused < 200


@pytest.mark.parametrize("seed", range(20))
def test_koordinators_nodes_list_devices_with_percent_of_themselves(seed: int) -> None:
    rng, refused = np.random.default_rng(seed), 0
    for _ in range(100):
        resources: dict[str, Any] = {"memory": f"{rng.integers(1, 80)}Gi"}
        resources |= {name: str(rng.choice(AMOUNTS)) for name in ("core", "ratio") if rng.random() < 0.8}
        devices = [koordinator.gpu(0), {**koordinator.gpu(1), "resources": koordinator.long(resources)}]
        wrong = [name for name in ("core", "ratio") if int(resources.get(name, 0)) > 100]
        inventory = koordinator.inventory(*devices)
        if not wrong:
            assert all(map(counts_percent, koordinator.DIALECT.inventory.devices(koordinator.node(), inventory)))
            continue
        refused += 1
        with pytest.raises(CodecError, match=r"Device node: spec\.devices\[1\]\.resources: .* is not a percentage"):
            koordinator.DIALECT.inventory.devices(koordinator.node(), inventory)
    assert refused


def counts_percent(device: Device) -> bool:
    in_percent = device.vendor in koordinator.DIALECT.inventory.in_percent
    return in_percent and all(0 <= device.total[each] <= 100 for each in (CORES, RATIO))


@pytest.mark.parametrize("seed", range(20))
def test_volcanos_cards_have_100_percent_whatever_is_written(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = [f"GPU-{n},{rng.integers(0, 300)},{rng.integers(0, 10**6)},A10,true,hami-core" for n in range(5)]
    inventory = volcano.DIALECT.inventory
    devices = inventory.devices(volcano.node(":".join(items) + ":"))
    assert [device.total[2] for device in devices] == [100] * 5
    assert {device.vendor for device in devices} == inventory.in_percent
