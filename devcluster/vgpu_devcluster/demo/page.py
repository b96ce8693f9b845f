"""The page of the demo's cluster: ``vgpu-scheduler ui`` as a process that ends with the demo."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

COMMAND: Final = (sys.executable, "-m", "vgpu_scheduler", "ui")
_WITHIN: Final = 60.0
_STOP_WITHIN: Final = 5.0
_ADDRESS: Final = re.compile(r"http://\S+/\?key=\S+")


class DemoPage:
    """Serves the page of a cluster during a block.

    Parameters
    ----------
    kubeconfig
        The cluster's kubeconfig.
    command
        The command that serves the page.
    within
        Seconds that the command may take to print its address.

    Attributes
    ----------
    address
        The address for a browser; empty if the page is not served.
    trouble
        Why the page is not served; empty if it is.
    """

    def __init__(self, kubeconfig: Path, command: Sequence[str] = COMMAND, within: float = _WITHIN) -> None:
        self._command = [*command, "--kubeconfig", str(kubeconfig)]
        self._within = within
        self._process: asyncio.subprocess.Process | None = None
        self._errors: IO[bytes]
        self.address = ""
        self.trouble = ""

    async def __aenter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is read until the block ends
        return self

    async def start(self) -> None:
        """Start the page, and wait for its address or its failure; raises nothing."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=self._errors
            )
            async with asyncio.timeout(self._within):
                self.address = await self._read_address(self._process)
        except TimeoutError:
            self.trouble = f"it has not started within {self._within:.0f} s"
        except OSError as error:
            self.trouble = str(error)
        if not self.address:
            self.trouble = self._last_words() or self.trouble or "it ended without any output"

    @staticmethod
    async def _read_address(process: asyncio.subprocess.Process) -> str:
        """Return the address that the process prints; empty if it ends without one."""
        assert process.stdout is not None
        async for line in process.stdout:
            if found := _ADDRESS.search(line.decode(errors="replace")):
                return found[0]
        return ""

    def _last_words(self) -> str:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        return said.splitlines()[-1] if said else ""

    async def __aexit__(self, *_: object) -> None:
        self._errors.close()
        if self._process is None:
            return
        with suppress(ProcessLookupError):  # a signal to the whole terminal has ended it already
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_WITHIN):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
