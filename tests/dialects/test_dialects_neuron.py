"""AWS Neuron: cores, devices, and runs of devices."""

import pytest
from tests.dialects.vendors import Bench, Obj, asking

from vgpu_scheduler.dialects import ClaimError, RegistrationError
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import ClaimDefaults

DEVICES, CORES = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
ALLOCATED = "hami.io/aws-neuron-devices-allocated"


def bench(devices: int, each: int = 2, instance: str = "inf2.48xlarge") -> Bench:
    labels = {"node.kubernetes.io/instance-type": instance}
    return Bench(labels=labels, capacity={DEVICES: str(devices), CORES: str(devices * each)})


def ids(node: Bench, limits: Obj) -> str:
    found = node.try_(asking(limits))
    return found["AWS_NEURON_IDS"] if isinstance(found, dict) else found


def hold(node: Bench, *devices: int) -> None:
    """Book whole devices."""
    entries = "".join(f"n-AWSNeuron-{number},AWSNeuron,0,3:" for number in devices)
    node.book(asking({DEVICES: str(len(devices))}), {"hami.io/vgpu-node": "n", ALLOCATED: f"{entries};"})


@pytest.mark.parametrize(
    ("instance", "used", "wanted", "found"),
    [
        ("inf2.48xlarge", (), 3, "0,1,2"),
        ("inf2.48xlarge", (1,), 3, "2,3,4"),
        ("inf2.48xlarge", (2, 5, 8), 4, "1/12 NumaNotFit"),
        ("trn1.32xlarge", (), 3, "1/12 NumaNotFit"),
        ("trn1.32xlarge", (), 2, "1/12 NumaNotFit"),
        ("trn1.32xlarge", (), 4, "0,1,2,3"),
        ("trn1.32xlarge", (1,), 4, "4,5,6,7"),
        ("trn1.32xlarge", (1, 5), 8, "1/12 NumaNotFit"),
        ("", (0,), 4, "4,5,6,7"),
        ("trn1.32xlarge", (), 13, "NodeInsufficientDevice"),
    ],
)
def test_runs_of_devices(instance: str, used: tuple[int, ...], wanted: int, found: str) -> None:
    node = bench(12, instance=instance)
    if used:
        hold(node, *used)
    assert ids(node, {DEVICES: str(wanted)}) == found


def test_cores_of_a_device_one_by_one() -> None:
    node = bench(1)
    first = node.take(asking({CORES: "1"}))
    assert first[ALLOCATED] == "n-AWSNeuron-0,AWSNeuron,0,1:;"
    assert (first["AWS_NEURON_IDS"], first["NEURON_RESOURCE_TYPE"]) == ("0", CORES)
    assert node.try_(asking({DEVICES: "1"})) == "1/1 CardInsufficientCore"
    second = node.take(asking({CORES: "1"}))
    assert second[ALLOCATED] == "n-AWSNeuron-0,AWSNeuron,0,2:;"
    assert node.try_(asking({CORES: "1"})) == "1/1 CardTimeSlicingExhausted"


def test_two_containers_share_a_device_and_the_numbers_go_on_over_the_devices() -> None:
    node = bench(2)
    hold(node, 0)
    found = node.take(asking({CORES: "1"}, {}, {CORES: "1"}))
    assert found["AWS_NEURON_IDS"] == "2,3"
    assert node.used()["n-AWSNeuron-1"][:4] == (2, 0, 3, 2)


def test_the_cores_per_device_are_those_of_each_node() -> None:
    assert ids(bench(2), {CORES: "1"}) == "2"  # the last device is tried first
    node = bench(2, each=8)
    assert [node.take(asking({CORES: "1"}))["AWS_NEURON_IDS"] for _ in range(3)] == ["8", "9", "10"]
    assert node.take(asking({CORES: "2"}))["AWS_NEURON_IDS"] == "0,1,2,3,4,5,6,7"  # two are a whole device for HAMi


def test_devices_are_no_cores() -> None:
    written = bench(2).try_(asking({DEVICES: "1"}))
    assert isinstance(written, dict)
    assert "NEURON_RESOURCE_TYPE" not in written
    brought = bench(2).try_(asking({DEVICES: "1"}, {"NEURON_RESOURCE_TYPE": CORES}))
    assert isinstance(brought, dict)
    assert brought["NEURON_RESOURCE_TYPE"] == DEVICES


@pytest.mark.parametrize("mask", ["0", "256", "4"])
def test_cores_that_a_device_has_not_put_it_out_of_service(mask: str) -> None:
    node = bench(1)
    wire = asking({CORES: "1"})
    node.book(wire, {"hami.io/vgpu-node": "n", ALLOCATED: f"n-AWSNeuron-0,AWSNeuron,0,{mask}:;"})
    assert node.try_(wire) == "1/1 CardNotHealth"


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({CORES: "3"}, f"{CORES}: 3 are not a whole number of devices of 2 cores: write 4"),
        ({DEVICES: "1.5"}, f"{DEVICES}: 1.5 is not a whole number"),
        ({CORES: "-1"}, f"{CORES}: -1 is negative"),
    ],
)
def test_refused_by_name(limits: Obj, problem: str) -> None:
    with pytest.raises(ClaimError, match=f'container "c0": {problem}'):
        hami_dialect().claims.read(decode_pod(asking(limits)))


def test_a_policy_that_wants_exclusive_devices_leaves_no_core_to_others() -> None:
    (claims,) = hami_dialect().claims.read(decode_pod(asking({CORES: "1"})), ClaimDefaults(exclusive=True))
    (whole,) = hami_dialect().claims.read(decode_pod(asking({DEVICES: "1"})))
    assert claims.claims == whole.claims


def test_more_cores_than_a_device_can_have_are_not_believed() -> None:
    node = decode_node({"metadata": {"name": "n"}, "status": {"capacity": {DEVICES: "1", CORES: "1000000"}}})
    with pytest.raises(RegistrationError, match="more than a device has"):
        hami_dialect().inventory.devices(node)
