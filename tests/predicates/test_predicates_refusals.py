"""What is refused by name, what is held back, and the message."""

import pytest
from tests.kube.objects import Obj, pod
from tests.naive.predicates import REQUIRED

from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import CardReason, ClusterEvent
from vgpu_scheduler.predicates import gated, reasons, spec_errors, unschedulable_message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{}, {"labelSelector": {"matchLabels": {"-": "x"}}}]}}},
            f"spec.affinity.podAntiAffinity.{REQUIRED}[1]:",
        ),
        ({"volumes": [{"name": "a", "notInventedYet": {}}]}, "spec.volumes[0].notInventedYet"),
        ({"resourceClaims": [{"name": "c"}]}, "spec.resourceClaims"),
        ({"schedulingGroup": {}}, "spec.schedulingGroup"),
        ({"schedulingGroup": {"podGroupName": ""}}, "spec.schedulingGroup"),
        ({"schedulingGroup": {"compositePodGroupName": "g"}}, "spec.schedulingGroup.compositePodGroupName"),
        ({"schedulingGroup": {"podGroupName": "g", "rank": 3}}, "spec.schedulingGroup.rank"),
        ({"workloadRef": {"name": "w"}}, "spec.workloadRef"),
    ],
)  # fmt: skip
def test_refused_by_name(spec: Obj, field: str) -> None:
    assert [text.split(" ")[0] for text in spec_errors(decode_pod(pod(**spec)))] == [field]


def test_the_text_is_a_sentence() -> None:
    (text,) = spec_errors(decode_pod(pod(resourceClaims=[{"name": "c"}])))
    assert text == (
        "spec.resourceClaims is not supported: this scheduler does not check dynamic resource allocation, so it will "
        "not place the pod"
    )


def test_not_refused() -> None:
    local = ["projected", "configMap", "secret", "emptyDir", "hostPath", "downwardAPI", "image", "nfs", "csi"]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    harmless = pod(
        {"name": "c", "ports": [{"containerPort": 80}, {"hostPort": 80}]},
        volumes=[
            *({"name": f"v{index}", source: {}} for index, source in enumerate(local)),
            {"name": "claimed", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "made", "ephemeral": {}},
            {"name": "disk", "gcePersistentDisk": {"pdName": "d"}},
            {"name": "target", "iscsi": {"iqn": "t"}},
        ],
        affinity={
            "podAffinity": {preferred: [{}], REQUIRED: [{"topologyKey": "zone"}]},
            "podAntiAffinity": {preferred: [{}], REQUIRED: [{"topologyKey": "zone"}]},
            "nodeAffinity": {preferred: [{}]},
        },
        topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}],
        initContainers=[{"name": "i", "ports": [{"hostPort": 80}]}],
        hostNetwork=True,
        hostUsers=False,
        schedulingGroup={"podGroupName": "g", "compositePodGroupName": None},
    )
    assert spec_errors(decode_pod(harmless)) == ()


def test_gates() -> None:
    assert (
        gated(decode_pod(pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))) == "waiting for scheduling gates: [a b]"
    )
    assert gated(decode_pod(pod(schedulingGates=[]))) is None


def _reasons(counts: dict[str, int]) -> dict[reasons.Reason, int]:
    return {reasons.Reason("Any", text, ClusterEvent.NONE): count for text, count in counts.items()}


@pytest.mark.parametrize(
    ("total", "counts", "rejection", "message"),
    [
        (0, {}, "", "no nodes available to schedule pods"),
        (
            3,
            {"CardInsufficientMemory": 2, "node(s) had untolerated taint(s)": 1},
            "",
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 CardInsufficientMemory.",
        ),
        (12, {"y": 2, "x": 10}, "", "0/12 nodes are available: 10 x, 2 y."),
        (5, {"y": 5}, "pod affinity terms conflict", "0/5 nodes are available: pod affinity terms conflict."),
        (2, {"y": 0}, "", "0/2 nodes are available:"),
    ],
)
def test_message(total: int, counts: dict[str, int], rejection: str, message: str) -> None:
    assert unschedulable_message(total, _reasons(counts), rejection) == message


@pytest.mark.parametrize(
    "beside", ["", " Cards are closed.", " preemption: 0/7 nodes are available: 7 No preemption victims."]
)
def test_every_reason_is_read_from_the_message_that_counts_it(beside: str) -> None:
    known = [each.text for each in vars(reasons).values() if isinstance(each, reasons.Reason)]
    assert len(known) > 20
    for text in [*known, reasons.insufficient("hugepages-2Mi").text, *(reason.text for reason in CardReason)]:
        counts = {text: 12, "node(s) had untolerated taint(s)": 3} if text != reasons.TAINT.text else {text: 12}
        assert reasons.rejections_in(unschedulable_message(15, _reasons(counts)) + beside) == (15, counts)
    assert reasons.rejections_in(unschedulable_message(3, {}, "pod affinity terms conflict")) == (3, {})
    assert reasons.rejections_in(unschedulable_message(0, {})) == (0, {})
