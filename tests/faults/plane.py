"""A control plane whose servers die, forget and go back in time."""

from __future__ import annotations

import json
import shutil
import signal
import urllib.request
from typing import Any

from tests.apiserver.control_plane import ControlPlane


class FaultyPlane(ControlPlane):
    """A control plane that faults are played on; everything blocks until it is ready again."""

    def crash(self) -> None:
        """Kill the API server, and start it again on the same etcd."""
        self._kill(self._processes.pop())
        self._start_api_server()
        self._wait_until("/readyz", 60.0)

    def compact(self) -> None:
        """Have etcd forget all revisions but the newest one."""
        found = self._etcd_call("range", {"key": "AA=="})
        self._etcd_call("compaction", {"revision": found["header"]["revision"], "physical": True})

    def snapshot(self) -> None:
        """Keep a copy of what etcd has on its disk now."""
        etcd = self._processes[0]
        etcd.send_signal(signal.SIGSTOP)
        try:
            shutil.rmtree(self._file("snapshot"), ignore_errors=True)
            shutil.copytree(self._file("etcd"), self._file("snapshot"))
        finally:
            etcd.send_signal(signal.SIGCONT)

    def restore(self) -> None:
        """Start etcd from the copy, and the API server on it."""
        while self._processes:
            self._kill(self._processes.pop())
        shutil.rmtree(self._file("etcd"))
        shutil.copytree(self._file("snapshot"), self._file("etcd"))
        self._start_processes()
        self._wait_until("/readyz", 60.0)

    @staticmethod
    def _kill(process: Any) -> None:
        process.kill()
        process.wait()

    def _etcd_call(self, what: str, body: dict[str, Any]) -> Any:
        data = json.dumps(body).encode()
        with urllib.request.urlopen(f"{self._etcd}/v3/kv/{what}", data=data, timeout=10) as answer:
            return json.loads(answer.read())
