"""What a pod or a quota hardly means is told; what belongs to others, and what is right, is not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import make_engine, pod_object

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.hami.vendors import vendors
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import volcano_dialect
from vgpu_scheduler.engine.request_warnings import RequestWarnings
from vgpu_scheduler.engine.unlisted_dialects import UnlistedDialects
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.kube import decode_pod, decode_quota
from vgpu_scheduler.model import DECISION

ALL = RequestWarnings(Dialects([hami_dialect(), volcano_dialect(), koordinator_dialect()]))


def told(
    limits: dict[str, Any], annotations: dict[str, str] | None = None, warnings: RequestWarnings = ALL
) -> list[str]:
    found = pod_object("p", uid="u")
    found["metadata"]["annotations"] = annotations or {}
    found["spec"]["containers"] = [{"name": "main", "resources": {"limits": {k: str(v) for k, v in limits.items()}}}]
    return list(warnings.of_pod(decode_pod(found)))


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpucores": 150}, "nvidia.com/gpucores: 150 is more than a whole card"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 101}, "nvidia.com/gpumem-percentage: 101 is more than"),
        (
            {"nvidia.com/gpu": 0, "nvidia.com/gpumem": 1},
            "nvidia.com/gpu is 0, so it gets no card, whatever else",
        ),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumen": 1}, "there is no device resource nvidia.com/gpumen, did you mean"),
        ({"nvidia.com/gpus": 1}, "there is no device resource nvidia.com/gpus, did you mean nvidia.com/gpu?"),
    ],
)
def test_what_is_hardly_meant_of_amounts(limits: dict[str, Any], says: str) -> None:
    (found,) = told(limits)
    assert found.startswith(f"container main: {says}")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nvidia.com/use-gputyp", "has no effect, did you mean nvidia.com/use-gputype?"),
        ("nvidia.com/gpumem", "has no effect: it is a resource, and belongs in the limits of a container"),
        ("hami.io/gpu-scheduler-polcy", "has no effect, did you mean hami.io/gpu-scheduler-policy?"),
    ],
)
def test_annotations_one_letter_off(name: str, says: str) -> None:
    assert told({"nvidia.com/gpu": 1}, {name: "x"}) == [f"annotation {name} {says}"]


def test_what_is_written_on_pods_is_not_taken_for_a_typing_error() -> None:
    """Whoever asks about a copy of a cluster shows pods that have it all."""
    dialects = [hami_dialect(), volcano_dialect(), koordinator_dialect()]
    written = {name for dialect in dialects for name in dialect.allocation.written} | {DECISION}
    assert len(written) >= 50
    assert told({"nvidia.com/gpu": 1}, dict.fromkeys(sorted(written), "x")) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("annotation", "scheduling.k8s.io/group-name"),
        ("annotation", "scheduling.volcano.sh/group-name"),
        ("label", "scheduling.x-k8s.io/pod-group"),
        ("label", "pod-group.scheduling.sigs.k8s.io"),
    ],
)
def test_groups_that_nobody_can_complete_are_told_of(kind: str, name: str) -> None:
    found = pod_object("p", uid="u")
    found["metadata"][f"{kind}s"] = {name: "workers"}
    engine = make_engine()
    (says,) = engine.request_warnings.of_pod(decode_pod(found))
    assert says.startswith(
        f"{kind} {name} names a PodGroup, a kind that the API server does not serve: pods of this group are"
    )
    engine.groups.served |= {kind.name for kind in POD_GROUP_KINDS}
    assert not list(engine.request_warnings.of_pod(decode_pod(found)))


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 100, "cpu": 1}, {}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/use-gputype": "A100", "hami.io/node-scheduler-policy": "spread"}),
        ({"nvidia.com/mig-1g.5gb": 1}, {"nvidia.com/driver.version": "1", "example.com/use-gputyp": "x"}),
        ({"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu-memory-ratio": 200}, {}),
        ({"example.com/gpumen": 1}, {"kubernetes.io/config.source": "api"}),
    ],
)
def test_what_is_right_or_belongs_to_others_is_let_be(limits: dict[str, Any], annotations: dict[str, str]) -> None:
    assert told(limits, annotations) == []


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (
            "limits.nvidia.com/gpumen",
            ["spec.hard[limits.nvidia.com/gpumen]: there is no such limit on devices, did you"],
        ),
        ("limits.nvidia.com/gpumem", []),
        ("requests.nvidia.com/gpu", []),
        ("requests.nvidia.com/mig-1g.5gb", []),
        ("pods", []),
    ],
)
def test_limits_of_quotas(key: str, says: list[str]) -> None:
    quota = {"metadata": {"name": "q", "namespace": "n", "uid": "u"}, "spec": {"hard": {key: "1"}}}
    found = list(ALL.of_quota(decode_quota(quota)))
    assert [text[: len(start)] for text, start in zip(found, says, strict=True)] == says


@pytest.mark.parametrize("amount", [101, 120, 150, 200, 1000])
@pytest.mark.parametrize("key", [each.key for each in vendors()])
def test_nobody_is_told_that_more_than_a_card_counts_as_one_where_it_is_refused(key: str, amount: int) -> None:
    dialect = hami_dialect()
    vendor = next(each for each in vendors() if each.key == key)
    for name, *_ in vendor.claims.dimensions:
        limits = {vendor.claims.counts[0]: "1", name: str(amount)}
        spec = {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}
        asked = decode_pod({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
        try:
            dialect.claims.read(asked)
        except ClaimError:
            (container,) = asked.spec.containers
            assert not [each for each in dialect.claims.request_warnings(container, {}) if "counts as" in each.text]


OF_HAMI = RequestWarnings(
    Dialects([hami_dialect()]),
    unlisted=UnlistedDialects([hami_dialect()], [volcano_dialect(), koordinator_dialect()]),
)
OF_VOLCANO = RequestWarnings(
    Dialects([volcano_dialect()]),
    unlisted=UnlistedDialects([volcano_dialect()], [hami_dialect(), koordinator_dialect()]),
)


@pytest.mark.parametrize(
    ("warnings", "limits", "says"),
    [
        (
            OF_HAMI,
            {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 4000, "cpu": 1},
            "volcano.sh/vgpu-number and volcano.sh/vgpu-memory belong to dialect volcano",
        ),
        (OF_HAMI, {"volcano.sh/vgpu-number": 2}, "volcano.sh/vgpu-number belongs to dialect volcano"),
        (OF_HAMI, {"koordinator.sh/gpu": 50}, "koordinator.sh/gpu belongs to dialect koordinator"),
        (OF_HAMI, {"koordinator.sh/gpu.shared": 2}, "koordinator.sh/gpu.shared belongs to dialect koordinator"),
        (OF_VOLCANO, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}, "nvidia.com/gpumem belongs to dialect hami"),
        (OF_VOLCANO, {"nvidia.com/gpu": 1}, ""),
        (OF_HAMI, {"nvidia.com/gpu": 1, "dcu.com/gpu": 1, "huawei.com/npu-core": 1}, ""),
        (ALL, {"volcano.sh/vgpu-number": 2}, ""),
    ],
)
def test_names_of_a_dialect_that_is_not_in_use(warnings: RequestWarnings, limits: dict[str, Any], says: str) -> None:
    found = told(limits, warnings=warnings)
    if not says:
        assert found == []
        return
    (text,) = found
    assert text.startswith(
        f"container main: {says}, which the setting dialects does not list: the pod is given no card"
    )
