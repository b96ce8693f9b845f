"""The command line as a whole: what it lists, and what it does not import for that."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from vgpu_scheduler.cli.main import COMMANDS, main

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
    assert f"  {name} " in listed


LIGHT = [name for name in COMMANDS if name != "demo"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["no-such-command"],
        *([name, "--help"] for name in LIGHT),
        *([name, "--no-such-option"] for name in LIGHT),
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_VGPU_SCHEDULER_COMPLETE" in result.output
