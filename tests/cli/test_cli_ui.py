"""``vgpu-scheduler ui`` as a process: it prints an address, serves a snapshot or a live cluster, and ends by Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

import yaml
from tests.cli.live_cluster import run
from tests.whatif.test_whatif_remedies import node, running

from vgpu_devcluster import DevCluster

OBJECTS = [node("a"), running("x", "a", "GPU-a-0", 3000)]


FROZEN = """
import atexit, gc
atexit.register(lambda: print("frozen:", gc.get_freeze_count()))
"""


@contextmanager
def serving(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command; yield the process and the address that it prints."""
    command = [sys.executable, "-m", "vgpu_scheduler.cli", "ui", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        found = re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", lines[-1])
        assert found is not None, lines
        yield process, found[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read(address: str, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with opener.open(address, timeout=10):
        pass
    with opener.open(address.partition("?")[0].rstrip("/") + path, timeout=10) as answer:
        return str(answer.read().decode())


def test_a_snapshot_is_served_until_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(OBJECTS))
    with serving("--cluster", str(file)) as (process, address):
        cards = json.loads(read(address, "/cards?format=json"))
        assert cards == json.loads(run("top", "cards", "-o", "json", "--cluster", str(file)).stdout)
        assert f"Read from {file}" in read(address, "/")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert process.returncode == 130
        assert "Traceback" not in errors


def test_a_live_cluster_is_served_with_open_streams_until_ctrl_c(tmp_path: Path) -> None:
    with DevCluster.thread() as devcluster:
        kubeconfig = str(devcluster.kubeconfig(tmp_path / "kubeconfig"))
        with serving("--kubeconfig", kubeconfig) as (process, address):
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            with opener.open(address, timeout=10):
                pass
            with opener.open(address.partition("?")[0] + "events", timeout=10) as stream:
                assert stream.readline().startswith(b"retry: ")
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=10)
            assert process.returncode == 130
            assert "Traceback" not in errors


def test_what_is_read_of_a_live_cluster_is_not_searched_for_garbage(tmp_path: Path) -> None:
    """Of a large cluster that would hold up every page for most of a second."""
    (tmp_path / "sitecustomize.py").write_text(FROZEN)
    with DevCluster.thread() as devcluster:
        kubeconfig = str(devcluster.kubeconfig(tmp_path / "kubeconfig"))
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        with serving("--kubeconfig", kubeconfig, env=environment) as (process, _):
            process.send_signal(signal.SIGINT)
            told, _ = process.communicate(timeout=10)
    assert int(told.rpartition("frozen: ")[2]) > 100_000


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(OBJECTS))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run("ui", "--cluster", str(file), "--port", str(taken.getsockname()[1]))
        assert result.exit_code == 2
        assert "address already in use" in result.stderr
    assert run("ui", "--kubeconfig", str(tmp_path / "none")).exit_code == 2
    assert run("ui", "--port", "70000").exit_code == 2
