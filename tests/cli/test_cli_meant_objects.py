"""Pods, nodes, cards and namespaces that are not there: the one that may be meant is suggested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.cli import main


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Return a cluster of one node with a running and a waiting pod, and a pod to place."""
    objects = [
        {"kind": "Namespace", "metadata": {"name": "default"}},
        node("a", cards=1),
        running("trainer", "a", "GPU-a-0", 16384),
        pod("waiting", {GPU: 1, MEMORY: 50000}, schedulerName="vgpu-scheduler"),
    ]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    (tmp_path / "pod.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod("new", {GPU: 1})}))
    return str(tmp_path / "cluster.json"), str(tmp_path / "pod.json")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("explain waiting --node aa", "there is no node aa, did you mean a?"),
        ("defrag --for default/waitng", "no pod default/waitng that waits, did you mean default/waiting?"),
        ("defrag --for defaul/waiting", "no pod defaul/waiting that waits, did you mean default/waiting?"),
        ("simulate -f POD --without pod/default/trainr", "no such pod or node, did you mean default/trainer?"),
        ("simulate -f POD --without node/aa", "no such pod or node, did you mean a?"),
        ("simulate -f POD --without zzzzzz", "no such pod or node; write node/NAME or pod/NAMESPACE/NAME"),
        ("simulate -f POD -n defalt", "there is no namespace defalt, did you mean default?"),
        ("doctor -n defalt", "there is no pod, quota or policy in namespace defalt, did you mean default?"),
        ("doctor -n zzzzzz", "there is no pod, quota or policy in namespace zzzzzz\n"),
        ("cordon aa/GPU-a-0 --dry-run", "there is no card aa/GPU-a-0, did you mean a/GPU-a-0?"),
    ],
)
def test_what_may_be_meant_is_suggested(words: str, text: str, files: tuple[str, str]) -> None:
    cluster, written = files
    arguments = [written if word == "POD" else word for word in words.split()]
    assert text in CliRunner().invoke(main, [*arguments, "--cluster", cluster]).stderr


@pytest.mark.parametrize("words", ["simulate -f POD -n default", "doctor -n default", "explain waiting --node a"])
def test_nothing_is_suggested_for_what_is_there(words: str, files: tuple[str, str]) -> None:
    cluster, written = files
    arguments = [written if word == "POD" else word for word in words.split()]
    result = CliRunner().invoke(main, [*arguments, "--cluster", cluster])
    assert "did you mean" not in result.stderr
