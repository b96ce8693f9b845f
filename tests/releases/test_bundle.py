"""The archive for clusters without internet has what it says, says what it has not, and is enough."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.apiserver.binaries import AssetsUnavailableError, assets, helm
from tests.conftest import unavailable

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
WHEEL = f"vgpu_scheduler-{VERSION}-py3-none-any.whl"
DOCKER = """\
#!/bin/sh
[ "$1" = info ] && exit {status}
[ "$1" = save ] && echo "$4" > "$3"
exit 0
"""


def bundled(
    folder: Path, *arguments: str, path: str | None = None, succeeds: bool = True
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Make the archive and unpack it; return its folder and what was said."""
    environment = os.environ | ({} if path is None else {"PATH": path})
    command = [sys.executable, ".ci/bundle.py", f"--to={folder}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode == 0) == succeeds, done.stderr
    if succeeds:
        with tarfile.open(folder / f"vgpu-scheduler-{VERSION}.tar.gz") as tar:
            # Not extractall with a filter: Python 3.11.2 has none. The archive is our own, and of files only.
            assert all(member.isfile() or member.isdir() for member in tar)
            tar.extractall(folder)
    return folder / f"vgpu-scheduler-{VERSION}", done


def listed(folder: Path) -> dict[str, str]:
    """Return the files that CONTENTS lists, and check that they are those that are there, unchanged."""
    lines = (folder / "CONTENTS").read_text().splitlines()
    found = {name: digest for digest, _, name in (line.partition("  ") for line in lines) if name}
    there = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    assert found == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items() if name != "CONTENTS"
    }
    return found


def tool(folder: Path, status: int) -> str:
    """Put a docker of our own into a folder that is all that is searched."""
    (folder / "docker").write_text(DOCKER.format(status=status))
    (folder / "docker").chmod(0o755)
    return str(folder)


def test_what_is_absent_is_said(tmp_path: Path) -> None:
    folder, done = bundled(tmp_path / "to", "--without-packages", path=str(tmp_path))
    assert "WITHOUT the image: neither docker nor podman is there" in done.stderr
    assert "WITHOUT the Python packages" in done.stderr
    assert "not in this archive: image (neither docker nor podman is there)" in (folder / "CONTENTS").read_text()
    files = listed(folder)
    assert {"README.md", "CHANGELOG.md", "LICENSE", "docs/operations.md", "manifests/install.yaml"} <= files.keys()
    assert {"crds/vgpupolicies.yaml", "charts/vgpu-scheduler/templates/_helpers.tpl"} <= files.keys()
    assert not [name for name in files if name.endswith((".py", ".pyc"))]


def test_the_image_is_there_if_it_can_be_built(tmp_path: Path) -> None:
    folder, done = bundled(tmp_path / "to", "--without-packages", path=tool(tmp_path, 0))
    assert "image" not in done.stderr.replace("docker builds vgpu-scheduler", "").partition("WITHOUT")[2]
    assert (folder / "image.tar").read_text().strip() == f"vgpu-scheduler:{VERSION}"
    assert "image.tar" in listed(folder)


def test_a_daemon_that_does_not_answer_is_told_of(tmp_path: Path) -> None:
    folder, done = bundled(tmp_path / "to", "--without-packages", path=tool(tmp_path, 1))
    assert "WITHOUT the image: docker does not work here" in done.stderr
    assert not (folder / "image.tar").exists()


def test_the_same_tree_makes_the_same_contents(tmp_path: Path) -> None:
    first, _ = bundled(tmp_path / "a", "--without-packages", "--without-image")
    second, _ = bundled(tmp_path / "b", "--without-packages", "--without-image")
    assert (first / "CONTENTS").read_bytes() == (second / "CONTENTS").read_bytes()


def test_without_an_index_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    _, done = bundled(tmp_path, "--without-image", succeeds=False)
    assert done.stderr.splitlines()[-1].startswith("bundle: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.apiserver
@pytest.mark.helm
def test_manifests_and_chart_can_be_installed_from_it(tmp_path: Path) -> None:
    folder, _ = bundled(tmp_path, "--without-packages", "--without-image")
    try:
        commands = ([assets() / "kubectl", "kustomize", "manifests"], [helm(), "template", "charts/vgpu-scheduler"])
    except AssetsUnavailableError as error:
        unavailable(str(error))
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert f"image: vgpu-scheduler:{VERSION}" in done.stdout


@pytest.fixture(scope="module")
def with_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive with the wheel of this tree and all that it needs, without the image."""
    folder = tmp_path_factory.mktemp("bundle")
    asked = [sys.executable, "-m", "pip", "download", "--no-deps", f"--dest={folder}", "iniconfig==2.3.1"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("pip reaches no index here, so there are no packages to put into the archive")
    return bundled(folder / "to", "--without-image")[0]


@pytest.mark.long
def test_the_wheel_has_all_of_the_package_and_nothing_else(with_packages: Path) -> None:
    package = ROOT / "operator"
    ours = {
        str(path.relative_to(package))
        for path in (package / "vgpu_scheduler").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "compiled" not in path.parts
    }
    assert {"vgpu_scheduler/doctor/shipped.json", "vgpu_scheduler/py.typed"} < ours
    with zipfile.ZipFile(with_packages / "wheels" / WHEEL) as wheel:
        names = {name for name in wheel.namelist() if not name.startswith(f"vgpu_scheduler-{VERSION}.dist-info/")}
        assert names == ours
        assert not any("devcluster" in name for name in names)
        assert wheel.read(f"vgpu_scheduler-{VERSION}.dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


@pytest.mark.long
def test_the_command_line_is_installed_from_it_without_a_network(with_packages: Path, tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rn", "true"], check=False).returncode:
        pytest.skip("unshare cannot take the network away here")
    assert f"wheels/{WHEEL}" in listed(with_packages)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs, without = tmp_path / "venv" / "bin", ("unshare", "-rn")
    install = [*without, programs / "pip", "install", "--quiet", "--no-index", "--find-links=wheels", "vgpu-devcluster"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(install, cwd=with_packages, check=True, env=environment)
    for arguments, said in ((["--version"], VERSION), (["settings"], "node_policy")):
        command = [*without, programs / "vgpu-scheduler", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment)
        assert said in done.stdout
    demo = [programs / "vgpu-scheduler", "demo", "--once"]  # on the machine's own loopback, which a new network lacks
    done = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
