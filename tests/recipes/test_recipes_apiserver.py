"""The recipes on a real API server: it accepts them, and a snapshot of it is one that can be simulated on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from vgpu_scheduler.cli import main
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import decode_policy
from vgpu_scheduler.whatif import World, make_dialect
from vgpu_scheduler.whatif.policy_checks.forms import ShortNode

if TYPE_CHECKING:
    from tests.apiserver.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "manifests" / "policies"
KINDS = "nodes,namespaces,priorityclasses,pods,vgpupolicies,clustervgpupolicies"
CRDS = ("crd/vgpupolicies.vgpu-scheduler.io", "crd/clustervgpupolicies.vgpu-scheduler.io")


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with the CRDs, which go away again with all policies."""
    try:
        empty_control_plane.kubectl("apply", "-k", str(ROOT / "crds"))
        empty_control_plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", *CRDS)
        yield empty_control_plane
    finally:
        empty_control_plane.kubectl("delete", "--ignore-not-found", "--timeout=120s", "-k", str(ROOT / "crds"))


def test_the_recipes_are_accepted_and_a_snapshot_is_simulated_on(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kubectl("apply", "--validate=strict", "-f", str(RECIPES))
    found = json.loads(plane.kubectl("get", "clustervgpupolicies", "-o", "json").stdout)["items"]
    written = [it for path in RECIPES.glob("*.yaml") for it in yaml.safe_load_all(path.read_text())]
    assert {it["metadata"]["name"]: decode_policy(it).spec for it in found} == {
        it["metadata"]["name"]: decode_policy(it).spec for it in written
    }

    world = World(EngineOptions([make_dialect("hami")]))
    for name in ("large", "small"):
        (node,) = ShortNode(name=name, cards=8 if name == "large" else 2).objects(world)  # type: ignore[arg-type]
        plane.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", **node}))
    plane.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready-")  # admission puts it on every new node
    (tmp_path / "cluster.yaml").write_text(plane.kubectl("get", KINDS, "-A", "-o", "yaml").stdout)
    pods = ROOT / "manifests" / "examples" / "packed.yaml"
    arguments = ["simulate", "-f", str(pods), "--cluster", str(tmp_path / "cluster.yaml"), "-o", "json"]
    result = CliRunner().invoke(main, arguments)
    no_pods = "there is no Pod among the objects: the answer assumes that no pod uses cards"
    said = f"warning: {tmp_path}/cluster.yaml: {no_pods}\nsettings: assumed (the defaults; use --config for others)\n"
    assert (result.exit_code, result.stderr) == (0, said), result.output
    answers: list[dict[str, Any]] = json.loads(result.stdout)
    assert [answer["pod"] for answer in answers] == [f"default/packed-{number}" for number in range(4)]
    assert len({answer["node"] for answer in answers}) == 1
