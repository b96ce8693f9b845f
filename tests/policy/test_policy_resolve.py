"""What is in force for a pod: its annotations, then the settings."""

import tracemalloc

import pytest
from tests.policy.resources import policy

from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.model import OrderKind, TopologyConstraint
from vgpu_scheduler.policy import EffectivePolicy, Policies, PolicyDefaults, parse_weights
from vgpu_scheduler.scorers import HamiScorer, NodePolicy

NODE = "hami.io/node-scheduler-policy"
DEVICE = "hami.io/gpu-scheduler-policy"
WEIGHTS = "hami.io/device-scoring-weights"


def pod(**annotations: str) -> Pod:
    keys = {"node": NODE, "device": DEVICE, "weights": WEIGHTS}
    named = {keys[name]: value for name, value in annotations.items()}
    return decode_pod({"metadata": {"name": "p", "uid": "u", "annotations": named}, "spec": {"containers": []}})


def node_policy(found: EffectivePolicy) -> NodePolicy:
    (entry,) = found.scorers
    assert isinstance(entry.scorer, HamiScorer)
    return entry.scorer.policy


def test_the_documented_defaults() -> None:
    found = Policies(PolicyDefaults()).resolve(pod())
    assert (node_policy(found), found.choice.policy) == (NodePolicy.BINPACK, "spread")
    assert (found.choice.order, found.choice.weights) == (OrderKind.NUMA_FIRST, (1.0, 1.0, 1.0))
    assert found.source_of == {"nodes": "settings", "devices": "settings"}
    assert not found.warnings


def test_what_a_policy_says_of_groups_stays_where_the_pod_says_how_nodes_are_ranked() -> None:
    policies = Policies(PolicyDefaults())
    near = {"policy": "binpack", "together": {"key": "rack"}}
    policies.catalogue.put(policy("racks", {"nodes": near}))
    for asked in (pod(), pod(node="spread")):
        assert policies.resolve(asked).together == TopologyConstraint(
            "rack", required=False, said_by="nodes.together of ClusterVGPUPolicy racks"
        )


def test_the_settings() -> None:
    defaults = PolicyDefaults("spread", "binpack,numa", OrderKind.SCORE_FIRST)
    found = Policies(defaults).resolve(pod())
    assert (node_policy(found), found.choice.policy) == (NodePolicy.SPREAD, "binpack,numa")
    assert found.choice.order is OrderKind.SCORE_FIRST


def test_the_pod_goes_before_the_settings() -> None:
    policies = Policies(PolicyDefaults("binpack", "spread"))
    found = policies.resolve(pod(node="spread", device="mutex", weights="slot=1,core=2,memory=3"))
    assert (node_policy(found), found.choice.policy) == (NodePolicy.SPREAD, "mutex")
    assert found.choice.weights == (1.0, 3.0, 2.0)
    assert found.source_of == {"nodes": "pod", "devices": "pod"}
    only_nodes = policies.resolve(pod(node="spread"))
    assert only_nodes.source_of == {"nodes": "pod", "devices": "settings"}


@pytest.mark.parametrize(
    "value",
    ["binpack", "spread", "numa", "mutex", "binpack,numa", "mutex, numa", "topology-aware", "numa,topology-aware"],
)
def test_known_device_policies(value: str) -> None:
    for strict in (False, True):
        found = Policies(PolicyDefaults(strict_annotations=strict)).resolve(pod(device=value))
        assert (found.choice.policy, found.warnings) == (value, ())


@pytest.mark.parametrize(
    "value",
    ["", "binpark", "Spread", " binpack", "bestFit", "LeastAllocated", "bogus,numa", "binpack,", "binpack;numa"],
)
def test_unknown_device_policies_warn_once(value: str) -> None:
    found = Policies(PolicyDefaults(device_policy="binpack")).resolve(pod(device=value))
    assert found.choice.policy == (value if "," in value else "spread")
    (warning,) = found.warnings
    assert DEVICE in warning
    assert repr(value) in warning


@pytest.mark.parametrize("value", ["", "binpark", "Spread", " spread", "binpack,spread"])
def test_unknown_node_policies_pack(value: str) -> None:
    found = Policies(PolicyDefaults(node_policy="spread")).resolve(pod(node=value))
    assert node_policy(found) is NodePolicy.BINPACK
    (warning,) = found.warnings
    assert NODE in warning
    assert "binpack is used" in warning


