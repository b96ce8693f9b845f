"""``vgpu-scheduler ui``: the cluster in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, run_module

_MOST_PORT = 65535
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DEPLOYED = ("hosts", "tls_cert", "tls_key", "tls_at_proxy", "user_header", "group_header", "secret_file")


@click.command("ui")
@cluster_options
@click.option(
    "--port", type=click.IntRange(0, _MOST_PORT), default=0, show_default=True, help="0 takes one that is free."
)
@click.option(
    "--prometheus",
    metavar="ADDRESS",
    envvar="VGPU_SCHEDULER_PROMETHEUS",
    show_envvar=True,
    help="Where Prometheus answers, such as http://127.0.0.1:9090: Namespaces show what it knows of the last day.",
)
@click.option(
    "--listen",
    metavar="[ADDRESS]:PORT",
    help="Serve the page to whoever logs in, at this address; the options below are for that.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="A name under which browsers ask for it, beside localhost; requests for any other name are refused.",
)
@click.option("--tls-cert", type=_FILE, help="Its certificate (PEM), read again when it changes.")
@click.option("--tls-key", type=_FILE, help="The key of the certificate.")
@click.option(
    "--tls-at-proxy", is_flag=True, help="Serve plain HTTP: a proxy in front ends TLS, and nobody else gets here."
)
@click.option(
    "--proxy-user-header",
    "user_header",
    metavar="NAME",
    help="The header in which a proxy that has authenticated somebody names them.",
)
@click.option(
    "--proxy-group-header",
    "group_header",
    metavar="NAME",
    default="",
    help="The header with the names of their groups.",
)
@click.option(
    "--proxy-secret-file",
    "secret_file",
    type=_FILE,
    help="What proves that a request comes from that proxy, which sends it as X-Vgpu-Scheduler-Proxy-Secret: without it"
    " its headers count for nothing.",
)
def ui(listen: str | None, port: int, **options: Any) -> None:
    """Show the cluster in a browser, without changing anything.

    Pages show cards as a heat map, why pods wait and what would help, with the values of `top` and `explain`, and
    follow the cluster while they are open. The page is served on the loopback address to the browser that opens the
    address which is printed: that has a key. It reads the cluster with your own rights.

    With --listen it is served to others, who log in with a token of Kubernetes and see what their own rights show:
    docs/ui.md says who sees what. That is how manifests/ui runs it in the cluster.
    """
    deployed = {name: options.pop(name) for name in _DEPLOYED}
    if listen is None:
        if given := [name for name, value in deployed.items() if value]:
            raise click.UsageError(f"{_flag(given[0])} is for --listen")
        run_module("ui", port=port, **options)
        return
    if port:
        raise click.UsageError("--port is for a page that your own browser opens, and --listen names one")
    if options["cluster"].files:
        raise click.UsageError("--listen: who may see what is asked of the API server, so that --cluster is not for it")
    run_module("ui_deployed", listen=listen, **deployed, **options)


def _flag(name: str) -> str:
    flags = {"hosts": "host", "user_header": "proxy-user-header", "group_header": "proxy-group-header"}
    return f"--{flags.get(name, name if name != 'secret_file' else 'proxy-secret-file').replace('_', '-')}"
