"""The binaries of the control plane, Helm, controllers of jobs, Kueue, koordlet: where ``make assets`` has put them."""

from __future__ import annotations

import subprocess
from pathlib import Path

_BUILD = Path(__file__).resolve().parent / "build.sh"
_NOT_FOUND = 4  # build.sh's exit status


class AssetsUnavailableError(RuntimeError):
    """The binaries were not built. No test builds any: that takes longer than a test may."""


def assets(*, older: bool = False) -> Path:
    """Return the folder of the control plane's binaries.

    Parameters
    ----------
    older
        With the API server of the module ``older``.

    Raises
    ------
    AssetsUnavailableError
        If they were not built, and ``KUBEBUILDER_ASSETS`` names none.
    """
    return _found("older" if older else "kubernetes")


def helm() -> Path:
    """Return the path of Helm.

    Raises
    ------
    AssetsUnavailableError
        If it was not built.
    """
    return _found("helm") / "helm"


def job_controllers() -> Path:
    """Return the folder of the controllers ``jobset`` and ``lws``; ``jobset.config`` has what comes with one.

    Raises
    ------
    AssetsUnavailableError
        If they were not built.
    """
    return _found("controllers")


def kueue() -> Path:
    """Return the folder of the controller ``kueue``; ``kueue.config`` has what comes with it.

    Raises
    ------
    AssetsUnavailableError
        If it was not built.
    """
    return _found("kueue")


def koordlet_hooks() -> Path:
    """Return the path of the program that does with pods what koordlet does; see ``koordlet/main.go``.

    Raises
    ------
    AssetsUnavailableError
        If it was not built.
    """
    return _found("koordlet") / "koordlet-hooks"


def _found(module: str) -> Path:
    run = subprocess.run([str(_BUILD), "--find", module], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode == _NOT_FOUND:
        raise AssetsUnavailableError(f"{module} was not built: run `make assets`, which needs Go")
    if run.returncode:
        raise RuntimeError(f"build.sh failed with status {run.returncode}")
    return Path(run.stdout.strip())
