"""What is remembered of pods is bounded in bytes: nobody fills the memory with large ones that come and go."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from vgpu_scheduler.kube import decode_node, decode_pod

LARGE = 200_000
Spec = Callable[[str], dict[str, Any]]
MAIN: list[dict[str, Any]] = [{"name": "c"}]


def term(text: str) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": text}}}


SPECS: dict[str, Spec] = {
    "quantity": lambda text: {
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "0" * len(text) + text[-4:]}}}]
    },
    "image": lambda text: {"containers": [{"name": "c", "image": text}]},
    "toleration": lambda text: {"containers": MAIN, "tolerations": [{"key": text, "operator": "Exists"}]},
    "nodeSelector": lambda text: {"containers": MAIN, "nodeSelector": {"a": text}},
    "anti-affinity": lambda text: {
        "containers": MAIN,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(text)]}},
    },
    "spread": lambda text: {
        "containers": MAIN,
        "topologySpreadConstraints": [{**term(text), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    },
}


def kept(make: Callable[[str], object], times: int = 200) -> int:
    """Return how many bytes stay in use after so many large objects were read and forgotten."""
    make("x" * LARGE + "0000")
    tracemalloc.start()
    try:
        for number in range(times):
            make("x" * LARGE + f"{number:04}")
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("field", SPECS)
def test_large_pods_leave_little_behind(field: str) -> None:
    metadata = {"name": "p", "namespace": "n", "uid": "u"}
    assert kept(lambda text: decode_pod({"metadata": metadata, "spec": SPECS[field](text)})) < 20 * LARGE


def test_large_nodes_leave_little_behind() -> None:
    def node(text: str) -> dict[str, Any]:
        return {"metadata": {"name": "n"}, "status": {"images": [{"names": [text], "sizeBytes": 1}]}}

    assert kept(lambda text: decode_node(node(text))) < 20 * LARGE


@pytest.mark.long
def test_specs_that_say_little_in_many_words_leave_little_behind() -> None:
    """Each is small on the wire, and many times as large in memory."""

    def spec(text: str) -> dict[str, Any]:
        terms = [{"topologyKey": "zone"}] * 250 + [term(text[-4:])]
        kind = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return {"containers": MAIN, "affinity": {"podAntiAffinity": kind}}

    metadata = {"name": "p", "namespace": "n", "uid": "u"}
    assert kept(lambda text: decode_pod({"metadata": metadata, "spec": spec(text)}), 800) < 40 * 2**20
