"""``vgpu-scheduler``: runs the operator, shows it off, and answers questions about clusters and without one."""

from __future__ import annotations

from importlib import import_module

import click

from vgpu_scheduler import __version__

_COMMANDS = {
    "demo": "demo:demo",
    "doctor": "doctor:doctor_command",
    "run": "run:run",
    "settings": "show_settings:show_settings",
    "simulate": "simulate:simulate_command",
    "test": "policy_tests:policy_tests",
}
"""Where each command is, under this package."""


class _Commands(click.Group):
    """Commands that are imported when they are asked for: kopf and the kernels take a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None if there is none of that name."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name].split(":")
        found = getattr(import_module(f"vgpu_scheduler.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vgpu-scheduler")
def main() -> None:
    """Schedule shared GPUs on Kubernetes."""
