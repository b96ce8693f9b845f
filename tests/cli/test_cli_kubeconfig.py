"""Kubeconfigs that are none: every command says which file, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.live_cluster import run

from vgpu_scheduler.apiclient import ConfigException, client, context_namespace

COMMANDS = (["top"], ["explain", "p"], ["doctor"], ["snapshot"], ["cordon", "card", "n/c"], ["run"])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is not a kubeconfig"),
        (b"[1, 2]", "it is not a kubeconfig"),
        (b"clusters: 3", "it is not a kubeconfig"),
        (b"\xff\xfe", "'utf-8' codec can't decode"),
        (b"a: [", "while parsing a flow node"),
        (b"{apiVersion: v1, kind: Config}", "Invalid kube-config file. Expected key current-context"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], content: bytes, says: str
) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)
    monkeypatch.setattr("vgpu_scheduler.runtime.operator.warm_up", lambda: None)
    result = run(*command, "--kubeconfig", str(file))
    assert result.exit_code == 2, result.output
    assert f"kubeconfig {file}: {says}" in result.stderr
    assert "Traceback" not in result.output


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "nowhere"
    result = run("top", "--kubeconfig", str(file))
    assert result.exit_code == 2
    assert result.stderr == f"Error: kubeconfig {file}: there is no such file\n"


def test_without_a_kubeconfig_and_outside_a_cluster_the_message_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "nowhere"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = run("top")
    assert result.exit_code == 2
    assert "there is no kubeconfig" in result.stderr
    assert "--kubeconfig" in result.stderr
    assert "Warning" not in result.stderr


def test_the_namespace_of_a_kubeconfig_that_is_none_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("[1]")
    with pytest.raises(ConfigException, match="it is not a kubeconfig"):
        context_namespace(str(file), None)
