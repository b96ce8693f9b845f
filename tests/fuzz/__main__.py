"""Fuzzes what reads the writings of others, and reports it: ``python -m tests.fuzz --minutes 10 [--target NAME]``.

With atheris (which no other part of the project needs) inputs are guided by coverage; without it they are changes of
the corpus that know nothing of coverage. An input that ends otherwise than documented is written to ``--findings``, and
the run fails; when all is well the page ``docs/fuzzing.md`` is written, unless only some targets were run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.mutating import CORPUS, corpus
from tests.fuzz.report import PAGE, page
from tests.fuzz.running import Ran, mutate_blindly
from tests.fuzz.targets import BY_NAME, TARGETS, Target

SEEDED = 20261122
_DONE = re.compile(r"^Done (\d+) runs in (\d+) second", re.MULTILINE)


def guided(target: Target, seconds: float, findings: Path) -> Ran:
    """Run a target under libFuzzer, which begins with the corpus and keeps what it finds for itself."""
    with tempfile.TemporaryDirectory() as kept:
        flags = (
            *(kept, str(CORPUS / target.name), f"-max_total_time={max(round(seconds), 1)}", f"-max_len={target.most}"),
            *(
                "-timeout=20",
                "-rss_limit_mb=8000",  # instrumented code keeps more the longer it runs; without guidance nothing grows
                "-print_final_stats=1",
                f"-artifact_prefix={findings}/{target.name}-",
            ),
        )
        command = [sys.executable, "-m", "tests.fuzz.guided", target.name, *flags]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, errors="replace", env={**os.environ}
        )
    said = done.stdout + done.stderr
    error = "" if done.returncode == 0 else said[-4000:]
    found = _DONE.search(said)  # without the time in which numba compiles
    inputs, lasted = map(int, found.groups()) if found else (0, 0)
    return Ran(target.name, inputs, float(lasted), "atheris", b"" if error else None, error)


def main() -> int:
    """Run the targets; return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of all targets together")
    parser.add_argument("--target", action="append", choices=sorted(BY_NAME), help="only this one; may be repeated")
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz-findings"), help="where inputs go that are findings"
    )
    options = parser.parse_args()
    chosen = [target for target in TARGETS if not options.target or target.name in options.target]
    with_atheris = importlib.util.find_spec("atheris") is not None
    runs: list[Ran] = []
    for target in chosen:
        seconds = options.minutes * 60 / len(chosen)
        options.findings.mkdir(parents=True, exist_ok=True)
        ran = guided(target, seconds, options.findings) if with_atheris else mutate_blindly(target, seconds, SEEDED)
        if ran.finding:
            (options.findings / f"{target.name}-finding").write_bytes(ran.finding)
        print(f"{target.name}: {ran.inputs} inputs in {ran.seconds:.0f} s by {ran.by}", flush=True)
        if ran.error:
            print(ran.error, flush=True)
        runs.append(ran)
    if not any(options.findings.iterdir()):
        options.findings.rmdir()
    if any(ran.error for ran in runs):
        return 1
    if len(chosen) == len(TARGETS):
        PAGE.write_text(page(runs, {target.name: len(corpus(target.name)) for target in TARGETS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
