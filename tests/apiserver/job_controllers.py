"""The real controllers of JobSet and LeaderWorkerSet beside a control plane, with their webhooks on local addresses.

What comes with them (definitions, webhook configurations and the patches of these) is read from their modules, which
``build.sh controllers`` puts beside the binaries. The API server reaches their webhooks at the loopback address, by a
certificate of the test's own authority.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from tests.apiserver.binaries import job_controllers
from tests.apiserver.certificates import Authority
from tests.apiserver.control_plane import ControlPlane, free_ports, poll


@dataclass(frozen=True, slots=True)
class JobController:
    """A controller.

    Attributes
    ----------
    name
        That of its binary.
    api_version
        Of its configuration.
    definitions, webhooks
        Where these are in the folder ``config`` of its module.
    configuration
        What is configured beside ports and certificates.
    """

    name: str
    api_version: str
    definitions: str
    webhooks: str
    configuration: Mapping[str, Any] = field(default_factory=dict)

    @contextlib.contextmanager
    def running(self, plane: ControlPlane, folder: Path) -> Iterator[None]:
        """Run it for the time of the block, once its definitions are served and its webhooks answer."""
        binaries = job_controllers()
        config = binaries / f"{self.name}.config"
        plane.kubectl("apply", "--server-side", "-f", str(config / self.definitions))
        if not poll(lambda: are_served(plane), 60):
            raise RuntimeError(f"the definitions of {self.name} are not served")
        webhooks, health = free_ports(2)
        authority = Authority(folder, self.name)
        certificates = folder / f"{self.name}-certificates"
        certificates.mkdir()
        authority.sign(certificates / "tls.crt", certificates / "tls.key")
        settings = folder / f"{self.name}.yaml"
        settings.write_text(json.dumps(self._settings(webhooks, health, certificates)))
        command = [str(binaries / self.name), f"--config={settings}"]
        with controller(command, plane.kubeconfig(), folder, lambda: is_ready(health)):
            made = list(self._configurations(config / self.webhooks, webhooks, authority.bundle))
            plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(made))
            yield

    def _settings(self, webhooks: int, health: int, certificates: Path) -> dict[str, Any]:
        return {
            "apiVersion": self.api_version,
            "kind": "Configuration",
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(certificates)},
            **self.configuration,
        }

    def _configurations(self, folder: Path, port: int, bundle: str) -> Iterator[dict[str, Any]]:
        """Yield the configurations of its webhooks, patched as its module does it, with addresses for services."""
        patches = {path.name.partition("-")[0]: path for path in folder.glob("**/*-patch.yaml")}
        for made in yaml.safe_load_all((folder / "manifests.yaml").read_text()):
            patch = patches["mutating" if made["kind"].startswith("Mutating") else "validating"]
            for step in yaml.safe_load(patch.read_text()):
                assert step["op"] == "replace", step
                made["webhooks"][int(step["path"].removeprefix("/webhooks/"))] = step["value"]
            made["metadata"]["name"] = f"{self.name}-{made['metadata']['name']}"
            for webhook in made["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
            yield made


@contextlib.contextmanager
def controller(command: list[str], kubeconfig: Path, folder: Path, ready: Callable[[], bool]) -> Iterator[None]:
    """Run a controller for the time of the block, once it is ready."""
    name = Path(command[0]).name
    log_file = folder / f"{name}.log"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        if not poll(lambda: process.poll() is not None or ready(), 60) or process.poll() is not None:
            raise RuntimeError(f"{name} is not ready:\n{log_file.read_text(errors='replace')[-4000:]}")
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended:\n{log_file.read_text(errors='replace')[-4000:]}")
    finally:
        process.terminate()
        process.wait(10)


def are_served(plane: ControlPlane) -> bool:
    """Tell whether all definitions are in force."""
    _, found = plane.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    conditions = [each["status"].get("conditions") or [] for each in found["items"]]
    return all({"Established": "True"}.items() <= {c["type"]: c["status"] for c in each}.items() for each in conditions)


def is_ready(port: int) -> bool:
    """Tell whether a controller answers so at a port of the loopback address."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


JOB_SET: Final = JobController(
    "jobset", "config.jobset.x-k8s.io/v1alpha1", "components/crd/bases", "components/webhook"
)
LEADER_WORKER_SET: Final = JobController(
    "lws",
    "config.lws.x-k8s.io/v1alpha1",
    "crd/bases",
    "webhook",
    {"gangSchedulingManagement": {"schedulerProvider": "volcano"}},
)
