"""Labels and annotations of pods that are misspelt, or in the wrong one of the two places."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.typos import letters_off

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.engine.metadata_warnings import MetadataWarnings
from vgpu_scheduler.groups import POD_ANNOTATIONS, POD_LABELS, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from vgpu_scheduler.kube import decode_pod

WARNINGS = MetadataWarnings(Dialects([made() for made in DIALECTS.values()]))
LABELS_OF_OTHERS = [
    "app", "app.kubernetes.io/name", "batch.kubernetes.io/job-name", "controller-uid", "job-name", "pod-template-hash",
    "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "jobset.sigs.k8s.io/jobset-name",
    "jobset.sigs.k8s.io/job-index", "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/group-key", "training.kubeflow.org/job-name", "training.kubeflow.org/replica-type",
    "ray.io/cluster", "ray.io/group", "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/managed",
    "kueue.x-k8s.io/priority-class", "kueue.x-k8s.io/pod-group-pod-index", "cluster.x-k8s.io/cluster-name",
    "volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/task-index", "gpu", "group", "name", "pod-group",
    "koordinator.sh/qosClass", "quota.scheduling.koordinator.sh/name", "pod.scheduling.koordinator.sh/name",
]  # fmt: skip
ANNOTATIONS_OF_OTHERS = [
    "kubernetes.io/config.source", "prometheus.io/scrape", "kubectl.kubernetes.io/default-container", "description",
    "kueue.x-k8s.io/workload", "kueue.x-k8s.io/podset-group-name", "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology", "kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/role-hash",
    "gang.scheduling.koordinator.sh/total-number", "gang.scheduling.koordinator.sh/mode",
    "gang.scheduling.koordinator.sh/waiting-time", "gang.scheduling.koordinator.sh/groups",
    "scheduling.volcano.sh/queue-name", "volcano.sh/task-spec", "volcano.sh/template-uid", "sidecar.istio.io/inject",
    "leaderworkerset.sigs.k8s.io/size", "jobset.sigs.k8s.io/replicatedjob-name", "ray.io/overwrite-container-cmd",
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "k8s.v1.cni.cncf.io/networks", "nvidia.com/driver.version", "cni.projectcalico.org/podIP", "ray.io/ft-enabled",
]  # fmt: skip


def told(labels: list[str] | None = None, annotations: list[str] | None = None) -> list[str]:
    metadata: dict[str, Any] = {"name": "p", "namespace": "n", "uid": "u"}
    metadata |= {"labels": dict.fromkeys(labels or (), "train"), "annotations": dict.fromkeys(annotations or (), "2")}
    return list(WARNINGS.of_pod(decode_pod({"metadata": metadata, "spec": {"containers": [{"name": "main"}]}})))


def typos(name: str) -> list[str]:
    """Return typos in the word of a name, and in the first part of its domain."""
    domain, slash, word = name.rpartition("/")
    if not slash:
        return [off for off in letters_off(name) if "." in off]
    first, _, rest = domain.partition(".")
    of_word = [f"{domain}/{off}" for off in letters_off(word) if off]
    return [*of_word, *(f"{off}.{rest}/{word}" for off in letters_off(first) if off)]


@pytest.mark.parametrize("name", POD_LABELS)
def test_each_typo_in_a_label_of_groups_is_told(name: str) -> None:
    for typed in typos(name):
        (text,) = told(labels=[typed])
        assert text.startswith(f"label {typed} has no effect, did you mean "), typed
        assert f"{name}?" in text or typed.count("/") == 0, text


@pytest.mark.parametrize("name", [*POD_ANNOTATIONS, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY])
def test_each_typo_in_an_annotation_of_groups_is_told(name: str) -> None:
    for typed in typos(name):
        (text,) = told(annotations=[typed])
        assert text == f"annotation {typed} has no effect, did you mean {name}?"


@pytest.mark.parametrize("name", POD_LABELS)
def test_a_label_written_as_an_annotation_is_told(name: str) -> None:
    assert told(annotations=[name]) == [f"annotation {name} has no effect: it is read from the labels of pods"]
    assert told(labels=[name], annotations=[name]) == []


@pytest.mark.parametrize("name", POD_ANNOTATIONS)
def test_an_annotation_written_as_a_label_is_told(name: str) -> None:
    assert told(labels=[name]) == [f"label {name} has no effect: it is read from the annotations of pods"]
    assert told(labels=[name], annotations=[name]) == []


def test_a_copy_in_the_other_place_is_no_mistake_of_a_pod_that_has_its_group() -> None:
    assert told(labels=[POD_LABELS[0]], annotations=[POD_LABELS[1]]) == []


@pytest.mark.parametrize("name", [*LABELS_OF_OTHERS, *POD_LABELS])
def test_labels_of_others_and_right_ones_are_let_be(name: str) -> None:
    assert told(labels=[name]) == []


@pytest.mark.parametrize("name", [*ANNOTATIONS_OF_OTHERS, *POD_ANNOTATIONS, REQUIRED_TOPOLOGY])
def test_annotations_of_others_and_right_ones_are_let_be(name: str) -> None:
    assert told(annotations=[name]) == []
