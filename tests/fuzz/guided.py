"""Fuzzing one target guided by coverage, in a process of its own: ``python -m tests.fuzz.guided TARGET [FLAGS]``.

What numba compiles stays as it is, for it is imported before; everything else of the package is instrumented.
"""

from __future__ import annotations

import logging
import random
import sys

import atheris

import vgpu_scheduler.kernels  # noqa: F401 - numba compiles no code that counts branches


def main() -> None:
    """Fuzz until libFuzzer ends the process."""
    with atheris.instrument_imports(include=["vgpu_scheduler"]):
        from tests.fuzz.mutating import applied, corpus, random_edits  # noqa: PLC0415 - what is imported here is instrumented
        from tests.fuzz.targets import BY_NAME  # noqa: PLC0415
    logging.disable(logging.CRITICAL)
    target = BY_NAME[sys.argv.pop(1)]

    for _, data in corpus(target.name):
        target.run(data)  # what numba compiles for it takes its time once, and is no hang

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.3:
            return bytes(atheris.Mutate(data, most))
        return applied(data, random_edits(chance), most)

    atheris.Setup(sys.argv, target.run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
