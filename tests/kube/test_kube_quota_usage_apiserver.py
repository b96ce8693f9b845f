"""What pods add to quotas on a real API server: it refuses the same pods, in the same words."""

from __future__ import annotations

import re
import threading
import time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kube.random_limits import STEPS, random_pod
from tests.seeds import seeds

from vgpu_scheduler.kube import missing_amounts, quota_usage, to_nano
from vgpu_scheduler.whatif.objects.admission import with_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.apiserver.control_plane import ControlPlane

Obj = dict[str, Any]
NAMESPACES, PODS = 12, 8
OWN = ("cpu", "memory", "ephemeral-storage")
KEYS = {key: name for name in OWN for key in (name, f"requests.{name}", f"limits.{name}")}
KEYS["requests.nvidia.com/gpu"] = "nvidia.com/gpu"


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    names = [f"quotas-{number}" for number in range(NAMESPACES)]
    for name in names:
        control_plane.create_namespace(name, exist_ok=True)
    yield control_plane
    for name in names:
        control_plane.request("DELETE", f"/api/v1/namespaces/{name}/resourcequotas")


def random_hard(rng: Random) -> dict[str, str]:
    keys = rng.sample(sorted(KEYS), rng.choice([1, 1, 2]))
    return {key: rng.choice(STEPS[KEYS[key]][3:]) for key in keys}


def add_quota(plane: ControlPlane, namespace: str, hard: dict[str, str]) -> None:
    """Create a quota of which nothing is used, as its controller would write it, and wait until it is enforced."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    full = {**hard, "pods": "99"}
    status, made = plane.request("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": full}})
    assert status == 201, made
    made["status"] = {"hard": full, "used": dict.fromkeys(full, "0")}
    status, answer = plane.request("PUT", f"{path}/q/status", made)
    assert status == 200, answer
    amounts = dict.fromkeys(STEPS, "1000000Gi")
    container = {"name": "c", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    deadline, tick = time.monotonic() + 60, threading.Event()
    while True:
        _, answer = plane.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", probe)
        if "exceeded quota: q" in str(answer.get("message")):
            return
        assert time.monotonic() < deadline, answer
        tick.wait(0.05)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_the_api_server_refuses_the_same_pods_for_quotas(seed: int, plane: ControlPlane) -> None:
    rng, outcomes = Random(seed), list[str]()
    for number in range(NAMESPACES):
        namespace, hard = f"quotas-{number}", random_hard(rng)
        add_quota(plane, namespace, hard)
        for each in range(PODS):
            pod = random_pod(rng, f"p{each}")
            status, answer = plane.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
            assert status in {201, 403}, answer
            theirs = re.sub(r".*(must specify .*|exceeded quota).*", r"\1", answer["message"]) if status == 403 else ""
            assert (theirs.partition(",")[0] if "exceeded" in theirs else theirs) == _ours(pod, hard), (answer, pod)
            outcomes.append(theirs[:4])
    assert min(outcomes.count(""), outcomes.count("must"), outcomes.count("exce")) > 3, outcomes


def _ours(pod: Obj, hard: dict[str, str]) -> str:
    """Return what the pod is refused for; empty if it is not."""
    full = with_defaults(pod, {})
    if missing := missing_amounts(full, hard):
        return missing
    usage = quota_usage(full)
    return "exceeded quota" if any(usage.get(key, 0) > to_nano(most) for key, most in hard.items()) else ""
