"""The image has what it needs and nothing else, and the operator starts from it under the manifest's settings."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from tests.conftest import unavailable
from tests.e2e.conftest import Administrator, slice_pod
from tests.releases.container import ROOT, Container, container_spec, found, made, pod_spec, why_not

from vgpu_devcluster import DevCluster, NodeSide
from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler import __version__

pytestmark = pytest.mark.long

COMPILERS = re.compile(r"(.*-)?(gcc|g\+\+|cc|c\+\+|cpp|clang|tcc|ld|as|make|cmake|cargo|rustc|go)(-?[\d.]+)?")
OURS = re.compile(
    r"site-packages/(tests|benchmarks|crds|charts|docs|manifests)/|/vgpu_scheduler/(.*/)?(conftest|test_)"
)
"""What of the tree is for developing it."""
STATUS = {"Uid": "65532", "Gid": "65532", "CapEff": "0", "CapPrm": "0", "CapBnd": "0", "NoNewPrivs": "1"}
"""What the kernel says of a process of the manifest's container."""


@pytest.fixture(scope="module")
def image() -> Path:
    if reason := why_not():
        pytest.skip(reason)
    folder = found()
    if folder is None:
        unavailable("the image was not built: run `make debian-image`, as root")
    return folder


@pytest.fixture
def container(image: Path, tmp_path: Path) -> Container:
    return made(image, tmp_path)


def files(folder: Path) -> Iterator[Path]:
    """Yield all regular files of the image, by their path in it."""
    for at, _, names in os.walk(folder / "root"):
        for name in names:
            path = Path(at, name)
            if not path.is_symlink():
                yield path.relative_to(folder / "root")


