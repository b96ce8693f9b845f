"""HAMi's metrics under HAMi's names, as a Prometheus server reads them."""

from __future__ import annotations

from collections import defaultdict

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from tests.engine.builders import allocation, asks, card, engine_with, node, node_object, pod

from vgpu_scheduler.dialects.hami import hami_metrics
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_node
from vgpu_scheduler.telemetry import Health, Metrics, serve

GIB = 2**30
Samples = dict[str, list[tuple[dict[str, str], float]]]


def samples(text: str) -> Samples:
    found: Samples = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name].append((dict(sample.labels), sample.value))
    return found


def busy(nodes: int = 1) -> Engine:
    holder = allocation("n000", ("n000-a", 2048, 30))
    return engine_with(
        [node(f"n{i:03}", [card(f"n{i:03}-a", memory=8192, count=10, index=1)]) for i in range(nodes)],
        [pod("p", asks(gpumem=2048), annotations=holder, nodeName="n000", started=True)],
    )


def test_cards_and_pods_are_told_as_hami_tells_them() -> None:
    found = samples("".join(hami_metrics(busy().state)))
    where = {
        "node": "n000",
        "device_uuid": "n000-a",
        "device_index": "1",
        "device_type": "NVIDIA-Tesla T4",
        "zone": "vGPU",
    }
    assert found["hami_gpu_memory_limit_bytes"] == [(where, 8 * GIB)]
    assert found["hami_gpu_core_limit_ratio"] == [(where, 100)]
    assert found["hami_gpu_memory_allocated_bytes"] == [({**where, "device_cores": "30"}, 2 * GIB)]
    assert found["hami_gpu_core_allocated_ratio"] == [(where, 30)]
    assert found["hami_gpu_shared_count"] == [(where, 1)]
    overview = {**where, "device_cores": "30", "device_memory_limit": "8192"}
    assert found["hami_node_gpu_overview"] == [(overview, 2 * GIB)]
    assert found["hami_node_gpu_memory_allocated_ratio"] == [(where, 0.25)]
    held = {
        "namespace": "default",
        "node": "n000",
        "pod": "p",
        "container_index": "0",
        "device_uuid": "n000-a",
        "zone": "vGPU",
    }
    assert found["hami_vgpu_memory_allocated_bytes"] == [(held, 2 * GIB)]
    assert found["hami_vgpu_core_allocated_ratio"] == [(held, 30)]
    assert [value for _, value in found["hami_build_info"]] == [1]


def test_compute_units_are_told_in_percent() -> None:
    register = '[{"id":"amd-0","count":10,"devmem":1000,"devcore":304,"type":"AMD Instinct MI300X","health":true}]'
    state = engine_with([node("n", annotations={"hami.io/node-amd-register": register})]).state
    found = samples("".join(hami_metrics(state)))
    assert [value for _, value in found["hami_gpu_core_limit_ratio"]] == [100]


def test_what_a_pod_has_is_told_in_percent_whatever_its_cards_count_in() -> None:
    register = '[{"id":"amd-0","count":10,"devmem":1000,"devcore":304,"type":"AMD","health":true}]'
    neurons = {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}
    units = {"mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "96"}
    wire = node_object("n", annotations={"hami.io/node-amd-register": register})
    wire["status"]["capacity"] = {**neurons, **units}
    limits = {"amd.com/gpu": "1", "aws.amazon.com/neuroncore": "1", "mthreads.com/vgpu": "1"}
    held = {
        "hami.io/vgpu-node": "n",
        "hami.io/amd-devices-allocated": "amd-0,AMD,10,152:;",
        "hami.io/aws-neuron-devices-allocated": "n-AWSNeuron-0,AWSNeuron,0,2:;",
        "hami.io/mthreads-vgpu-devices-allocated": "n-mthreads-0,Mthreads,512,4:;",
    }
    tenant = pod("p", {"limits": limits}, annotations=held, nodeName="n", started=True)
    found = samples("".join(hami_metrics(engine_with([decode_node(wire)], [tenant]).state)))
    shares = {"amd-0": 50, "n-AWSNeuron-0": 50, "n-mthreads-0": 25}
    for name in ("hami_vgpu_core_allocated_ratio", "hami_gpu_core_allocated_ratio"):
        assert {labels["device_uuid"]: value for labels, value in found[name]} == shares
    assert {value for _, value in found["hami_gpu_core_limit_ratio"]} == {100}


def test_mig_instances_are_told_once_they_are_made() -> None:
    made = (
        '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"n000-a","profile":"1g.5gb","placement":{"start":6,"size":1},'
        '"migUUID":"MIG-1","gpuInstanceID":9,"computeInstanceID":0}]'
    )
    engine = busy()
    notes = {**allocation("n000", ("n000-a", 2048, 30)), "hami.io/vgpu-mig-allocations": made}
    engine.observe_pod(pod("p", annotations=notes, nodeName="n000", started=True, version=2), 0.0)
    ((labels, _),) = samples("".join(hami_metrics(engine.state)))["hami_node_gpu_mig_instance_info"]
    assert labels == {
        "node": "n000", "device_uuid": "n000-a", "device_index": "1", "mig_uuid": "MIG-1", "profile": "1g.5gb",
        "gpu_instance_id": "9", "compute_instance_id": "0", "placement_start": "6", "placement_size": "1",
        "zone": "vGPU",
    }  # fmt: skip


def test_what_goes_between_two_pieces_does_no_harm() -> None:
    engine = busy(250)
    pieces = []
    for number, piece in enumerate(hami_metrics(engine.state)):
        pieces.append(piece)
        if number == 1:
            engine.remove_node("n249")
            engine.remove_pod("uid-p", 0.0)
    assert len(samples("".join(pieces))["hami_gpu_shared_count"]) == 249


async def test_they_are_served_behind_our_own_on_every_address() -> None:
    state = busy(3).state
    health = Health(lambda: "", lambda: "")
    runner, port = await serve([("127.0.0.1", 0), ("127.0.0.1", 0)], health, Metrics(), {}, lambda: hami_metrics(state))
    ports = [address[1] for address in runner.addresses]
    assert (ports[0], len(set(ports))) == (port, 2)
    try:
        for number in ports:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{number}/metrics") as answer:
                found = samples(await answer.text())
            assert len(found["hami_gpu_shared_count"]) == 3
            assert "process_cpu_seconds_total" in found
    finally:
        await runner.cleanup()
