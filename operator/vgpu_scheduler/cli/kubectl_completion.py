"""``kubectl_complete-vgpu``: completes ``kubectl vgpu`` in a shell.

kubectl runs the program of that name, if it exists beside a plugin, with the words of the command line; the last one is
to be completed. It expects one completion per line, with an explanation after a tab, and a number in the last line that
tells the shell how to go on.
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
"""The number for the last line, by the type of a completion."""


def main() -> None:
    """Print the completions of the command line."""
    for line in completions(sys.argv[1:]):
        click.echo(line)


def completions(words: Sequence[str]) -> list[str]:
    """Return the lines to print for kubectl."""
    *before, incomplete = words or [""]
    found = ShellComplete(commands, {}, "kubectl vgpu", "").get_completions(before, incomplete)
    directive = next((_DIRECTIVES[item.type] for item in found if item.type in _DIRECTIVES), _NOTHING_ELSE)
    plain = [f"{item.value}\t{item.help}" if item.help else item.value for item in found if item.type == "plain"]
    return [*plain, f":{directive}"]
