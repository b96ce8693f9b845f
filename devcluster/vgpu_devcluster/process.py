"""The operator as a process of its own, for the demo, the end-to-end tests and the benchmarks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

_POLL = 0.02
_READY_WITHIN = 120.0
_STOP_WITHIN = 15.0
COMMAND = (sys.executable, "-m", "vgpu_scheduler", "run")


class OperatorProcess:
    """An operator process.

    Parameters
    ----------
    kubeconfig
        The cluster's kubeconfig.
    log
        The file to append the log to.
    environment
        Settings as environment variables.
    command
        The command to run.
    """

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._environment = {
            **os.environ,
            "VGPU_KUBECONFIG": str(kubeconfig),
            "VGPU_HTTP_HOST": "127.0.0.1",
            "VGPU_HTTP_PORT": "0",
            "VGPU_DEBUG_ENDPOINTS": "true",
            "VGPU_LEASE__DURATION": "3",
            "VGPU_LEASE__RENEW_INTERVAL": "0.5",
            **(environment or {}),
        }
        self._command = list(command)
        self._path = log
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0
        self._port = 0

    @property
    def log(self) -> str:
        """The log of this process so far."""
        return self._path.read_bytes()[self._began :].decode()

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll() if self._process else None

    @property
    def pid(self) -> int:
        """The process ID; the process must have been started."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process without waiting for it."""
        with self._path.open("ab") as log:
            self._began = self._path.stat().st_size
            self._process = subprocess.Popen(  # noqa: S603 - what the caller wants run
                self._command, env=self._environment, stdout=log, stderr=log
            )
        self._port = 0

    async def until_leading(self, within: float = _READY_WITHIN) -> None:
        """Wait until the operator leads.

        Raises
        ------
        RuntimeError
            If the process ends before; the message has its log.
        TimeoutError
            If it takes too long.
        """
        deadline = asyncio.get_running_loop().time() + within
        while await self.metric("vgpu_scheduler_leader") != 1.0:
            if self.exit_code is not None:
                raise RuntimeError(f"the operator ended with {self.exit_code}:\n{self.log[-2000:]}")
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"the operator does not lead after {within:.0f} s:\n{self.log[-2000:]}")
            await asyncio.sleep(_POLL)

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Suspend the process."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the process."""
        self.send(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask the process to end, without waiting."""
        assert self._process is not None
        self._process.terminate()

    def stop(self) -> int | None:
        """Ask the process to end, and kill it if it does not; return the exit code, None if it was killed."""
        if self._process is None or self._process.poll() is not None:
            return self.exit_code
        self._process.terminate()
        try:
            return self._process.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page of the operator; status 0 if it does not answer."""
        if not self._port:
            _, found, rest = self.log.partition("health and metrics on port ")
            if not found or "\n" not in rest:
                return 0, ""
            self._port = int(rest.split("\n", 1)[0])
        try:
            url = f"http://127.0.0.1:{self._port}{path}"
            async with aiohttp.ClientSession() as http, http.get(url) as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientError:
            return 0, ""

    async def metric(self, name: str, **labels: str) -> float:
        """Return a metric, summed over all labels except the given ones; -1 if the operator does not answer."""
        status, text = await self.get(f"/metrics?name[]={name}")
        return summed(text, name, **labels) if status else -1.0

    async def ledger(self) -> Any:
        """Return the operator's ledger, and its differences from the rebuild."""
        return json.loads((await self.get("/debug/ledger"))[1])


def summed(text: str, name: str, **labels: str) -> float:
    """Return a metric in Prometheus' text format, summed over all labels except the given ones; 0 if absent."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    lines = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in wanted))
