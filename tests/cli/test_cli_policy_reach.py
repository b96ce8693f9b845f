"""``simulate --policy``: what of a policy matches nothing is told, field by field, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.live_cluster import run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

LABELS = {
    "spec.namespaceSelector": ({"tier": "tenant"}, {"tier": "tenent"}),
    "spec.selector": ({"app": "one"}, {"app": "two"}),
    "spec.nodeSelector": ({"pool": "a"}, {"pol": "a"}),
}
CARDS = {"allow": (["A100", "nvidia"], ["A-100"]), "deny": (["a10"], ["H200", "B100"])}
FILES = {"c.yaml": "--cluster", "p.yaml": "--policy", "w.yaml": "-f"}


def drawn(rng: np.random.Generator, kind: str, name: str) -> tuple[dict[str, Any], set[str]]:
    """Return a policy, and the fields of it that match nothing."""
    spec: dict[str, Any] = {"limits": {"devicesPerPod": 9}}
    wrong: set[str] = set()
    for field, choices in LABELS.items():
        if rng.random() < 0.6 and (kind == "ClusterVGPUPolicy" or field != "spec.namespaceSelector"):
            bad = bool(rng.random() < 0.5)
            spec[field.removeprefix("spec.")] = {"matchLabels": choices[bad]}
            wrong |= {field} if bad else set()
    if "spec.namespaceSelector" in wrong:
        wrong.discard("spec.selector")  # there is nobody to select
    for field, (good, bad) in CARDS.items():
        if rng.random() < 0.5:
            chosen = [each for each in (*good, *bad) if rng.random() < 0.6] or good
            spec.setdefault("devices", {}).setdefault("types", {})[field] = chosen
            wrong |= {f"spec.devices.types.{field}: no card is a {each}" for each in chosen if each in bad}
    if rng.random() < 0.3:
        mode = str(rng.choice(["hami-core", "mps"]))
        spec.setdefault("devices", {})["modes"] = [mode]
        wrong |= {"spec.devices.modes: no card is in mode mps"} if mode == "mps" else set()
    return {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}, wrong


@pytest.mark.parametrize("seed", range(80))
def test_fields_that_match_nothing_are_told(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    kinds = ("ClusterVGPUPolicy", "VGPUPolicy")
    policies = {f"p{n}": drawn(rng, kinds[n % 2], f"p{n}") for n in range(int(rng.integers(1, 3)))}
    namespace = {"kind": "Namespace", "metadata": {"name": "default", "labels": {"tier": "tenant"}}}
    asked = pod("new", {GPU: 1, MEMORY: 100}, metadata={"labels": {"app": "one"}}, schedulerName="vgpu-scheduler")
    contents = ([namespace, node("a", labels={"pool": "a"})], [policy for policy, _ in policies.values()], [asked])
    words: list[str] = []
    for (name, flag), objects in zip(FILES.items(), contents, strict=True):
        (tmp_path / name).write_text(yaml.safe_dump_all(objects))
        words += [flag, str(tmp_path / name)]
    told = [line for line in run("simulate", *words).stderr.splitlines() if "spec." in line]
    expected = {(name, field) for name, (_, wrong) in policies.items() for field in wrong}
    found = {(name, field) for line in told for name, field in expected if f"{name}: {field}" in line}
    assert found == expected, told
    assert len(told) == len(expected), told