def compiled(folder: Path) -> dict[str, int]:
    """Return the compiled kernels in a folder: their paths, and when each was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*.nb[ci]")}


# ---------------------------------------------------------------------------------------------------- what is in it


def test_the_image_has_no_compiler_no_test_and_nothing_that_pip_left(image: Path) -> None:
    root = image / "root"
    programs = [path for path in files(image) if (root / path).stat().st_mode & stat.S_IXUSR]
    assert len(programs) > 100
    assert [path for path in programs if path.parent.name in {"bin", "sbin"} and COMPILERS.fullmatch(path.name)] == []
    own = [str(path) for path in files(image) if path.is_relative_to("opt/vgpu-scheduler")]
    assert len(own) > 1000
    assert [path for path in own if OURS.search(path)] == []
    packages = root / "opt/vgpu-scheduler/lib/python3.11/site-packages"
    assert not list(packages.glob("pip*"))
    assert not list(packages.glob("setuptools*"))
    assert [path for path in ("root/.cache", "root/.config", "src", "etc/pip.conf") if (root / path).exists()] == []
    assert not list((root / "tmp").iterdir())


def test_its_configuration_says_what_it_is_and_who_runs_it(container: Container) -> None:
    config = container.config
    security = pod_spec()["securityContext"]
    assert config["User"] == f"{security['runAsUser']}:{security['runAsGroup']}" == "65532:65532"
    assert config["Entrypoint"] == ["vgpu-scheduler"]
    assert list(config["ExposedPorts"]) == [f"{container_spec()['ports'][0]['containerPort']}/tcp"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert labels["title"] == "vgpu-scheduler"
    assert labels["version"] == __version__
    assert labels["licenses"] == "Apache-2.0"
    assert {"description", "revision", "source"} <= labels.keys()
    assert (container.image / "root/licenses/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_no_variable_and_no_step_of_it_names_an_index(image: Path) -> None:
    said = (image / "config.json").read_text()
    assert not re.search(r"https?://|PIP_|_proxy|index-url", said, re.IGNORECASE)


# -------------------------------------------------------------------------------------------------- what runs in it


def test_a_process_has_no_rights_and_writes_only_where_the_manifest_lets_it(container: Container) -> None:
    status = container.run("cat", "/proc/self/status")
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in status.stdout.splitlines())}
    assert {name: fields[name][0].lstrip("0") or "0" for name in STATUS} == STATUS, status.stderr
    for place, writable in (("/", False), ("/tmp", False), ("/etc/vgpu-scheduler", False), ("/var/cache/numba", True)):
        done = container.run("touch", f"{place}/x")
        assert (done.returncode == 0) == writable, done.stderr
        assert writable or "Read-only file system" in done.stderr


def test_the_version_and_the_settings_of_the_manifest_are_read(container: Container) -> None:
    assert __version__ in container.run("vgpu-scheduler", "--version").stdout
    checked = container.run("vgpu-scheduler", "settings", "--check", container_spec()["args"][1].partition("=")[2])
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_has_no_embedded_cluster_and_says_where_the_demo_is(container: Container) -> None:
    assert not any("devcluster" in str(path) for path in files(container.image))
    done = container.run("vgpu-scheduler", "demo", "--once")
    assert done.returncode == 2
    assert "pip install vgpu-devcluster" in done.stderr


def test_the_demo_passes_in_it_and_compiles_nothing(container: Container) -> None:
    brought = container.image / "root/opt/vgpu-scheduler/lib/python3.11/site-packages/vgpu_scheduler/kernels/compiled"
    before = compiled(brought)
    assert len(before) > 10
    # The demo keeps log and kubeconfig in a temporary folder, which the manifest's container, that is no demo, lacks.
    shared = Path(shutil.copytree(ROOT / "devcluster", container.folder / "devcluster"))
    variables = ("TMPDIR=/var/cache/numba", f"PYTHONPATH={shared}")
    done = container.run("env", *variables, "vgpu-scheduler", "demo", "--once", devcluster=shared)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().splitlines()[-1].startswith("OK"), done.stdout
    assert compiled(container.volumes["numba-cache"]) == before


async def test_the_operator_places_pods_from_it(image: Path, tmp_path: Path) -> None:
    container = made(image, tmp_path, "http_host: 127.0.0.1\nhttp_port: 0\n")
    shared = tmp_path / "shared"
    shared.mkdir()
    async with DevCluster() as embedded, NodeSide(embedded.url) as nodes, aiohttp.ClientSession(embedded.url) as http:
        async with http.post("/api/v1/namespaces", json={"metadata": {"name": "vgpu-system"}}) as answer:
            assert answer.status == 201
        await nodes.register(["node-1", "node-2"], ["A100-80G"] * 2)
        await nodes.start()
        kubeconfig = embedded.kubeconfig(shared / "kubeconfig")
        kubeconfig.chmod(0o644)
        environment = {"VGPU_KUBECONFIG": str(kubeconfig)}
        operator = OperatorProcess(
            kubeconfig, tmp_path / "log", command=container.command(environment=environment, shared=shared)
        )
        began = time.monotonic()
        operator.start()
        try:
            await operator.until_leading(within=60.0)
            led = time.monotonic() - began
            administrator = Administrator(http)
            await administrator.create(*(slice_pod(f"pod-{number}") for number in range(8)))

            async def placed() -> bool:
                return all(pod["status"].get("phase") == "Running" for pod in await administrator.pods())

            await administrator.until(placed, "all pods to run", within=30.0)
            assert (await operator.get("/readyz"))[0] == (await operator.get("/livez"))[0] == 200
            (first,) = _children(operator.pid)
            os.kill(first, signal.SIGTERM)  # as the kubelet does, to the first process of the container

            async def ended() -> bool:
                return operator.exit_code is not None

            await administrator.until(ended, "its end", within=pod_spec()["terminationGracePeriodSeconds"])
            assert operator.exit_code == 0, operator.log
        finally:
            for child in _children(operator.pid):  # a change of user has undone unshare's --kill-child
                os.kill(child, signal.SIGKILL)
            operator.kill()
    assert led < 30.0, f"it led after {led:.0f} s"


def _children(process: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return [int(number) for number in listed.stdout.split()]
