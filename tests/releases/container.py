"""Runs programs of the image as the Deployment of the manifests says, with namespaces and mounts instead of a runtime.

The Dockerfile's steps were run on Debian's packages (``.ci/debian-image.sh``). The root file system is laid under an
empty one, as container runtimes do, and mounted read-only where the manifest says so; the volumes are folders of the
test; user, group, capabilities and ``no-new-privileges`` are set by ``setpriv``. The network is that of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_BUILD = ROOT / ".ci" / "debian-image.sh"
_NOT_FOUND = 4  # debian-image.sh's exit status
_ENTER = r"""
set -e
image=$1 writable=$2 volumes=$3 access=$4 user=$5 group=$6
shift 6
root=$writable/root
mount -t tmpfs tmpfs "$writable"
mkdir "$writable/upper" "$writable/work" "$root"
mount -t overlay overlay -o "lowerdir=$image,upperdir=$writable/upper,workdir=$writable/work" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
for volume in $volumes; do # SOURCE:TARGET:ACCESS
  source=${volume%%:*} target=${volume#*:}
  mkdir -p "$root/${target%:*}"
  mount --bind "$source" "$root/${target%:*}"
  mount -o "remount,bind,${target##*:}" "$root/${target%:*}"
done
if [ "$access" = ro ]; then mount -o remount,bind,ro "$root"; fi
exec chroot "$root" setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all --ambient-caps=-all -- "$@"
"""


@dataclass(frozen=True)
class Container:
    """What the Deployment says of its one container.

    Attributes
    ----------
    image
        The folder that ``.ci/debian-image.sh`` has made.
    folder
        An empty folder for the volumes and the writable layer.
    volumes
        Where each volume of the manifest is: a folder of the test.
    """

    image: Path
    folder: Path
    volumes: Mapping[str, Path]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the image."""
        return dict(json.loads((self.image / "config.json").read_text())["config"])

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the image, and above them those of the manifest."""
        of_image = dict(line.split("=", 1) for line in self.config["Env"])
        return {**of_image, **{entry["name"]: entry["value"] for entry in container_spec()["env"]}}

    def command(self, *command: str, environment: Mapping[str, str] | None = None, **more: Path) -> list[str]:
        """Return what runs a program in a new container.

        Parameters
        ----------
        command
            The program; the image's entry point with the manifest's arguments if there is none.
        environment
            Further variables.
        more
            Further volumes: folders that have the same path in the container, for reading.
        """
        pod, spec = pod_spec(), container_spec()
        context = spec["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        mounts = [
            f"{self.volumes[mount['name']]}:{mount['mountPath'].lstrip('/')}:{'ro' if mount.get('readOnly') else 'rw'}"
            for mount in spec["volumeMounts"]
        ]
        mounts += [f"{folder}:{str(folder).lstrip('/')}:ro" for folder in more.values()]
        variables = [f"{name}={value}" for name, value in {**self.environment, **(environment or {})}.items()]
        writable = self.folder / "writable"
        writable.mkdir(exist_ok=True)
        return [
            *("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation=private"),
            *("sh", "-c", _ENTER, "sh", str(self.image / "root"), str(writable), " ".join(mounts)),
            "ro" if context["readOnlyRootFilesystem"] else "rw",
            str(pod["securityContext"]["runAsUser"]),
            str(pod["securityContext"]["runAsGroup"]),
            *("env", "--ignore-environment", *variables),
            *(command or (*self.config["Entrypoint"], *spec["args"])),
        ]

    def run(self, *command: str, within: float = 120.0, **more: Path) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; ``more`` is that of :meth:`command`."""
        line = self.command(*command, **more)
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=within)


def found() -> Path | None:
    """Return the folder of the image, or None if it was not built."""
    run = subprocess.run([str(_BUILD), "--find"], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode == _NOT_FOUND:
        return None
    assert run.returncode == 0
    return Path(run.stdout.strip())


def made(image: Path, folder: Path, settings: str = "") -> Container:
    """Return a container whose volumes are the settings of the manifests, with more of them, and an empty folder."""
    volumes = {name: folder / name for name in ("settings", "numba-cache")}
    for path in volumes.values():
        path.mkdir()
    shipped = yaml.safe_load((ROOT / "manifests" / "settings.yaml").read_text())["data"]["settings.yaml"]
    (volumes["settings"] / "settings.yaml").write_text(shipped + settings)
    os.chown(volumes["numba-cache"], *(pod_spec()["securityContext"][key] for key in ("runAsUser", "fsGroup")))
    for path in (folder, *folder.parents):  # the folders of tests are for root alone
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o011)
    return Container(image, folder, volumes)


def pod_spec() -> dict[str, Any]:
    """Return the template's spec."""
    deployment = yaml.safe_load((ROOT / "manifests" / "deployment.yaml").read_text())
    return dict(deployment["spec"]["template"]["spec"])


def container_spec() -> dict[str, Any]:
    """Return the one container."""
    (container,) = pod_spec()["containers"]
    return dict(container)


def why_not() -> str:
    """Return why no container can be run on this machine, empty if one can."""
    if os.geteuid():
        return "containers need root here: for namespaces, mounts and users"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        return "this machine allows no namespaces"
    return ""
