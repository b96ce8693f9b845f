"""``vgpu-scheduler``: runs the operator, shows it off, and answers questions about clusters and without one."""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

import click

from vgpu_scheduler import __version__
from vgpu_scheduler.model.texts import did_you_mean

__all__ = ["COMMANDS", "kubectl_plugin", "main"]


class CommandEntry(NamedTuple):
    """A command as the help lists it, before it is imported.

    Attributes
    ----------
    module, name
        Where it is, under this package.
    about
        The first sentence of its help.
    """

    module: str
    name: str
    about: str


COMMANDS: Final = {
    "backtest": CommandEntry(
        "commands.backtest", "backtest", "Replay what happened to a cluster, under the policies of then and others."
    ),
    "completion": CommandEntry("commands.completion", "completion", "Print what completes commands in a shell."),
    "cordon": CommandEntry("commands.cordon", "cordon", "Take cards out of service."),
    "defrag": CommandEntry("commands.defrag", "defrag", "Plan which pods to move so that whole cards become free."),
    "demo": CommandEntry("commands.demo", "demo", "Show placements on an embedded cluster with simulated cards."),
    "doctor": CommandEntry(
        "commands.doctor", "doctor", "Look for what is wrong in a cluster, without changing anything."
    ),
    "explain": CommandEntry(
        "commands.explain", "explain", "Say why a pod waits and what would help, or why it is where it is."
    ),
    "run": CommandEntry("commands.run", "run", "Run the operator."),
    "settings": CommandEntry("commands.settings", "settings", "Show every setting with its default and what it does."),
    "shadow": CommandEntry(
        "commands.shadow", "shadow", "Watch another scheduler, and say what this one would have done."
    ),
    "simulate": CommandEntry("commands.simulate", "simulate", "Place pods on a copy of a cluster."),
    "snapshot": CommandEntry("commands.snapshot", "snapshot", "Write what decisions depend on into one file."),
    "test": CommandEntry(
        "commands.test", "test", "Run unit tests for policies: files of cases, or folders of such files."
    ),
    "top": CommandEntry("commands.top", "top", "Show how much of the cards is used."),
    "ui": CommandEntry("commands.ui", "ui", "Show the cluster in a browser, without changing anything."),
    "uncordon": CommandEntry("commands.cordon", "uncordon", "Put cards that were cordoned back into service."),
    "usage": CommandEntry("commands.usage", "usage", "Show how long namespaces have held how much of the cards."),
}


_ALIASES: Final = {"why": "explain"}


class _LazyGroup(click.Group):
    """Commands that are imported when they are asked for: kopf and the kernels take a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None if there is none of that name."""
        del ctx
        entry = COMMANDS.get(_ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        found = getattr(import_module(f"vgpu_scheduler.cli.{entry.module}"), entry.name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command is about, without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(", ".join((name, *_others(name))), entry.about) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is asked for; of an unknown one say which is meant."""
        known = (*COMMANDS, *_ALIASES)
        if args[0] not in known and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {args[0]}{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)


def _others(name: str) -> list[str]:
    """Return the other names of a command."""
    return [alias for alias, command in _ALIASES.items() if command == name]


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vgpu-scheduler")
def main() -> None:
    """Schedule shared GPUs on Kubernetes."""


def kubectl_plugin() -> None:
    """Answer ``kubectl vgpu``, which calls ``kubectl-vgpu``."""
    main(prog_name="kubectl vgpu")
