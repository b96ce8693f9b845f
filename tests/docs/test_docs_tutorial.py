"""The tutorial: every command of it is run, in order, and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.apiserver.binaries import assets
from tests.apiserver.control_plane import ControlPlane

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ANYTHING = "…"
_AGE = re.compile(r"\b(\d+[dhms])+\b")
_OWN = ("make .venv/ready", ".venv/bin/vgpu-scheduler demo", "export ")
"""What the test does otherwise: it has an environment, and starts the demo itself."""


@dataclass
class Command:
    """A command of the page, and what it prints there."""

    text: str
    shown: list[str] = field(default_factory=list)

    def shows(self, printed: list[str]) -> bool:
        """Tell whether something was printed as shown: a line of dots stands for any lines, dots for any end of one."""
        pattern = ""
        for line in self.shown:
            if line == _ANYTHING:
                pattern += r"(?:[^\n]*\n)*?"
            else:
                text = re.escape(_normal(line.removesuffix(_ANYTHING)))
                pattern += text + (r"[^\n]*\n" if line.endswith(_ANYTHING) else r"\n")
        return re.fullmatch(pattern, "".join(f"{_normal(line)}\n" for line in printed)) is not None


def commands() -> Iterator[Command]:
    for block in _BLOCK.findall(PAGE.read_text()):
        command: Command | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command
                command = Command(line.removeprefix("$ "))
            else:
                assert command is not None, f"no command before {line!r}"
                command.shown.append(line)
        assert command is not None
        yield command


def _normal(line: str) -> str:
    """Leave out what differs from run to run: ages, and the width of the columns that follow from them."""
    return re.sub(r" +", " ", _AGE.sub("0s", line)).rstrip()


@pytest.mark.long
@pytest.mark.alone
def test_every_command_prints_what_the_page_shows(control_plane: ControlPlane, tmp_path: Path) -> None:
    del control_plane  # where it can be had, so can kubectl
    kubectl = assets() / "kubectl"
    kubeconfig, log = tmp_path / "demo.kubeconfig", tmp_path / "demo.log"
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:{kubectl.parent}:{os.environ['PATH']}",
        "KUBECACHEDIR": str(tmp_path),
    }
    demo = [sys.executable, "-m", "vgpu_scheduler", "demo", "--once", "--keep", "--kubeconfig", str(kubeconfig)]
    with log.open("w") as out, subprocess.Popen(demo, stdout=out, stderr=out, cwd=tmp_path) as process:
        try:
            _until_kept(process, log)
            for command in commands():
                if command.text.startswith(_OWN):
                    continue
                done = subprocess.run(
                    ["bash", "-c", command.text],
                    capture_output=True,
                    text=True,
                    timeout=90,
                    check=False,
                    cwd=tmp_path,
                    env=environment,
                )
                assert command.shows(done.stdout.splitlines()), f"{command.text}\n{done.stdout}{done.stderr}"
        finally:
            process.terminate()
            process.wait(60)
    assert not kubeconfig.exists()


def _until_kept(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while "55 pods run, 3 wait" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def test_the_page_shows_what_it_is_about() -> None:
    told = [command.text for command in commands()]
    assert sum(bool(command.shown) for command in commands()) > 8
    for word in ("demo --keep", "top", "explain", "simulate", "replace"):
        assert any(word in text for text in told), word


def test_dots_stand_for_anything_and_everything_else_for_itself() -> None:
    command = Command("x", ["a   1", "…", "b …", "c"])
    assert command.shows(["a 1", "b and more", "c"])
    assert command.shows(["a 1", "anything", "at all", "b and more", "c"])
    assert not command.shows(["a 2", "b and more", "c"])
    assert not command.shows(["a 1", "b and more", "c", "d"])
