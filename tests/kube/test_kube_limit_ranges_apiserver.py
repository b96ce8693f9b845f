"""The rule of LimitRanges on a real API server: it stores and refuses the same pods."""

from __future__ import annotations

import threading
import time
from dataclasses import astuple
from fractions import Fraction
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kube.random_limits import random_pod, random_range
from tests.kube.test_kube_limit_ranges import numbers
from tests.seeds import seeds

from vgpu_scheduler.kube import LimitRange, claim_refusals, decode_limit_range, parse_quantity
from vgpu_scheduler.whatif.objects.admission import with_defaults
from vgpu_scheduler.whatif.objects.limited import as_limited, limit_refusals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.apiserver.control_plane import ControlPlane

Obj = dict[str, Any]
NAMESPACES, PODS = 12, 8
SEEN = "limits-were-seen"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def tried(plane: ControlPlane, namespace: str, kind: str, body: Obj) -> tuple[bool, Obj]:
    """Create an object as a dry run; return whether it is accepted, and the answer."""
    status, answer = plane.request("POST", f"/api/v1/namespaces/{namespace}/{kind}?dryRun=All", body)
    assert status in {201, 403, 422}, answer
    return status == 201, answer


def add(plane: ControlPlane, limit_range: Obj) -> Obj | None:
    """Create a LimitRange; return it as it is stored, or None if it is refused."""
    namespace = limit_range["metadata"]["namespace"]
    status, answer = plane.request("POST", f"/api/v1/namespaces/{namespace}/limitranges", limit_range)
    assert status in {201, 422}, answer
    return answer if status == 201 else None


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    names = [SEEN, *(f"limits-{number}" for number in range(NAMESPACES))]
    for name in names:
        control_plane.create_namespace(name, exist_ok=True)
    yield control_plane
    for name in names:
        control_plane.request("DELETE", f"/api/v1/namespaces/{name}/limitranges")


def wait_until_seen(plane: ControlPlane, name: str) -> None:
    """Create one more LimitRange, and wait until pods take its default: those created before are seen then, too."""
    item = {"type": "Container", "default": {f"example.com/{name}": "1"}}
    assert add(plane, {"metadata": {"name": name, "namespace": SEEN}, "spec": {"limits": [item]}})
    probe = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "example"}]}}
    deadline, tick = time.monotonic() + 60, threading.Event()
    while True:
        accepted, answer = tried(plane, SEEN, "pods", probe)
        if accepted and f"example.com/{name}" in answer["spec"]["containers"][0]["resources"].get("limits", {}):
            return
        assert time.monotonic() < deadline, answer
        tick.wait(0.05)


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_the_api_server_stores_and_refuses_the_same_pods(seed: int, plane: ControlPlane) -> None:
    rng, outcomes, of_namespace = Random(seed), list[bool](), dict[str, list[LimitRange]]()
    wait_until_seen(plane, "first")
    for number in range(NAMESPACES):
        namespace, wanted = f"limits-{number}", rng.choice([1, 1, 2])
        there = of_namespace.setdefault(namespace, [])
        while len(there) < wanted:
            written = random_range(rng, f"r{len(there)}", namespace)
            if (stored := add(plane, written)) is not None:
                there.append(decode_limit_range(written))
                assert _amounts(decode_limit_range(stored)) == _amounts(there[-1])
    wait_until_seen(plane, "last")
    for namespace, there in of_namespace.items():
        for number in range(PODS):
            pod = random_pod(rng, f"p{number}")
            accepted, answer = tried(plane, namespace, "pods", pod)
            outcomes.append(accepted)
            ours = [_outcome(pod, order) for order in permutations(there)]  # the API server's has no order
            theirs = numbers(answer) if accepted else None
            assert any(found == theirs for found, _ in ours), (answer, ours, pod, there)
            if not accepted:
                assert any(_is_told(text, answer["message"]) for _, texts in ours for text in texts), (answer, ours)
    assert min(outcomes.count(True), outcomes.count(False)) > 10


def _amounts(limit_range: LimitRange) -> list[tuple[str, list[dict[str, Fraction]]]]:
    return [
        (each.type, [{name: parse_quantity(text) for name, text in amounts.items()} for amounts in astuple(each)[1:]])
        for each in limit_range.items
    ]


def _outcome(pod: Obj, ranges: Sequence[LimitRange]) -> tuple[list[Obj] | None, list[str]]:
    limited = as_limited(pod, ranges)
    refusals = list(limit_refusals(limited, ranges))
    return None if refusals else numbers(with_defaults(limited.pod, {})), refusals


def _is_told(text: str, message: str) -> bool:
    """Tell whether the API server says a reason; it shows some sums in other units."""
    *_, ends = text.rpartition(": ")
    return ends in message or ends.rpartition(" is ")[0] in message or ends.partition("must ")[2] in message


@pytest.mark.parametrize(
    "bounds", [{"min": {"storage": "2Gi"}}, {"max": {"storage": "512Mi"}}, {"max": {"storage": "1Gi"}}]
)
def test_the_api_server_refuses_the_same_claims(bounds: Obj, plane: ControlPlane) -> None:
    wait_until_seen(plane, "first")
    item = {"type": "PersistentVolumeClaim", **bounds}
    written = {"metadata": {"name": "r", "namespace": "limits-0"}, "spec": {"limits": [item]}}
    assert add(plane, written)
    wait_until_seen(plane, "last")
    claim = {"metadata": {"name": "c"}, "spec": CLAIM}
    accepted, answer = tried(plane, "limits-0", "persistentvolumeclaims", claim)
    refusals = list(map(str, claim_refusals(claim, decode_limit_range(written))))
    assert accepted is not bool(refusals)
    assert all(text in answer["message"] for text in refusals)
