"""The binaries of the control plane, and Helm: found, or built from Go modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_NO_GO = 3  # build.sh's exit status without a Go toolchain
_NO_ASSETS = "no real API server: neither Go nor KUBEBUILDER_ASSETS is there"


class AssetsUnavailableError(RuntimeError):
    """There are no such binaries here, and no Go to build them with."""


def assets(*, older: bool = False) -> Path:
    """Build the binaries if needed and return the folder that holds them; the build's progress goes to stderr.

    Parameters
    ----------
    older
        With the API server of the module ``older``.

    Raises
    ------
    AssetsUnavailableError
        Without Go and without ``KUBEBUILDER_ASSETS``.
    """
    return _built(*(["older"] if older else []))


def helm() -> Path:
    """Build Helm if needed and return its path.

    Raises
    ------
    AssetsUnavailableError
        Without Go.
    """
    return _built("helm") / "helm"


def _built(*module: str) -> Path:
    """Have a module's binaries built and return their folder."""
    command = [str(_HERE / "build.sh"), *module]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=sys.__stderr__, text=True, check=False)
    if run.returncode == _NO_GO:
        missing = "no Helm: Go is not there" if module == ("helm",) else _NO_ASSETS
        raise AssetsUnavailableError(missing)
    if run.returncode:
        raise RuntimeError(f"build.sh failed with status {run.returncode}")
    return Path(run.stdout.strip())
