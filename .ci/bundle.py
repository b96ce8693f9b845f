"""Makes one archive of what a cluster without internet needs: `make bundle`; docs/operations.md says how it is used.

It has the manifests, the chart and the documentation as they are in the tree, the Python packages of the command
line, and the image where docker or podman can build it. The file CONTENTS in it lists all files with their checksums,
and says what could not be added.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
NAME = f"vgpu-scheduler-{VERSION}"
PATTERNS = (
    "*.md",
    "LICENSE",
    "constraints.txt",
    "crds/*.yaml",
    "docs/**/*.md",
    "manifests/**/*.yaml",
    "charts/vgpu-scheduler/**/*",
)
PYTHON = "3.11"
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")


class BundleError(RuntimeError):
    """Something that the archive needs could not be made."""


def run(*command: str) -> None:
    """Run a command in the tree.

    Raises
    ------
    BundleError
        If it fails, with its last words.
    """
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise BundleError(f"{' '.join(command[:4])} …: {' / '.join(last)}")


def copy_tree(folder: Path) -> None:
    """Copy what is in the tree."""
    for path in sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern) if path.is_file()}):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def add_packages(folder: Path, machine: str) -> None:
    """Add the wheels of the operator and the demo, and of what they and traces need, as the tests run with them."""
    wheels = folder / "wheels"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", f"--wheel-dir={wheels}", str(ROOT), str(ROOT / "devcluster"))
    demo, operator = sorted(wheels.glob("*.whl"))
    elsewhere = (
        [f"--platform={name}_{machine}" for name in PLATFORMS] + [f"--python-version={PYTHON}"] if machine else []
    )
    limits = ("--only-binary=:all:", f"--constraint={ROOT / 'constraints.txt'}", f"--find-links={wheels}")
    run(*pip, "download", *limits, *elsewhere, f"--dest={wheels}", str(demo), f"{operator}[tracing,history]")


def add_image(folder: Path) -> str:
    """Add the image; return why it could not be, or nothing."""
    tools = [name for name in ("docker", "podman") if shutil.which(name)]
    if not tools:
        return "neither docker nor podman is there"
    reasons = []
    for tool in tools:
        try:
            run(tool, "info")
        except BundleError as error:
            reasons.append(f"{tool} does not work here: {error}")
            continue
        image = f"vgpu-scheduler:{VERSION}"
        print(f"bundle: {tool} builds {image}", file=sys.stderr)
        run(tool, "build", "--tag", image, ".")
        run(tool, "save", "--output", str(folder / "image.tar"), image)
        return ""
    return "; ".join(reasons)


def contents(folder: Path, absent: dict[str, str]) -> Iterator[str]:
    """Yield the lines of CONTENTS."""
    yield f"vgpu-scheduler {VERSION}"
    yield from (f"not in this archive: {what} ({why})" for what, why in absent.items())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}"


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out of an entry who made it, and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> int:
    """Make the archive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="the folder that it is put into")
    parser.add_argument("--machine", default="", help="packages for Linux on x86_64 or aarch64, not for this machine")
    parser.add_argument("--without-packages", action="store_true", help="leave the Python packages out")
    parser.add_argument("--without-image", action="store_true", help="leave the image out")
    options = parser.parse_args()
    absent = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / NAME
        folder.mkdir()
        try:
            copy_tree(folder)
            if options.without_packages:
                absent["Python packages"] = "left out by --without-packages"
            else:
                print("bundle: downloading the Python packages", file=sys.stderr)
                add_packages(folder, options.machine)
            missing = "left out by --without-image" if options.without_image else add_image(folder)
            if missing:
                absent["image"] = missing
        except BundleError as error:
            print(f"bundle: {error}", file=sys.stderr)
            return 1
        (folder / "CONTENTS").write_text("\n".join(contents(folder, absent)) + "\n")
        options.to.mkdir(parents=True, exist_ok=True)
        archive = options.to / f"{NAME}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(folder, NAME, filter=plain)
    for what, why in absent.items():
        print(f"bundle: WITHOUT the {what}: {why}", file=sys.stderr)
    print(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
