"""What tenants are told of pods of every dialect where the settings may not be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.tenant_view import NAMESPACE
from tests.doctor.ecosystems import koordinator_pod, volcano_pod

from vgpu_scheduler.whatif.objects.objects import with_uid

EVERYTHING = frozenset(KINDS.values())
BOUND = {"volcano": volcano_pod, "koordinator": koordinator_pod}
ASKED = {
    "volcano": ("volcano.sh/vgpu-memory", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 7000}),
    "hami": ("nvidia.com/gpumem", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 7000}),
}


def of_team(obj: dict[str, Any]) -> dict[str, Any]:
    found = {**obj, "kind": "Pod", "metadata": {**obj["metadata"], "namespace": NAMESPACE}}
    return {**found, "metadata": with_uid("Pod", found)}


def team(api: Api, *objects: dict[str, Any]) -> None:
    """Fill the namespace; nothing outside of it may be read, nor the settings."""
    api.objects[:] = [{"kind": "Namespace", "metadata": {"name": NAMESPACE}}, *objects]
    api.refused = EVERYTHING


def asking(name: str, limits: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    spec = {"schedulerName": "vgpu-scheduler", "containers": [container]}
    return of_team({"apiVersion": "v1", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}})


@pytest.mark.parametrize("dialect", BOUND)
def test_pods_of_every_dialect_are_shown_with_their_cards(api: Api, dialect: str) -> None:
    team(api, of_team(BOUND[dialect]("held", "a")))
    result = run("top", "pods", "-n", NAMESPACE, "-o", "json")
    assert [each["pod"].rpartition("/")[2] for each in json.loads(result.stdout)] == ["held"], result.stderr
    assert "does not list" not in result.stderr
    assert "with every dialect" in result.stderr
    told = run("explain", "pod", "held", "-n", NAMESPACE)
    assert "a-gpu-0" in told.stdout, told.output
    assert "does not list" not in told.output


@pytest.mark.parametrize("dialect", ASKED)
def test_quotas_of_every_dialect_are_compared(api: Api, dialect: str, tmp_path: Path) -> None:
    resource, limits = ASKED[dialect]
    hard = {"hard": {f"limits.{resource}": "6000"}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NAMESPACE}, "spec": hard, "status": hard}
    waiting = asking("waits", limits)
    message = "0/4 nodes are available: 2 ResourceQuotaNotFit, 2 node(s) had untolerated taint(s)."
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    waiting["status"]["conditions"] = [condition]
    team(api, quota, waiting)
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump({**asking("new", limits), "kind": "Pod"}))
    simulated = run("simulate", "-f", str(file), "-n", NAMESPACE)
    assert f"0 of 6000 MiB of limits.{resource}" in simulated.stdout, simulated.output
    remedies = json.loads(run("explain", "waits", "-n", NAMESPACE, "-o", "json").stdout)["remedies"]
    assert any(f"ask 6000 of {resource} instead of 7000" in remedy for remedy in remedies), remedies


def test_a_dialect_that_is_named_is_the_only_one(api: Api) -> None:
    team(api, asking("waits", ASKED["volcano"][1]))
    assert "belong to dialect volcano" not in run("explain", "waits", "-n", NAMESPACE).output
    named = run("explain", "waits", "-n", NAMESPACE, "--dialect", "hami")
    assert "belong to dialect volcano, which the setting dialects does not list" in named.output


def test_settings_that_can_be_read_say_which_dialects_there_are(api: Api) -> None:
    team(api, asking("waits", ASKED["volcano"][1]))
    api.settings = "dialects: [hami]\n"
    told = run("explain", "waits", "-n", NAMESPACE)
    assert "belong to dialect volcano, which the setting dialects does not list" in told.output
