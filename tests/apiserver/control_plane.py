"""A real etcd and kube-apiserver for tests, started in a few seconds.

Model: one etcd and one API server on free ports of the loopback address, with everything they keep in one temporary
folder. Authentication is a token file (an administrator in ``system:masters``, any other user that a test asks for),
authorization is RBAC, and every request lands in an audit log that tests can count. All other flags have the API
server's own defaults.

Limits: no kubelet; and no controller manager unless a test starts one (:meth:`ControlPlane.controllers`), so nothing
fills in service accounts, ends namespaces or collects garbage.
``etcd --unsafe-no-fsync`` may lose data in a crash of the machine, which tests do not care about.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from tests.apiserver.audit import AUDIT_POLICY, AuditRecord, end_of_lines, parse_lines
from tests.apiserver.binaries import AssetsUnavailableError, assets

from vgpu_scheduler.kube import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_ADMIN = "admin"


@dataclass(slots=True)
class ControlPlane:
    """A running etcd and kube-apiserver; use it as a context manager.

    Parameters
    ----------
    folder
        Where data, keys and logs go; a temporary folder that goes away at the end when it is not given.
    service_accounts
        Keep the ``ServiceAccount`` admission plugin on, as clusters do. :meth:`create_namespace` then also creates the
        ``default`` service account, which the absent controller manager would.
    users
        Further users: name to groups. Their tokens are in :attr:`tokens`.
    api_flags
        Further flags for the API server.
    older
        Run the API server of the module ``older``.
    """

    folder: Path | None = None
    service_accounts: bool = False
    users: Mapping[str, Sequence[str]] = field(default_factory=dict)
    api_flags: Sequence[str] = ()
    older: bool = False
    url: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    _binaries: Path = field(default_factory=Path)
    _root: Path = field(default_factory=Path)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _own_folder: bool = False
    _ports: tuple[int, ...] = ()
    """Of etcd for clients and for peers, and of the API server."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------------------------------------------ life cycle

    def start(self, timeout: float = 60.0) -> None:
        """Start both processes and return when the API server is ready."""
        self._binaries = assets(older=self.older)
        self._own_folder = self.folder is None
        self._root = self.folder or Path(tempfile.mkdtemp(prefix="control-plane-"))
        self._write_credentials()
        try:
            self._start_processes()
            self._wait_until("/readyz", timeout)
            self._wait_until("/api/v1/namespaces/kube-system", timeout)  # the server creates it after it got ready
            self.create_namespace("default", exist_ok=True)
        except BaseException:
            self.stop()
            raise

    def stop(self, grace: float = 5.0) -> None:
        """End the API server, then etcd: SIGTERM first, SIGKILL for what is still there after ``grace`` seconds."""
        for process in reversed(self._processes):
            _end(process, grace)
        self._processes.clear()
        if self._own_folder:
            shutil.rmtree(self._root, ignore_errors=True)

    def restart(self, timeout: float = 60.0) -> None:
        """End the API server and start it again on the same etcd and port: watches end, its watch cache is new."""
        server = self._processes.pop()
        _end(server, grace=5.0)
        self._start_api_server()
        self._wait_until("/readyz", timeout)

    def _write_credentials(self) -> None:
        everyone: dict[str, Sequence[str]] = {_ADMIN: ["system:masters"], **self.users}
        self.tokens = {user: secrets.token_hex(16) for user in everyone}
        rows = [f'{self.tokens[user]},{user},{user},"{",".join(groups)}"' for user, groups in everyone.items()]
        self._file("tokens.csv").write_text("\n".join(rows) + "\n")
        self._file("audit-policy.yaml").write_text(AUDIT_POLICY)
        self._file("service-account.key").write_text(_ec_private_key())

    def _start_processes(self) -> None:
        self._ports = self._ports or tuple(free_ports(3))
        self.url = f"https://127.0.0.1:{self._ports[2]}"
        self._spawn(
            "etcd",
            f"--data-dir={self._file('etcd')}",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{self._ports[1]}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._start_api_server()

    @property
    def _etcd(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    def _start_api_server(self) -> None:
        key = self._file("service-account.key")
        flags = [
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # it refuses a loopback address
            f"--secure-port={self._ports[2]}",
            f"--cert-dir={self._file('certificates')}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._file('tokens.csv')}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--audit-policy-file={self._file('audit-policy.yaml')}",
            f"--audit-log-path={self._file('audit.log')}",
            "--audit-log-maxsize=2000",  # MB: one file tells of all
        ]
        if not self.service_accounts:
            flags.append("--disable-admission-plugins=ServiceAccount")
        self._spawn("kube-apiserver", *flags, *self.api_flags)

    def _spawn(self, binary: str, *args: str) -> None:
        with self._file(f"{binary}.log").open("wb") as log:
            process = subprocess.Popen([str(self._binaries / binary), *args], stdout=log, stderr=log, cwd=self._root)
        self._processes.append(process)

    def _wait_until(self, path: str, timeout: float) -> None:
        def ready() -> bool:
            for process in self._processes:
                if process.poll() is not None:
                    name = Path(str(process.args[0])).name  # type: ignore[index]
                    raise RuntimeError(f"{name} ended with status {process.returncode}:\n{self._tail(name)}")
            try:
                return self.request("GET", path)[0] == 200
            except OSError:  # not listening yet, or no certificate yet
                return False

        if not poll(ready, timeout):
            raise TimeoutError(f"{path} was not ready within {timeout:g} s:\n{self._tail('kube-apiserver')}")

    def _tail(self, name: str) -> str:
        return "\n".join(self._file(f"{name}.log").read_text(errors="replace").splitlines()[-20:])

    def _file(self, name: str) -> Path:
        return self._root / name

    # ------------------------------------------------------------------------------------------------ ways in

    @property
    def etcd_pid(self) -> int:
        """The process of etcd."""
        return self._processes[0].pid

    @property
    def server_pid(self) -> int:
        """The process of the API server."""
        return self._processes[-1].pid

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.tokens[_ADMIN]

    @property
    def ca_file(self) -> Path:
        """The certificate that signs the API server's own."""
        return self._file("certificates") / "apiserver.crt"

    def ssl_context(self) -> ssl.SSLContext:
        """Return a context that trusts this API server only."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def kubeconfig(self, user: str = _ADMIN, namespace: str = "default") -> Path:
        """Write a kubeconfig for ``user`` and return its path."""
        ca = base64.b64encode(self.ca_file.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": user, "context": {"cluster": "test", "user": user, "namespace": namespace}}],
            "current-context": user,
        }
        path = self._file(f"kubeconfig-{user}")
        written = path.with_name(f"{path.name}-{uuid4()}")
        written.write_text(json.dumps(config))
        return written.replace(path)  # at once: others may read it meanwhile

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; ``check`` raises with kubectl's own words when it fails."""
        command = [str(self._binaries / "kubectl"), f"--kubeconfig={self.kubeconfig()}", *args]
        environment = {**os.environ, "HOME": str(self._root)}  # its caches belong into this folder
        run = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
        if check and run.returncode:
            raise RuntimeError(f"kubectl {' '.join(args)}: {run.stderr.strip()}")
        return run

    def request(self, method: str, path: str, body: object = None, *, user: str = _ADMIN) -> tuple[int, Any]:
        """Send one blocking request for set-up and tear-down; return the status and the decoded body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.tokens[user]}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self.ssl_context(), timeout=10) as answer:
                return answer.status, _json_or_text(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _json_or_text(error.read())

    # ------------------------------------------------------------------------------------------------ conveniences

    def create_namespace(self, name: str, *, exist_ok: bool = False) -> None:
        """Create a namespace and, with the admission plugin on, the service account that pods there need."""
        self._create("/api/v1/namespaces", {"metadata": {"name": name}}, exist_ok=exist_ok)
        if self.service_accounts:
            self._create(
                f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}, exist_ok=exist_ok
            )

    def _create(self, path: str, body: object, *, exist_ok: bool) -> None:
        status, answer = self.request("POST", path, body)
        if status != 201 and not (exist_ok and status == 409):
            raise RuntimeError(f"POST {path}: {status} {answer}")

    def clear(self) -> None:
        """Delete all nodes and, without grace, all pods; finalizers are stripped first."""
        _, pods = self.request("GET", "/api/v1/pods")
        for pod in pods["items"]:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            if pod["metadata"].get("finalizers"):
                pod["metadata"]["finalizers"] = []
                self.request("PUT", path, pod)
            self.request("DELETE", path, {"gracePeriodSeconds": 0})
        self.request("DELETE", "/api/v1/nodes")

    def audit(self, *, since: int = 0) -> list[AuditRecord]:
        """Return what the API server answered, from offset ``since`` of the log (see :meth:`audit_mark`)."""
        with self._file("audit.log").open("rb") as log:
            log.seek(since)
            return parse_lines(log.read())

    def audit_mark(self) -> int:
        """Return where the last whole line of the audit log ends. A request is logged before its answer is sent."""
        return end_of_lines(self._file("audit.log").read_bytes())

    @contextlib.contextmanager
    def controllers(self, *names: str) -> Iterator[None]:
        """Run some controllers of kube-controller-manager for the time of the block."""
        with self._running(
            "kube-controller-manager",
            f"--controllers={','.join(names)}",
            "--leader-elect=false",
            "--pvclaimbinder-sync-period=2s",
            "--concurrent-statefulset-syncs=2",
        ):
            yield

    @contextlib.contextmanager
    def scheduler(self, *flags: str) -> Iterator[str]:
        """Run kube-scheduler, under its own name, for the time of the block; gives the address of its metrics.

        It serves them to the administrator's token, with the certificate of nobody. How often it may ask the API server
        is not limited: by default it binds 50 pods a second.
        """
        unlimited = ("--kube-api-qps=10000", "--kube-api-burst=10000")
        with self._running("kube-scheduler", "--leader-elect=false", *unlimited, *flags) as address:
            yield address

    @contextlib.contextmanager
    def _running(self, binary: str, *flags: str) -> Iterator[str]:
        """Run another process of the control plane as the administrator for the time of the block."""
        if not (self._binaries / binary).exists():
            raise AssetsUnavailableError(f"{binary} is not among the binaries in {self._binaries}")
        (port,) = free_ports(1)
        config = f"--kubeconfig={self.kubeconfig()}"
        access = (f"--authentication-kubeconfig={self.kubeconfig()}", f"--authorization-kubeconfig={self.kubeconfig()}")
        certificates = f"--cert-dir={self._file('certificates')}"
        log_file = self._file(f"{binary}.log")
        with log_file.open("wb") as log:
            command = [str(self._binaries / binary), config, *access, certificates, f"--secure-port={port}", *flags]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._root)
        try:
            yield f"https://127.0.0.1:{port}"
            if process.poll() is not None:
                raise RuntimeError(f"{binary} ended with status {process.returncode}:\n{self._tail(binary)}")
        finally:
            _end(process, grace=5.0)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Freeze the API server (SIGSTOP) for the time of the block: connections stay open, nothing answers."""
        server = self._processes[-1]
        server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            server.send_signal(signal.SIGCONT)


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def poll(condition: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Wait until ``condition`` holds; false after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    tick = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        tick.wait(interval)
    return True


def _json_or_text(data: bytes) -> Any:
    try:
        return loads(data)
    except ValueError:
        return data.decode(errors="replace")


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _ec_private_key() -> str:
    """Return a new P-256 key in PEM. The optional public half is left out: Go computes it when it reads the key."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    scalar = (secrets.randbelow(order - 1) + 1).to_bytes(32, "big")
    der = bytes.fromhex("30310201010420") + scalar + bytes.fromhex("a00a06082a8648ce3d030107")
    body = base64.encodebytes(der).decode().replace("\n", "")
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])
