"""``python -m vgpu_devcluster``: runs the server as a process."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from .cluster import DevCluster


async def _serve(port: int, kubeconfig: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with DevCluster(port=port) as cluster:
        if kubeconfig is not None:
            cluster.kubeconfig(kubeconfig)
        sys.stdout.write(f"devcluster serves at {cluster.url}\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="devcluster", description="An API server for development, in memory.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--kubeconfig", type=Path, help="file to write a kubeconfig to")
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.port, arguments.kubeconfig))


if __name__ == "__main__":
    main()
