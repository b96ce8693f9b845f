"""``vgpu-scheduler ui``: the cluster in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, prometheus_options, run_module

_MOST_PORT = 65535
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DEPLOYED = ("hosts", "tls_cert", "tls_key", "tls_at_proxy", "user_header", "group_header", "secret_file")


@click.command("ui")
@cluster_options
@click.option(
    "--port",
    type=click.IntRange(0, _MOST_PORT),
    default=0,
    show_default=True,
    help="Port to serve on; 0 takes a free one.",
)
@prometheus_options("shows its values of the last day under Namespaces.")
@click.option(
    "--listen",
    metavar="[ADDRESS]:PORT",
    help="Address to serve the page at to users who log in; the options below require it.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Host name of the page, beside localhost; requests for other host names are refused.",
)
@click.option("--tls-cert", type=_FILE, help="Path to the page's certificate (PEM), reloaded on change.")
@click.option("--tls-key", type=_FILE, help="Path to the key of --tls-cert.")
@click.option(
    "--tls-at-proxy",
    is_flag=True,
    help="Serve plain HTTP, behind a proxy that terminates TLS; nothing else may reach the page.",
)
@click.option(
    "--proxy-user-header",
    "user_header",
    metavar="NAME",
    help="Header with the name of the user whom a proxy has authenticated.",
)
@click.option(
    "--proxy-group-header",
    "group_header",
    metavar="NAME",
    default="",
    help="Header with the names of that user's groups.",
)
@click.option(
    "--proxy-secret-file",
    "secret_file",
    type=_FILE,
    help="Path to the secret that the proxy sends as X-Vgpu-Scheduler-Proxy-Secret; its headers are ignored in requests"
    " without it.",
)
def ui(listen: str | None, port: int, **options: Any) -> None:
    """Show the cluster in a browser, without changing anything.

    Shows cards as a heat map, why pods wait and what would help, with the values of `top` and `explain`, and follows
    the cluster while the page is open. Serves the page on the loopback address, only to the browser that opens the
    printed address, which contains a key. Reads the cluster with your own rights.

    With --listen, serves the page to other users, who log in with a Kubernetes token and see what their own rights
    allow (docs/ui.md has the details). manifests/ui runs it in the cluster in this way.
    """
    deployed = {name: options.pop(name) for name in _DEPLOYED}
    if listen is None:
        if given := [name for name, value in deployed.items() if value]:
            raise click.UsageError(f"{_flag(given[0])} is for --listen")
        run_module("ui", port=port, **options)
        return
    if port:
        raise click.UsageError("--port is for a page that your own browser opens; --listen names its own port")
    if options["cluster"].files:
        raise click.UsageError("--listen asks the API server for users' rights, so it cannot be used with --cluster")
    run_module("ui_deployed", listen=listen, **deployed, **options)


def _flag(name: str) -> str:
    flags = {"hosts": "host", "user_header": "proxy-user-header", "group_header": "proxy-group-header"}
    return f"--{flags.get(name, name if name != 'secret_file' else 'proxy-secret-file').replace('_', '-')}"
