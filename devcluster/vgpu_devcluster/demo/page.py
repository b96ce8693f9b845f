"""The page of the demo's cluster in a browser: ``vgpu-scheduler ui``, as a process that ends with the demo."""

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
    """Serves the page of a cluster for the time of a block.

    Parameters
    ----------
    kubeconfig
        The cluster.
    command
        What serves it.
    within
        Seconds that it has until it says where.

    Attributes
    ----------
    address
        What a browser opens; empty where it could not be served.
    trouble
        Why it could not be served; empty where it is.
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
        """Serve it, and wait until it is known where, or why it cannot be: nothing is raised."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=self._errors
            )
            self.address = await asyncio.wait_for(self._told(self._process), self._within)
        except TimeoutError:
            self.trouble = f"it has not started within {self._within:.0f} s"
        except OSError as error:
            self.trouble = str(error)
        if not self.address:
            self.trouble = self._last_words() or self.trouble or "it ended without a word"

    @staticmethod
    async def _told(process: asyncio.subprocess.Process) -> str:
        """Return the address that it prints, empty where it ends without one."""
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
        with suppress(ProcessLookupError):  # a signal to all of the terminal has ended it already
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_WITHIN)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
