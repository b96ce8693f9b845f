"""What tenants are told where settings, pods or nodes may not be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.tenant_view import NAMESPACE, decided
from tests.kube import storage_objects as storage
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

EVERYTHING = frozenset(KINDS.values())


def of_team(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"]["namespace"] = NAMESPACE
    return obj


def quota(memory: int) -> dict[str, Any]:
    hard = {"hard": {"limits.nvidia.com/gpumem": str(memory)}}
    return {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NAMESPACE}, "spec": hard, "status": hard}


@pytest.fixture
def team(api: Api) -> Api:
    """A quota of 10000 MiB, of which a running pod holds 9000; the pod p waits with a condition."""
    held, waiting = of_team(running("held", "a", "GPU-a-0", 9000)), of_team(pod("p", {GPU: 1, MEMORY: 1500}))
    waiting["metadata"]["uid"] = "p"
    namespace = {"kind": "Namespace", "metadata": {"name": NAMESPACE}}
    api.objects[:] = [node("a"), namespace, quota(10000), held, waiting]
    assert decided(api, "p") == ""
    return api


def test_a_scheduler_that_tried_a_pod_is_not_called_unknown_where_settings_are_assumed(team: Api) -> None:
    waiting = team.objects[-2]
    assert waiting["metadata"]["name"] == "p"
    waiting["spec"]["schedulerName"] = "vgpu-scheduler-a"
    team.refused = EVERYTHING
    result = run("explain", "p", "-n", NAMESPACE)
    assumed = "settings: assumed (the defaults, with every dialect; use --config for others)"
    assert assumed in result.stderr.splitlines()
    assert "No scheduler known here" not in result.stdout
    assert "create it anew" not in result.stdout
    assert json.loads(run("explain", "p", "-n", NAMESPACE, "-o", "json").stdout)["scheduler"]["ours"] is True
    team.settings = "scheduler_names: [vgpu-scheduler]\n"  # now it is known that this is another one
    result = run("explain", "p", "-n", NAMESPACE)
    assert "settings: assumed" not in result.stderr
    assert "No scheduler known here places it: it names the scheduler vgpu-scheduler-a (is vgpu-" in result.stdout
    team.settings = None
    waiting["status"]["conditions"] = []
    assert "No scheduler known here places it" in run("explain", "p", "-n", NAMESPACE).stdout


@pytest.mark.parametrize("count", [(), ("--count", "max")])
def test_quotas_are_not_compared_with_pods_that_may_not_be_listed(
    team: Api, tmp_path: Path, count: tuple[str, ...]
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(of_team(pod("new", {GPU: 1, MEMORY: 1500}))))
    team.refused = EVERYTHING
    asked = ("simulate", "-f", str(path), "-n", NAMESPACE, *count)
    seen = run(*asked)
    told = "warning: the quotas of namespace team are left out: what its pods use takes the right to list pods"
    assert "9000 of 10000" in seen.stdout or "0 copies" in seen.stdout
    assert told not in seen.stderr.splitlines()
    team.refused_everywhere = frozenset({"Pod"})
    unseen = run(*asked)
    assert told in unseen.stderr.splitlines()
    assert "of 10000" not in unseen.stdout


def test_pods_that_may_not_be_listed_are_not_said_not_to_wait(team: Api) -> None:
    team.refused = EVERYTHING
    assert "team/p" in run("simulate", "--pending", "-n", NAMESPACE).stdout
    team.refused_everywhere = frozenset({"Pod"})
    for more in ((), ("-l", "a=b")):
        result = run("simulate", "--pending", "-n", NAMESPACE, *more)
        assert (result.exit_code, result.stdout) == (2, "")
        told = "warning: the pods of namespace team cannot be listed: whether some wait is not known"
        assert told in result.stderr.splitlines()


def test_a_workload_without_pods_is_no_question_about_those_that_wait(team: Api, tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", {GPU: 1})["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    path = tmp_path / "web.yaml"
    path.write_text(
        yaml.safe_dump({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": spec})
    )
    team.refused = EVERYTHING
    result = run("simulate", "-f", str(path), "-n", NAMESPACE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "it contains no pod to place" in result.stderr


def test_options_that_change_nothing_without_nodes_are_named(team: Api) -> None:
    team.refused = EVERYTHING
    options = ("--without", "pod/team/nosuch", "--add-node", "b=3", "--preempt", "--explain")
    result = run("simulate", "--pending", "-n", NAMESPACE, *options)
    told = (
        "warning: --add-node, --without, --preempt, --explain: not taken into account, since the nodes cannot be read"
    )
    assert told in result.stderr.splitlines()
    explained = run("explain", "p", "-n", NAMESPACE, "--node", "b")
    assert "warning: --node b: not taken into account, since the nodes cannot be read" in explained.stderr.splitlines()


def test_a_claim_that_the_scheduler_does_not_object_to_is_no_reason_to_wait(team: Api) -> None:
    """Its class, which may not be read, waits for the first consumer."""
    waiting = next(each for each in team.objects if each["metadata"]["name"] == "p")
    claim = {"kind": "PersistentVolumeClaim", **storage.claim("data", NAMESPACE)}
    waiting["spec"]["volumes"] = [storage.claim_volume("data")]
    team.objects.append(claim)
    team.refused = EVERYTHING
    asked = ("simulate", "--pending", "-n", NAMESPACE)
    assert "PersistentVolumeClaim data" not in run(*asked).stdout
    assert "PersistentVolumeClaim data" not in run("explain", "p", "-n", NAMESPACE).stdout
    waiting["status"] = {"phase": "Pending"}
    assert "PersistentVolumeClaim data" in run(*asked).stdout
