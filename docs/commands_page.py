"""Renders the page of the commands from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from vgpu_scheduler.cli.main import COMMANDS, main

HEAD = """\
# Commands

<!-- Rendered from the commands by `make manifests`; do not edit. -->

`vgpu-scheduler COMMAND`, or `kubectl vgpu COMMAND`: `pip install` puts both into the path. Commands that look at a
cluster read it from the API with your own rights, and run the same engine as the scheduler on your machine; nothing
needs an endpoint of the scheduler, and all but `cordon` and `uncordon` only read. `--cluster` takes files instead:
output of `vgpu-scheduler snapshot`, or of `kubectl get … -o yaml`. The settings come from the scheduler's ConfigMap,
or from `--config`; where neither can be read, the answer says that they are assumed. It also says what your rights do
not let you see. `-o json` and `-o yaml` are for scripts; the answer goes to stdout, everything else to stderr,
without colours unless it is a terminal. Commands exit with 2 after an error and with 130 after Ctrl-C; the exit code 1
is an answer, which the help of the command explains.

`-n`, `-A`, `-l`, `--sort-by`, `--no-headers` and `-o` mean the same as in kubectl: without `-n` and `-A` the
namespace of the context is used. Cards are named as `top cards` shows them, by their UUID, or by a unique prefix of
either, also as `NODE/CARD`. Tables fit 120 columns; `-o wide` shows long names in full.

`source <(vgpu-scheduler completion bash)` completes commands, and the names of nodes, cards, models, pods and
namespaces; zsh and fish have theirs. kubectl's own completion completes `kubectl vgpu`, too: it calls
`kubectl_complete-vgpu`, which `pip install` puts beside the plugin.
"""
_WIDTH = 100


def commands_page() -> str:
    """Return the page."""
    return HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for name in COMMANDS:
        with click.Context(main) as context:
            command = main.get_command(context, name)
        assert command is not None
        called = f"vgpu-scheduler {name}"
        settings = {"terminal_width": _WIDTH, "max_content_width": _WIDTH}
        settings |= main.context_settings | command.context_settings
        with click.Context(command, info_name=called, **settings) as own:
            text = command.get_help(own)
        yield f"\n## {name}\n\n```text\n{text.rstrip()}\n```\n"
