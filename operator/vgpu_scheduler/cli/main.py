"""``vgpu-scheduler``: runs the operator, demonstrates it, and answers questions about clusters."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from vgpu_scheduler import __version__
from vgpu_scheduler.cli.unwritable_output import end_unwritable, is_unwritable, open_closed_stdout
from vgpu_scheduler.model.texts import did_you_mean


class CommandEntry(NamedTuple):
    """A command in the help, before it is imported.

    Attributes
    ----------
    module, name
        Its module in this package, and its name there.
    about
        The first sentence of its help.
    """

    module: str
    name: str
    about: str


COMMANDS: Final = {
    "backtest": CommandEntry(
        "commands.backtest", "backtest", "Replay the history of a cluster under its own policies and under others."
    ),
    "completion": CommandEntry(
        "commands.completion", "completion", "Print a script that completes commands in a shell."
    ),
    "cordon": CommandEntry("commands.cordon", "cordon", "Take cards out of service."),
    "defrag": CommandEntry("commands.defrag", "defrag", "Plan which pods to move so that whole cards become free."),
    "demo": CommandEntry("commands.demo", "demo", "Show placements on an embedded cluster with simulated cards."),
    "doctor": CommandEntry("commands.doctor", "doctor", "Look for problems in a cluster, without changing anything."),
    "explain": CommandEntry(
        "commands.explain", "explain", "Explain why a pod waits and what would help, or why it is on its node."
    ),
    "run": CommandEntry("commands.run", "run", "Run the operator."),
    "settings": CommandEntry("commands.settings", "settings", "Show every setting with its default and what it does."),
    "shadow": CommandEntry(
        "commands.shadow", "shadow", "Watch another scheduler, and report what this one would have done."
    ),
    "simulate": CommandEntry("commands.simulate", "simulate", "Place pods on a copy of a cluster."),
    "snapshot": CommandEntry(
        "commands.snapshot", "snapshot", "Write everything that decisions depend on into one file."
    ),
    "test": CommandEntry(
        "commands.test", "test", "Run unit tests for policies: files of cases, or folders of such files."
    ),
    "top": CommandEntry("commands.top", "top", "Show the usage of cards."),
    "ui": CommandEntry("commands.ui", "ui", "Show the cluster in a browser, without changing anything."),
    "uncordon": CommandEntry("commands.cordon", "uncordon", "Put cordoned cards back into service."),
    "usage": CommandEntry("commands.usage", "usage", "Show the GiB-hours and card-hours of namespaces."),
}


_ALIASES: Final = {"why": "explain"}
_FAILED: Final = 2
_INTERRUPTED: Final = 130
"""The exit status of a process ended by Ctrl-C."""


class _LazyGroup(click.Group):
    """Imports commands only when they are used, because kopf and the kernels take a second."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; exit with 130 after Ctrl-C, 141 when the output is not read, and 2 after an error.

        The exit status 1 is an answer of some commands.
        """
        open_closed_stdout()
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # ends the line with ^C
            raise SystemExit(_INTERRUPTED) from None
        except (click.UsageError, click.Abort, click.exceptions.Exit):
            raise
        except click.ClickException as error:
            error.show()
            raise SystemExit(_FAILED) from None
        except Exception as error:  # noqa: BLE001 - as Python would, but with another status
            if is_unwritable(error):
                end_unwritable(error)
            traceback.print_exc()
            raise SystemExit(_FAILED) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of that name."""
        del ctx
        entry = COMMANDS.get(_ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        found = getattr(import_module(f"vgpu_scheduler.cli.{entry.module}"), entry.name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(", ".join((name, *_others(name))), entry.about) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the requested command; suggest one if it is unknown."""
        known = (*COMMANDS, *_ALIASES)
        if args[0] not in known and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {args[0]}{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)


def _others(name: str) -> list[str]:
    """Return the aliases of a command."""
    return [alias for alias, command in _ALIASES.items() if command == name]


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vgpu-scheduler")
def main() -> None:
    """Schedule shared GPUs on Kubernetes."""


def kubectl_plugin() -> None:
    """Run as the kubectl plugin ``kubectl-vgpu``."""
    main(prog_name="kubectl vgpu")
