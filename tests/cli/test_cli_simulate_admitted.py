"""Pods of files are placed as the admission webhook stores them, where it is on; else what it would do is said."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.live_cluster import run
from tests.whatif.test_whatif_admitted import ILUVATAR, hooked, node, registered
from tests.whatif.test_whatif_remedies import pod

from vgpu_scheduler.reading import admitted_form

Object = dict[str, Any]
ADMISSION = {"admission": {"enabled": True, "cert_file": "/c", "key_file": "/k"}}
COUNT, MEMORY, CORES = f"{ILUVATAR}-vgpu", f"{ILUVATAR}.vMem", f"{ILUVATAR}.vCore"


def answered(folder: Path, there: list[Object], asked: Object, settings: Object) -> tuple[list[Object], str]:
    """Return what simulate answers about the pods of an object, and what it says beside."""
    cluster, file, config = folder / "cluster.json", folder / "pod.json", folder / "settings.yaml"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": there}))
    file.write_text(json.dumps({"apiVersion": "v1", **asked}))
    config.write_text(yaml.safe_dump(settings))
    told = run("simulate", "-f", str(file), "--cluster", str(cluster), "--config", str(config), "-o", "json")
    return json.loads(told.stdout), told.stderr


def placed(folder: Path, there: list[Object], asked: Object, settings: Object) -> tuple[str, str]:
    """Return where simulate has a pod go, and what it says beside."""
    (answer,), told = answered(folder, there, asked, settings)
    return answer["node"], told


@pytest.mark.parametrize("seed", range(40))
def test_where_a_pod_goes_is_said_of_what_is_stored(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    cards = registered("hami.io/node-MR-V100-register", [32768] * int(rng.integers(1, 4)), 100, "MR-V100")
    there = [node(cards, {COUNT: 8})]
    if used := int(rng.integers(0, 60)):
        held = pod("held", {COUNT: 1, MEMORY: 8, CORES: used}, nodeName="n")
        annotations = {"hami.io/vgpu-node": "n", "hami.io/MR-V100-devices-allocated": f"c-0,MR-V100,2048,{used}:;"}
        held["metadata"]["annotations"] = annotations
        there.append({**held, "status": {"phase": "Running"}})
    asks = {COUNT: int(rng.integers(1, 4)), MEMORY: 8}
    if rng.random() < 0.7:
        asks[CORES] = int(rng.integers(1, 101)) if rng.random() < 0.8 else 100 * asks[COUNT]
    asked = pod("p", asks, schedulerName="vgpu-scheduler")
    stored = hooked(asked).pod
    assert stored is not None
    limits = stored["spec"]["containers"][0]["resources"]["limits"]
    changes = str(limits.get(CORES)) != str(asks.get(CORES))

    found, told = placed(tmp_path, there, asked, ADMISSION)
    wanted, _ = placed(tmp_path, there, dict(stored), {})
    assert found == wanted
    said = f"it asks for {limits.get(CORES)} of {CORES}"
    assert (f"placed as the admission webhook changes it: {said}" in told) is changes
    _, told = placed(tmp_path, there, asked, {})
    assert ("placed as it is written; an admission webhook" in told) is changes


def test_a_pod_that_the_webhook_refuses_is_told_so(tmp_path: Path) -> None:
    cards = registered("hami.io/node-MR-V100-register", [32768], 100, "MR-V100")
    asked = pod("p", {COUNT: 1, MEMORY: 8}, schedulerName="vgpu-scheduler")
    asked["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    _, told = placed(tmp_path, [node(cards, {COUNT: 8})], asked, ADMISSION)
    assert "though the admission webhook refuses it: container main is privileged" in told


IGNORED = {"hami.io/webhook": "ignore"}


def told_of(folder: Path, settings: Object, where: tuple[str, Object, Object], **spec: Any) -> str:
    """Return what is said of a pod that the webhook would complete, in a namespace, with labels of both."""
    namespace, of_namespace, of_pod = where
    cards = registered("hami.io/node-MR-V100-register", [32768], 100, "MR-V100")
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": of_namespace}}
    asked = pod("p", {COUNT: 2, MEMORY: 8}, metadata={"namespace": namespace, "labels": of_pod}, **spec)
    return placed(folder, [node(cards, {COUNT: 8}), home], asked, settings)[1]


@pytest.mark.parametrize(
    ("where", "home"),
    [
        (("team", IGNORED, {}), "vgpu-system"),
        (("team", {}, IGNORED), "vgpu-system"),
        (("kube-system", {}, {}), "vgpu-system"),
        (("vgpu-system", {}, {}), "vgpu-system"),
        (("gpu", {}, {}), "gpu"),
    ],
)
def test_the_webhook_is_not_asked_about_what_its_configuration_leaves_out(
    where: tuple[str, Object, Object], home: str, tmp_path: Path
) -> None:
    lease = {"lease": {"namespace": home}}
    for settings in (lease, {**lease, **ADMISSION}):
        assert "admission webhook" not in told_of(tmp_path, settings, where, schedulerName="vgpu-scheduler")
    assert "write that name, because the admission webhook does not set it" in told_of(
        tmp_path, {**lease, **ADMISSION}, where
    )
    assert "placed as if it were vgpu-scheduler; write that name\n" in told_of(tmp_path, lease, where)


@pytest.mark.parametrize(
    ("where", "home"),
    [
        (("team", {}, {}), "vgpu-system"),
        (("team", {"hami.io/webhook": "please"}, {"hami.io/webhook": "please"}), "vgpu-system"),
        (("vgpu-system", {}, {}), "gpu"),
    ],
)
def test_the_webhook_is_asked_about_all_others(where: tuple[str, Object, Object], home: str, tmp_path: Path) -> None:
    lease = {"lease": {"namespace": home}}
    told = told_of(tmp_path, {**lease, **ADMISSION}, where)
    assert "placed as the admission webhook changes it" in told
    assert "the admission webhook writes that name" in told
    assert "or have the admission webhook do so" in told_of(tmp_path, lease, where)


@pytest.mark.parametrize("cores", [{}, {CORES: 200}])
def test_what_the_webhook_does_is_decided_once_for_the_pods_of_a_template(
    cores: Object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = registered("hami.io/node-MR-V100-register", [32768] * 4, 100, "MR-V100")
    spec = pod("p", {COUNT: 2, MEMORY: 8, **cores}, schedulerName="vgpu-scheduler")["spec"]
    several = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 4, "template": {"spec": spec}}}
    calls = Counter[str]()

    def count(name: str) -> None:
        own = getattr(admitted_form, name)

        def counted(*given: Any) -> Any:
            calls[name] += 1
            return own(*given)

        monkeypatch.setattr(admitted_form, name, counted)

    count("_claims")
    count("review")
    answers, told = answered(tmp_path, [node(cards, {COUNT: 99})], {**several, "apiVersion": "apps/v1"}, ADMISSION)
    assert [bool(each["node"]) for each in answers] == [True, True, False, False]  # each takes two whole cards
    assert told.count(f"changes it: it asks for 200 of {CORES}") == (not cores)
    assert calls == {"review": 1 if cores else 4, "_claims": 2}
