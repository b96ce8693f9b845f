"""What the threat model says is proven is proven by tests that exist, and the Deployment is as it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_each_test_that_is_named_exists(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {name for named, name in NAMED if named == file} <= defined


def test_each_attack_has_its_proof() -> None:
    sections = PAGE[PAGE.index("## Entry points") : PAGE.index("## What remains")]
    rows = [
        line
        for line in sections.splitlines()
        if line.startswith("| ") and not re.match(r"\| (an att|what could)", line)
    ]
    assert len(rows) > 20
    assert not [row for row in rows if not re.search(r"`tests/[\w/]+\.py::test_\w+`[^|]*\|$", row)]


def test_the_pod_is_restricted_as_the_page_says() -> None:
    spec = yaml.safe_load((ROOT / "manifests" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    assert spec["securityContext"] | {} == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