def test_strict_annotations_refuse_instead() -> None:
    policies = Policies(PolicyDefaults(strict_annotations=True))
    assert NODE in str(policies.resolve(pod(node="binpark")).refusal)
    assert DEVICE in str(policies.resolve(pod(device="bogus,numa")).refusal)
    both = str(policies.resolve(pod(node="binpark", device="bogus")).refusal)
    assert NODE in both
    assert DEVICE in both


@pytest.mark.parametrize("node", ["", "binpark", "Spread", "binpack,spread", None])
@pytest.mark.parametrize("device", ["", "bogus", "bogus,numa", " numa ", "spread," * 300, None])
def test_a_pod_that_is_refused_is_not_told_what_would_be_used(node: str | None, device: str | None) -> None:
    given = {name: value for name, value in (("node", node), ("device", device)) if value is not None}
    found = Policies(PolicyDefaults(strict_annotations=True)).resolve(pod(**given)).refusal
    refusal = "" if found is None else str(found)
    assert bool(refusal) == (node is not None or device is not None)
    assert "is used" not in refusal
    assert not refusal or refusal.endswith(" (the pod is refused, because strict_annotations is on)")
    assert node is None or "is unknown: write binpack or spread" in refusal
    assert device is None or ": write binpack or spread or mutex or numa or topology-aware" in refusal


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("slot=1,core=1,memory=1", (1, 1, 1)),
        ("memory=3 , slot=1, core=2", (1, 3, 2)),
        ("slot=0,core=0,memory=1", (0, 1, 0)),
        ("slot= 2,core=+1,memory =01", (2, 1, 1)),
        ("slot=99999999999,core=1,memory=1", (99999999999, 1, 1)),
    ],
)
def test_weights(text: str, weights: tuple[int, int, int]) -> None:
    assert parse_weights(text) == weights


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "slot=1", "slot=1,memory=3", "slot=0,core=0,memory=0", "slot=1,core,memory=3",
        "slot=1,core=x,memory=1",
        "slot=1,core=-1,memory=1", "slot=1,core=1,bandwidth=2", "slot=1,slot=1,memory=1", "slot=1,core=1,memory=1,",
        "Slot=1,core=1,memory=1", "slot=1.5,core=1,memory=1", "slot=1=2,core=1,memory=1", "slot=٣,core=1,memory=1",
        f"slot={'9' * 400},core=1,memory=1",
    ],
)  # fmt: skip
def test_invalid_weights_refuse_the_pod(text: str) -> None:
    with pytest.raises(ValueError, match="slot"):
        parse_weights(text)
    assert WEIGHTS in str(Policies(PolicyDefaults()).resolve(pod(weights=text)).refusal)


LONG = 200_000


@pytest.mark.parametrize("annotation", ["node", "device", "weights"])
def test_long_annotations_are_cut_in_what_is_said_of_them(annotation: str) -> None:
    for text in ("x" * LONG, "x," * (LONG // 2), "🙂" * (LONG // 4), "slot=1," * (LONG // 7), "\x00" * LONG):
        found = Policies(PolicyDefaults()).resolve(pod(**{annotation: text}))
        [said] = found.warnings or (str(found.refusal),)
        assert "hami.io/" in said
        assert len(said.encode()) <= 1024


def test_a_card_order_that_is_too_long_is_not_followed() -> None:
    found = Policies(PolicyDefaults()).resolve(pod(device="binpack," * 1000))
    assert found.choice.policy == "spread"
    assert "is too long, spread is used" in found.warnings[0]


@pytest.mark.long
@pytest.mark.parametrize("annotation", ["node", "device", "weights"])
def test_long_annotations_that_come_and_go_leave_little_behind(annotation: str) -> None:
    policies = Policies(PolicyDefaults())
    policies.resolve(pod())
    tracemalloc.start()
    try:
        for number in range(200):
            policies.resolve(pod(**{annotation: "x" * LONG + f"{number:04}"}))
        for number in range(4_000):
            policies.resolve(pod(**{annotation: "x" * 100 + f"{number:04}"}))
        assert tracemalloc.get_traced_memory()[0] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_equal_resolutions_keep_their_number_while_others_come_and_go() -> None:
    policies = Policies(PolicyDefaults())
    numbers = set()
    for number in range(2000):
        policies.resolve(pod(node="x" * 20_000 + str(number)))
        numbers.add(policies.resolve(pod(node="spread")).number)
    assert len(numbers) == 1
