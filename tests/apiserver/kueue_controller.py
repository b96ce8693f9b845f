"""The real controller of Kueue beside a control plane, installed as its own kustomization does it.

It makes its certificates itself and puts them into its secret; they are mounted here, as a kubelet would do it. The API
server reaches its webhooks by their Service, which is an alias of the loopback address.

Limits: it has neither its server for the visibility of queues nor metrics.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from tests.apiserver.binaries import kueue
from tests.apiserver.control_plane import ControlPlane, free_ports, poll
from tests.apiserver.job_controllers import are_served, controller, is_ready

KUEUE_ACCOUNT: Final = "system:serviceaccount:kueue-system:kueue-controller-manager"
_SERVICE: Final = "kueue-webhook-service"
_SECRET: Final = "/api/v1/namespaces/kueue-system/secrets/kueue-webhook-server-cert"
_LEFT_OUT: Final = ("APIService", "Deployment", "ServiceAccount")


@contextlib.contextmanager
def running_kueue(plane: ControlPlane, folder: Path, configuration: Mapping[str, Any]) -> Iterator[None]:
    """Run it under its own account for the time of the block, once its webhooks answer.

    Parameters
    ----------
    plane
        With :data:`KUEUE_ACCOUNT` among its users.
    folder
        For its files.
    configuration
        Of it, as administrators write it.
    """
    binaries = kueue()
    webhooks, health = free_ports(2)
    rendered = yaml.safe_load_all(plane.kubectl("kustomize", str(binaries / "kueue.config" / "default")).stdout)
    objects = [_here(each, webhooks) for each in rendered if each["kind"] not in _LEFT_OUT]
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))
    if not poll(lambda: are_served(plane), 60):
        raise RuntimeError("the definitions of Kueue are not served")
    certificates = folder / "kueue-certificates"
    certificates.mkdir()
    settings = folder / "kueue.yaml"
    settings.write_text(json.dumps(_settings(configuration, webhooks, health, certificates)))
    kubeconfig = folder / "kubeconfig-kueue"  # the name of the user has colons, which separate kubeconfig files
    shutil.copy(plane.kubeconfig(KUEUE_ACCOUNT, "kueue-system"), kubeconfig)
    command = [str(binaries / "kueue"), f"--config={settings}"]
    with controller(command, kubeconfig, folder, lambda: _mounted(plane, certificates) and is_ready(health)):
        yield


def _here(obj: dict[str, Any], port: int) -> dict[str, Any]:
    """Return an object of its kustomization with the address of its webhooks."""
    if (obj["kind"], obj["metadata"]["name"]) == ("Service", _SERVICE):
        return {**obj, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    clients = [webhook["clientConfig"] for webhook in obj.get("webhooks", ())]
    if obj["kind"] == "CustomResourceDefinition" and "conversion" in obj["spec"]:
        clients.append(obj["spec"]["conversion"]["webhook"]["clientConfig"])
    for client in clients:
        client["service"]["port"] = port
    return obj


def _settings(configuration: Mapping[str, Any], webhooks: int, health: int, certificates: Path) -> dict[str, Any]:
    return {
        **configuration,
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(certificates)},
        "featureGates": {**configuration.get("featureGates", {}), "VisibilityOnDemand": False},
    }


def _mounted(plane: ControlPlane, folder: Path) -> bool:
    """Put the certificate that it made into place, once, the key first; tell whether it is there."""
    if (folder / "tls.crt").exists():
        return True
    _, secret = plane.request("GET", _SECRET)
    for file in ("tls.key", "tls.crt"):
        if (data := secret.get("data", {}).get(file)) is None:
            return False
        written = folder / f"{file}.new"
        written.write_bytes(base64.b64decode(data))
        written.replace(folder / file)
    return True
