"""``vgpu-scheduler snapshot --prometheus``: pods that are gone, from kube-state-metrics, and back-tests of them."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.kube_state_metrics import Lived, Samples, prometheus
from tests.cli.live_cluster import Api, run
from tests.cli.test_cli_usage import answering

HOUR = 3600.0
DAY = 24 * HOUR
SLICE = {"main": {"nvidia_com_gpu": 1.0, "nvidia_com_gpumem": 4096.0, "cpu": 0.25, "memory": 2.0**30}}


@pytest.fixture
def now() -> float:
    """Seconds since the epoch, a whole minute."""
    return time.time() // 60.0 * 60.0


def snapshot(
    api: Api, pods: list[Lived], now: float, *arguments: str, honors: bool = True
) -> tuple[list[dict[str, Any]], Any]:
    """Return the pods that are gone of a snapshot, and all of it; something plain runs all the time."""
    system = Lived("coredns", {"main": {"cpu": 0.1}}, now - 9 * DAY, now - 9 * DAY)
    with prometheus(Samples([*pods, system], now - 9 * DAY, now + HOUR, honors=honors)) as address:
        result = run("snapshot", "--prometheus", address, *arguments)
    assert result.exit_code == 0, result.output
    whole = json.loads(result.stdout)
    gone = [
        each
        for each in whole["items"]
        if "vgpu-scheduler.io/known-from" in ((each.get("metadata") or {}).get("annotations") or {})
    ]
    return gone, whole


def seconds(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone


def test_pods_that_are_gone_are_told_with_what_they_asked_for_and_when(api: Api, now: float) -> None:
    began = now - 2 * DAY
    toleration = {"key": "gpu", "operator": "Exists", "value": "", "effect": "NoSchedule"}
    pods = [
        Lived(
            "train", SLICE, began, began + 100, began + 5 * HOUR, began + 8 * HOUR, priority_class="high",
            labels={"label_app": "web", "label_unheard_of": "x"},
            annotations={"annotation_nvidia_com_use_gputype": "A100", "annotation_hami_io_use_ascend910_a_uuid": "u"},
            tolerations=[toleration], init_requests={"setup": {"nvidia_com_gpu": 1.0}},
        ),
    ]  # fmt: skip
    api.objects[0]["metadata"].setdefault("labels", {})
    api.objects[1]["metadata"]["labels"] = {"app": "other"}

    (found,), whole = snapshot(api, pods, now)

    metadata, spec, status = found["metadata"], found["spec"], found["status"]
    assert (metadata["namespace"], metadata["name"], metadata["uid"]) == ("team", "train", "uid-train")
    assert seconds(metadata["creationTimestamp"]) == began
    assert metadata["labels"] == {"app": "web"}
    assert metadata["annotations"] == {
        "nvidia.com/use-gputype": "A100",
        "hami.io/use-Ascend910A-uuid": "u",
        "vgpu-scheduler.io/known-from": "kube-state-metrics",
    }
    assert spec["schedulerName"] == "vgpu-scheduler"
    assert (spec["nodeName"], spec["priorityClassName"]) == ("node-0", "high")
    assert spec["tolerations"] == [{key: text for key, text in toleration.items() if text}]
    (container,) = spec["containers"]
    assert container == {
        "name": "main",
        "resources": {
            "requests": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "cpu": "250m", "memory": "1024Mi"},
            "limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"},
        },
    }
    assert spec["initContainers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert seconds(status["conditions"][0]["lastTransitionTime"]) == began + 100
    assert seconds(status["containerStatuses"][0]["state"]["terminated"]["finishedAt"]) == began + 5 * HOUR
    assert "vgpu-scheduler.io/pods-since" in whole["metadata"]["annotations"]


@pytest.mark.long
def test_pods_of_other_clusters_are_left_out_where_the_labels_of_this_one_are_given(api: Api, now: float) -> None:
    pods = [
        Lived(f"of-{cluster}", SLICE, now - 5 * HOUR, now - 5 * HOUR, None, now - HOUR, cluster=cluster)
        for cluster in ("west", "east", 'w"st')
    ]
    names = {each["metadata"]["name"] for each in snapshot(api, pods, now)[0]}
    assert names == {"of-west", "of-east", 'of-w"st'}
    for cluster in ("west", 'w"st'):
        (found,), _ = snapshot(api, pods, now, "--prometheus-label", f"cluster={cluster}", "--prometheus-label=job=ksm")
        assert found["metadata"]["name"] == f"of-{cluster}"
    assert snapshot(api, pods, now, "--prometheus-label", "cluster=north")[0] == []


@pytest.mark.parametrize("given", ["cluster", "=west", "1=west", "a b=west", ""])
def test_what_is_no_label_of_series_is_refused(api: Api, given: str) -> None:
    result = run("snapshot", "--prometheus", "http://127.0.0.1:1", "--prometheus-label", given)
    assert result.exit_code == 2
    assert f"{given} is no label: write NAME=VALUE" in result.stderr
    result = run("snapshot", "--prometheus-label", "cluster=west")
    assert "--prometheus-label is for --prometheus" in result.stderr


def test_windows_with_too_many_samples_for_one_query_are_halved(api: Api, now: float) -> None:
    pods = [Lived(f"p{n}", SLICE, now - (9 + n) * HOUR, now - (9 + n) * HOUR, None, now - n * HOUR) for n in range(4)]
    whole, _ = snapshot(api, pods, now)
    assert len(whole) == 4
    with prometheus(Samples(pods, now - 9 * DAY, now + HOUR, limit=2000)) as address:
        result = run("snapshot", "--prometheus", address)
    assert result.exit_code == 0, result.output
    assert [each for each in json.loads(result.stdout)["items"] if each in whole] == whole
    with prometheus(Samples(pods, now - 9 * DAY, now + HOUR, limit=50)) as address:
        result = run("snapshot", "--prometheus", address)
    assert result.exit_code == 2
    assert "too many samples" in result.stderr


def test_labels_that_prometheus_renames_are_read(api: Api, now: float) -> None:
    pods = [Lived("renamed", SLICE, now - 5 * HOUR, now - 5 * HOUR, None, now - HOUR)]
    (found,), _ = snapshot(api, pods, now, honors=False)
    assert (found["metadata"]["namespace"], found["metadata"]["name"]) == ("team", "renamed")
    assert [each["name"] for each in found["spec"]["containers"]] == ["main"]


def test_annotations_and_labels_of_policies_and_groups_are_read(api: Api, now: float) -> None:
    pod = Lived(
        "member", SLICE, now - 5 * HOUR, now - 5 * HOUR, None, now - HOUR,
        labels={"label_scheduling_x_k8s_io_pod_group": "workers"},
        annotations={
            "annotation_hami_io_node_scheduler_policy": "spread",
            "annotation_gang_scheduling_koordinator_sh_min_available": "3",
        },
    )  # fmt: skip
    (found,), _ = snapshot(api, [pod], now)
    assert found["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": "workers"}
    assert found["metadata"]["annotations"].items() >= {
        ("hami.io/node-scheduler-policy", "spread"),
        ("gang.scheduling.koordinator.sh/min-available", "3"),
    }


def test_a_pod_that_lives_between_two_samples_does_not_end_before_it_is_placed(api: Api, now: float) -> None:
    created = now - 5 * HOUR + 1
    pods = [
        Lived("short", SLICE, created, created + 40, None, created + 50),
        Lived("late", SLICE, created, created + 3 * HOUR + 11, None, created + 3 * HOUR + 50),
    ]
    for found in snapshot(api, pods, now)[0]:
        status = found["status"]
        ended = seconds(status["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
        assert all(seconds(each["lastTransitionTime"]) <= ended for each in status["conditions"])


def test_pods_of_one_name_replace_neither_each_other_nor_the_one_that_runs(
    api: Api, now: float, tmp_path: Path
) -> None:
    """Pods of StatefulSets come again under their names."""
    lives = [
        Lived("first", SLICE, now - h * HOUR, now - h * HOUR, None, now - (h - 2) * HOUR, uid=f"gone-{h}")
        for h in (9, 6)
    ]
    found, whole = snapshot(api, lives, now)
    assert len(found) == 2
    for each in whole["items"]:
        if each["kind"] == "Pod" and each["metadata"]["name"] == "first":
            each["metadata"]["namespace"] = "default"
    (tmp_path / "cluster.json").write_text(json.dumps(whole))
    cluster = ("--cluster", str(tmp_path / "cluster.json"))
    assert run("explain", "first", *cluster).stdout == run("explain", "first").stdout
    assert "twice" not in run("top", *cluster).stderr
    result = run("backtest", "--snapshot", str(tmp_path / "cluster.json"), "-o", "json")
    assert json.loads(result.stdout)["history"]["placed"] >= 2


def test_time_before_the_first_sample_is_no_past_without_pods(api: Api, now: float, tmp_path: Path) -> None:
    pods = [Lived("p", SLICE, now - 2 * DAY, now - 2 * DAY, None, now - DAY)]
    with prometheus(Samples(pods, now - 3 * DAY, now)) as address:
        result = run("snapshot", "--prometheus", address)
    since = json.loads(result.stdout)["metadata"]["annotations"]["vgpu-scheduler.io/pods-since"]
    assert datetime.fromisoformat(since).timestamp() == pytest.approx(now - 2 * DAY, abs=240)
    assert "it has metrics of kube-state-metrics only since" in result.stderr


def test_who_was_deleted_while_it_ran_or_waited_ended_when_it_was_seen_last(api: Api, now: float) -> None:
    began = now - 30 * HOUR
    pods = [
        Lived("runs", SLICE, began, began + 60, None, began + 20 * HOUR),
        Lived("waits", SLICE, began, None, None, began + 7 * HOUR),
        Lived("restarts", SLICE, began, began + 60, None, began + 3 * HOUR + 7),
    ]
    found, _ = snapshot(api, pods, now)
    ends = {
        each["metadata"]["name"]: seconds(each["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
        for each in found
    }
    lived = {each.name: each for each in pods}
    for name, end in ends.items():
        deleted = lived[name].deleted
        assert deleted is not None
        assert deleted - 120.0 <= end <= deleted, name
    assert ends.keys() == lived.keys()
    assert not next(each for each in found if each["metadata"]["name"] == "waits")["spec"].get("nodeName")


def test_only_pods_that_are_gone_ours_and_ask_for_cards_are_added(api: Api, now: float) -> None:
    began, ended = now - 3 * HOUR, now - HOUR
    next(each for each in api.objects if each["metadata"]["name"] == "first")["metadata"]["uid"] = "uid-first"
    pods = [
        Lived("ours", SLICE, began, began, None, ended),
        Lived("of-nobody-known", SLICE, began, began, None, ended, scheduler=None),
        Lived("theirs", SLICE, began, began, None, ended, scheduler="hami-scheduler"),
        Lived("plain", {"main": {"cpu": 1.0}}, began, began, None, ended),
        Lived("early", SLICE, now - 8 * DAY, now - 8 * DAY, None, now - 7.5 * DAY),
        Lived("first", SLICE, began, began),
    ]
    found, _ = snapshot(api, pods, now)
    assert sorted(each["metadata"]["name"] for each in found) == ["of-nobody-known", "ours"]
    assert all(each["spec"]["schedulerName"] == "vgpu-scheduler" for each in found)
    found, _ = snapshot(api, pods, now, "--since", "9d")
    assert "early" in {each["metadata"]["name"] for each in found}


@pytest.mark.long
@pytest.mark.parametrize(
    ("shown", "expected"),
    [(8 * 2**30, "8192Mi"), (8 * 10**9, "8000M"), (2**30 + 2**10, "1048577Ki"), (8, "8"), (0, "0")],
)
def test_amounts_in_bytes_are_none_in_gigabytes(api: Api, now: float, shown: int, expected: str) -> None:
    """MetaX reads a number without a unit as GiB."""
    asked = {"main": {"metax_tech_com_sgpu": 1.0, "metax_tech_com_vmemory": float(shown)}}
    (found,), _ = snapshot(api, [Lived("metax", asked, now - HOUR, now - HOUR, None, now - 600)], now)
    (container,) = found["spec"]["containers"]
    assert container["resources"]["limits"] == {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": expected}


@pytest.mark.long
def test_a_back_test_replays_them(api: Api, now: float, tmp_path: Path) -> None:
    pods = [
        Lived(
            f"p{n}",
            SLICE,
            now - 40 * HOUR + 9 * n,
            now - 40 * HOUR + 9 * n,
            None,
            now - 9 * HOUR,
            priority_class="that-is-gone",
        )
        for n in range(12)
    ]
    _, whole = snapshot(api, pods, now, "--since", "1d")
    (tmp_path / "cluster.json").write_text(json.dumps(whole))
    result = run("backtest", "--snapshot", str(tmp_path / "cluster.json"), "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["history"]
    assert seconds(found["from"].replace("+00:00", "Z")) == pytest.approx(now - DAY, abs=240)
    assert found["placed"] >= len(pods)
    assert "of 12 deleted pods kube-state-metrics has times and requests" in result.stderr
    assert "pods that were deleted before the snapshot are not in it" not in result.stderr
    assert "it has no PriorityClass that-is-gone: its pods are assumed to have priority 0" in result.stderr
    assert "PriorityClass" not in run("top", "--cluster", str(tmp_path / "cluster.json")).stderr


def test_without_kube_state_metrics_it_is_said(api: Api, now: float) -> None:
    with prometheus(Samples([], now - DAY, now)) as address:
        result = run("snapshot", "--prometheus", address)
    assert result.exit_code == 0
    assert "is kube-state-metrics scraped?" in result.stderr
    result = run("snapshot", "--since", "1d")
    assert result.exit_code == 2
    assert "--since is for --prometheus" in result.stderr


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((422, b'{"status":"error","error":"query processing would load too many samples"}'), "too many samples"),
        ((200, b"<html>"), "is not Prometheus"),
    ],
)
def test_what_prometheus_refuses_is_said(api: Api, answer: tuple[int, bytes], says: str) -> None:
    with answering([answer], []) as address:
        result = run("snapshot", "--prometheus", address)
    assert result.exit_code == 2
    assert address.rstrip("/") in result.stderr
    assert says in result.stderr
