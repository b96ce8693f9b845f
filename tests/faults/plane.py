"""Control planes whose servers die, forget and go back in time: a real one, and the embedded one."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import ssl
import tempfile
import urllib.request
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import OPERATOR, PLUGIN, USERS, install

from vgpu_devcluster import DevCluster
from vgpu_scheduler.policy import crds


class Plane(Protocol):
    """A control plane that faults are played on; what it does, it has done when it returns."""

    @property
    def url(self) -> str:
        """Where it answers."""

    @property
    def token(self) -> str:
        """The token of the administrator."""

    @property
    def tokens(self) -> Mapping[str, str]:
        """The tokens of all users."""

    def start(self) -> None:
        """Start it, and install what the operator needs."""

    def stop(self) -> None:
        """End it."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return how it is trusted; None without TLS."""

    def kubeconfig(self, user: str, namespace: str) -> Path:
        """Write a kubeconfig of a user, and return its path."""

    def kubectl(self, *args: str) -> object:
        """Run kubectl as the administrator."""

    def controllers(self, *names: str) -> AbstractContextManager[None]:
        """Run some of Kubernetes' controllers for the time of the block."""

    def crash(self) -> None:
        """End the API server at once, and start it again with the same objects."""

    def compact(self) -> None:
        """Forget all revisions but the newest one."""

    def snapshot(self) -> None:
        """Keep a copy of all objects."""

    def restore(self) -> None:
        """Start again from the copy."""


class RealPlane(ControlPlane):
    """The real API server and etcd, with the manifests applied."""

    def __init__(self) -> None:
        super().__init__(service_accounts=True, users=USERS)

    def start(self, timeout: float = 60.0) -> None:
        super().start(timeout)
        install(self)

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


class EmbeddedPlane:
    """The embedded API server, with the custom resource definitions.

    It has no admission policies and no controllers: faults that need them are not played on it.
    """

    def __init__(self) -> None:
        self.tokens = dict.fromkeys((OPERATOR, PLUGIN), "unchecked")
        self.token = "unchecked"
        self._served = contextlib.ExitStack()
        self._folder = Path()

    def start(self) -> None:
        self._folder = Path(self._served.enter_context(tempfile.TemporaryDirectory(prefix="embedded-")))
        self._cluster = self._served.enter_context(DevCluster.thread())
        for definition in crds():
            self._post(f"/apis/{definition['apiVersion']}/customresourcedefinitions", definition)
        self._post("/api/v1/namespaces", {"metadata": {"name": "vgpu-system"}})

    def stop(self) -> None:
        self._served.close()

    @property
    def url(self) -> str:
        return self._cluster.url

    def ssl_context(self) -> None:
        return None

    def kubeconfig(self, user: str, namespace: str) -> Path:
        return self._cluster.kubeconfig(self._folder / f"kubeconfig-{namespace}")

    def kubectl(self, *args: str) -> object:
        raise NotImplementedError("the embedded API server is played on without kubectl")

    def controllers(self, *names: str) -> AbstractContextManager[None]:
        raise NotImplementedError("the embedded API server has no controllers")

    def crash(self) -> None:
        self._cluster.restart()

    def compact(self) -> None:
        self._cluster.compact()

    def snapshot(self) -> None:
        self._copy = self._cluster.snapshot()

    def restore(self) -> None:
        self._cluster.restore(self._copy)

    def _post(self, path: str, body: object) -> None:
        data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data, headers=headers), timeout=10):
            pass
