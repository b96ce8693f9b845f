"""Names of device resources that are misspelt in pods and quotas: the ones that are meant, and no others."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from tests.cli.typos import letters_off

from vgpu_scheduler.dialects import Dialect, Dialects
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.engine.device_names import OF_OTHER_PLUGINS, DeviceNames, domain_of
from vgpu_scheduler.engine.request_warnings import RequestWarnings
from vgpu_scheduler.engine.unlisted_dialects import UnlistedDialects
from vgpu_scheduler.kube import decode_pod, decode_quota

HAMI = Dialects([DIALECTS["hami"]()])
QUOTAS = sorted(HAMI.quota_resources)
COUNTS = ["nvidia.com/gpu", "vastaitech.com/va", "mthreads.com/vgpu", "hygon.com/dcunum", "birentech.com/gpu"]
OF_OTHERS = [
    "aliyun.com/gpu-mem", "aws.amazon.com/neurondevice", "cloud-tpus.google.com/v3", "devices.kubevirt.io/kvm",
    "elasticgpu.io/gpu-memory", "example.com/gpu", "furiosa.ai/rngd", "github.com/fuse", "google.com/tpu",
    "gpu.intel.com/i915", "habana.ai/gaudi", "huawei.com/npu", "hugepages-2Mi", "intel.com/qat", "nvidia.com/gds",
    "nvidia.com/hostdev", "nvidia.com/mig-1g.5gb", "nvidia.com/GP102GL_Tesla_P40", "openshift.io/mlnx", "rdma/hca",
    "qualcomm.com/qaic", "rebellions.ai/ATOM", "smarter-devices/gpio", "squat.ai/video", "tencent.com/vcuda-core",
    "vpc.amazonaws.com/pod-eni", "xilinx.com/fpga", "amd.com/npu", "amd.com/epyc", "cpu", "memory", "ephemeral-storage",
]  # fmt: skip
OF_QUOTAS = [
    "pods", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "requests.storage", "count/pods",
    "count/deployments.apps", "count/gpus.nvidia.com", "limits.ephemeral-storage", "requests.ephemeral-storage",
    "gold.storageclass.storage.k8s.io/requests.storage", "services.loadbalancers", "requests.hugepages-2Mi",
]  # fmt: skip


def of_quota(key: str, warnings: RequestWarnings | None = None, amount: str = "1") -> list[str]:
    quota = {"metadata": {"name": "q", "namespace": "n", "uid": "u"}, "spec": {"hard": {key: amount}}}
    return list((warnings or RequestWarnings(HAMI)).of_quota(decode_quota(quota)))


def domains_off(name: str) -> list[str]:
    """Return a name with each typo in its domain that leaves it a domain of its own."""
    domain, word = name.split("/")
    first, _, rest = domain.partition(".")
    return [f"{off}.{rest}/{word}" for off in letters_off(first) if off]


@pytest.mark.parametrize("name", QUOTAS)
def test_a_mistyped_domain_or_prefix_of_a_limit_is_named(name: str) -> None:
    meant = f"limits.{name}"
    typed = [*(f"limits.{off}" for off in domains_off(name)), *(f"requests.{off}" for off in domains_off(name))]
    typed += [f"limit.{name}", f"request.{name}", f"limts.{name}", f"limitss.{name}"]
    assert len(typed) > 20 or name.startswith("amd.")
    for key in typed:
        (told,) = of_quota(key)
        assert told == f"spec.hard[{key}]: there is no such limit on devices, did you mean {meant}?"


@pytest.mark.parametrize("name", QUOTAS)
def test_a_mistyped_name_of_a_limit_is_named_beside_a_right_or_wrong_domain(name: str) -> None:
    domain, word = name.split("/")
    for off in letters_off(word):
        if (other := f"{domain}/{off}") not in HAMI.resources:
            meant = DeviceNames(HAMI).meant_by(other)
            assert all(each in of_quota(f"limits.{other}")[0] for each in meant), other
            assert name in meant or len(meant) > 1 or domain in {"huawei.com", "iluvatar.ai"}, other


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_of_cards_is_named_with_the_prefix_that_limits_it(name: str) -> None:
    for off in domains_off(name):
        for prefix in ("limits.", "requests."):
            assert of_quota(f"{prefix}{off}")[0].endswith(f"did you mean requests.{name}?")


@pytest.mark.parametrize("key", [*OF_QUOTAS, *(f"{p}{n}" for p in ("limits.", "requests.") for n in OF_OTHERS)])
def test_limits_of_others_are_let_be(key: str) -> None:
    assert of_quota(key) == []


@pytest.mark.parametrize(
    "name", ["nvidea.com/gpumem", "mthreads.com/gpu", "cambricon.com/mlu", "nvidia.com/gpu.shared"]
)
def test_what_nodes_offer_is_not_misspelt(name: str) -> None:
    offering = RequestWarnings(HAMI, names=DeviceNames(HAMI, offered=lambda: {"cpu", name}))
    assert of_quota(f"requests.{name}", offering) == []
    assert offering.names.meant_by(name) == ()


@pytest.mark.parametrize("name", sorted(OF_OTHER_PLUGINS))
def test_names_of_other_device_plugins_are_no_mistake_outside_of_our_pods(name: str) -> None:
    container = {"name": "main", "resources": {"limits": {name: "1"}}}
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [container]}}
    assert of_quota(f"requests.{name}") == []
    assert list(RequestWarnings(HAMI).of_misspelt_resources(decode_pod(pod))) == []


@pytest.mark.parametrize("offered", [(), ("cpu",), ("cpu", "nvidia.com/mig-1g.5gb")])
def test_mig_instances_that_no_node_offers_are_suspicious_in_our_pods(offered: tuple[str, ...]) -> None:
    name = "nvidia.com/mig-1g.5gb"
    container = {"name": "main", "resources": {"limits": {name: "1"}}}
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [container]}}
    warnings = RequestWarnings(HAMI, names=DeviceNames(HAMI, offered=lambda: offered))
    told = [text for text in warnings.of_pod(decode_pod(pod)) if f"no node offers {name}" in text]
    assert len(told) == (offered == ("cpu",))
    assert all(text.endswith("nvidia.com/vgpu-mode: mig") for text in told)


@pytest.mark.parametrize("name", [each for each in sorted(HAMI.resources) if each.split("/")[0] != "huawei.com"])
def test_every_letter_off_of_a_resource_of_pods_is_found(name: str) -> None:
    names = DeviceNames(HAMI)
    domain, word = name.split("/")
    for typed in (f"{domain.upper()}/{word.upper()}", *domains_off(name)):
        assert names.meant_by(typed) == (name,), typed
    for off in letters_off(word):
        typed = f"{domain}/{off}"
        if off and typed not in HAMI.resources:
            assert name in names.meant_by(typed) or any(_near(off, other) for other in _beside(name)), typed


def _beside(name: str) -> list[str]:
    return [other.split("/")[1] for other in HAMI.resources if other != name and domain_of(other) == domain_of(name)]


def _near(word: str, other: str) -> bool:
    return word in letters_off(other) or abs(len(word) - len(other)) <= 1


@pytest.mark.parametrize("name", [*OF_OTHERS, *sorted(HAMI.resources), *sorted(HAMI.unknown_to_kubelet)])
def test_other_and_known_names_are_let_be(name: str) -> None:
    assert DeviceNames(HAMI).meant_by(name) == ()


@pytest.mark.parametrize("listed", [each for n in (1, 2, 3) for each in combinations(DIALECTS, n)])
def test_names_of_dialects_that_are_not_in_use_are_not_taken_for_misspelt_ones(listed: tuple[str, ...]) -> None:
    used = [DIALECTS[name]() for name in listed]
    others: list[Dialect] = [made() for name, made in DIALECTS.items() if name not in listed]
    unlisted, names = UnlistedDialects(used, others), DeviceNames(Dialects(used))
    for other in others:
        for name in other.claims.resources:
            assert not (unlisted.of_requests([name]) and names.meant_by(name)), name


@pytest.mark.parametrize(
    ("typed", "meant"), [("gpumem", "nvidia.com/gpumem"), ("gpu.shared", "nvidia.com/gpu"), ("va", "vastaitech.com/va")]
)
def test_a_name_without_a_domain_is_the_one_of_the_cards_that_nodes_have(typed: str, meant: str) -> None:
    vendors: Any = lambda: {("hami", "NVIDIA"), ("hami", "Vastai")}  # noqa: E731
    assert DeviceNames(HAMI, vendors=vendors).meant_by(typed) == (meant,)
