"""The command line as a whole: what it lists, and what it does not import for that."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.cli.main import COMMANDS, main

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
COMMANDS_PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
WIDTH = {"terminal_width": 100, "max_content_width": 100}
HEAVY = {"kopf", "numba", "numpy", "kubernetes_asyncio", "aiohttp", "pydantic"}

ATTEMPT = """
import sys
import click
from vgpu_scheduler.cli import main

try:
    main(sys.argv[1:], standalone_mode=False)
except (click.UsageError, SystemExit) as error:
    print(error)
print("imported", *sorted(sys.modules))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_listed_is_the_beginning_of_a_commands_help(name: str) -> None:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    assert (found.help or "").startswith(COMMANDS[name].about)
    assert found.name == name
    listed = CliRunner().invoke(main, ["--help"]).output
    assert re.search(rf"^  {name}[ ,]", listed, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["no-such-command"],
        *([name, "--help"] for name in COMMANDS),
        *([name, "--no-such-option"] for name in COMMANDS),
        ["simulate", "-f", "no-such-file"],
    ],
)
def test_help_and_mistakes_import_nothing_that_takes_time(arguments: list[str]) -> None:
    command = [sys.executable, "-c", ATTEMPT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.rpartition("imported ")[2].split())
    assert "click" in imported
    assert not imported & HEAVY


def test_a_misspelt_command_is_told_which_is_meant() -> None:
    result = CliRunner().invoke(main, ["tpo"])
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: there is no command tpo, did you mean top?\n")
    assert "there is no command xyzzy\n" in CliRunner().invoke(main, ["xyzzy"]).stderr


def test_the_demo_says_where_it_is_when_its_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vgpu_devcluster", None)
    result = CliRunner().invoke(main, ["demo", "--once"])
    assert result.exit_code == 2
    assert "Error: the demo runs on an embedded cluster, which is a package of its own" in result.stderr
    assert "pip install vgpu-devcluster" in result.stderr
    assert CliRunner().invoke(main, ["demo", "--help"]).exit_code == 0


@pytest.mark.parametrize("name", ["explain", "doctor", "simulate", "backtest", "cordon", "snapshot", "top"])
@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (ZeroDivisionError("a mistake of ours"), 2)])
def test_an_interrupted_or_broken_command_does_not_look_like_an_answer(
    monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException, status: int
) -> None:
    """An answer may have the exit code 1: a pod fits nowhere, or something was found."""
    command = main.get_command(click.Context(main), name)
    assert command is not None

    def end(_: click.Context) -> None:
        raise error

    monkeypatch.setattr(command, "invoke", end)
    arguments = {"explain": ["p"], "cordon": ["GPU-1"], "backtest": ["--log", str(PYPROJECT)]}.get(name, [])
    result = CliRunner().invoke(main, [name, *arguments])
    assert (result.exit_code, result.stdout) == (status, "")
    assert ("a mistake of ours" in result.stderr) == (status == 2)
    assert bool(result.stderr) == (status == 2)


def test_the_plugin_calls_itself_as_kubectl_calls_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
    monkeypatch.setattr(sys, "argv", ["kubectl-vgpu", "top", "-h"])
    with pytest.raises(SystemExit):
        EntryPoint("kubectl-vgpu", scripts["kubectl-vgpu"], "console_scripts").load()()
    assert capsys.readouterr().out.startswith("Usage: kubectl vgpu top [OPTIONS]")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_the_commands_shows_what_they_print(name: str) -> None:
    help_text = CliRunner().invoke(main, [name, "--help"], prog_name="vgpu-scheduler", **WIDTH).stdout
    assert f"## {name}\n\n```text\n{help_text.rstrip()}\n```\n" in COMMANDS_PAGE.read_text()


COMPLETE = """
import sys
from importlib.metadata import EntryPoint

EntryPoint("kubectl_complete-vgpu", sys.argv.pop(1), "console_scripts").load()()
print("imported", *sorted(sys.modules), file=sys.stderr)
"""


def complete(*words: str) -> list[str]:
    """Call what kubectl would call, as the package names it, and return its lines."""
    scripts = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
    command = [sys.executable, "-c", COMPLETE, scripts["kubectl_complete-vgpu"], *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not set(done.stderr.rpartition("imported ")[2].split()) & HEAVY
    return done.stdout.splitlines()


def test_kubectl_completes_commands() -> None:
    *found, directive = complete("")
    assert directive == ":4"
    assert [line.partition("\t")[0] for line in found] == list(COMMANDS)
    assert "top\tShow the usage of cards." in found


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("s",), ["settings", "shadow", "simulate", "snapshot", ":4"]),
        (("top", "n"), ["nodes", "namespaces", ":4"]),
        (("top", "cards", "-o", ""), ["table", "wide", "name", "json", "yaml", ":4"]),
        (("top", "cards", "--output=w"), ["wide", ":4"]),
        (("simulate", "--pol"), ["--policy", ":4"]),
        (("simulate", "-f", "pods"), [":0"]),
        (("explain", "--nod"), ["--node", ":4"]),
    ],
)
def test_kubectl_completes_arguments_and_options(words: tuple[str, ...], lines: list[str]) -> None:
    assert [line.partition("\t")[0] for line in complete(*words)] == lines


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_VGPU_SCHEDULER_COMPLETE" in result.output


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("top", "cards", "-o", "name"),
        ("top", "cards"),
        ("top", "cards", "-o", "json"),
        ("simulate", "--pending", "-A"),
        ("simulate", "--pending", "-A", "-o", "yaml"),
        ("explain", "asked"),
        ("defrag",),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_reader_that_reads_no_more_is_no_error(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    items = [node("a"), running("held", "a", "GPU-a-0", 1000), pod("asked", {GPU: 1, MEMORY: 90000})]
    file.write_text(json.dumps({"kind": "List", "items": items}))
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "vgpu_scheduler.cli", *words, "--cluster", str(file)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert "Broken pipe" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 141


@pytest.mark.parametrize("words", [("settings",), ("top", "cards"), ("defrag",)], ids=" ".join)
def test_output_that_cannot_be_written_is_an_error_in_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [node("a"), pod("asked", {GPU: 1, MEMORY: 1000})]}))
    at = [] if words == ("settings",) else ["--cluster", str(file)]
    command = [sys.executable, "-m", "vgpu_scheduler.cli", *words, *at]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "Error: the output cannot be written: No space left on device"
    closed = subprocess.run(["bash", "-c", '"$@" >&-', "-", *command], stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in closed.stderr
    assert closed.returncode == (1 if words == ("defrag",) else 0)  # its answer: there is nothing to move


INTERRUPTED = """
import sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
from vgpu_scheduler.cli import main
main(["settings"])
"""


@pytest.mark.parametrize(
    "module",
    [
        "click",
        "vgpu_scheduler.cli.main",
        "vgpu_scheduler.cli.unwritable_output",
        "vgpu_scheduler.cli.commands.settings",
        "yaml",
    ],
)
def test_an_interrupt_while_python_starts_prints_nothing(module: str) -> None:
    """Whichever module is being imported when Ctrl-C is pressed."""
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
