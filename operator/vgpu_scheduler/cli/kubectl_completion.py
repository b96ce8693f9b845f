"""``kubectl_complete-vgpu``: completes ``kubectl vgpu`` in a shell.

kubectl calls the program of that name, where it finds one beside a plugin, with the words so far, of which the last is
to be completed. It expects one completion per line, with an explanation behind a tab, and in the last line a number
that says how the shell goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import ShellComplete

from vgpu_scheduler.cli.main import main as commands

_OFFER_FILES, _NOTHING_ELSE, _OFFER_FOLDERS = 0, 4, 16
_DIRECTIVES: Final = {"file": _OFFER_FILES, "dir": _OFFER_FOLDERS}
"""How the shell goes on, by the type of a completion."""


def main() -> None:
    """Complete the words of the command line."""
    for line in completions(sys.argv[1:]):
        click.echo(line)


def completions(words: Sequence[str]) -> list[str]:
    """Return what kubectl is told."""
    *before, incomplete = words or [""]
    found = ShellComplete(commands, {}, "kubectl vgpu", "").get_completions(before, incomplete)
    directive = next((_DIRECTIVES[item.type] for item in found if item.type in _DIRECTIVES), _NOTHING_ELSE)
    plain = [f"{item.value}\t{item.help}" if item.help else item.value for item in found if item.type == "plain"]
    return [*plain, f":{directive}"]
