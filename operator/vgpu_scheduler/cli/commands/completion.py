"""``vgpu-scheduler completion``: completes commands in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "vgpu-scheduler"
_VARIABLE = "_VGPU_SCHEDULER_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands in a shell.

    In bash: source <(vgpu-scheduler completion bash).
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
