"""Runs the state machines at length, and writes what they came across: ``python -m tests.simulation --runs 5000``.

A run that fails is shrunk to a short script of steps, which is printed; nothing is written then.
"""

from __future__ import annotations

import argparse
import random
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.simulation.cards import CardsMachine
from tests.simulation.neighbours import NeighboursMachine
from tests.simulation.preemption import PreemptionMachine
from tests.simulation.world import REACHED

from vgpu_scheduler import __version__

MACHINES = {"cards": CardsMachine, "neighbours": NeighboursMachine, "preemption": PreemptionMachine}
BATCH = 250
STEPS = 60
PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
HEAD = """# What the simulation came across

State machines drive the real engine, observer, fence and evictor against a simulated API server: nodes, pods, cards,
volumes, labels, policies and budgets change in any order, watches lag, repeat and lose events, Bindings and evictions
fail in every way, leaders are frozen and replaced, the store is restored (not where pods are evicted). After each step
the ledger must equal its rebuild, every index a recount, no card may be over, no room that is kept may be given away,
and no pod may be stranded or wait in vain; at the end of a run the process must know what a new one would read.
`make test` does the same few hundred runs each time; this page is written by
`python -m tests.simulation --runs N`, whose runs are new ones.

"""


def simulate(name: str, runs: int) -> int:
    """Do so many runs of a machine, in batches with seeds of their own; return how many there were."""
    done = 0
    while done < runs:
        number = random.SystemRandom().randrange(1 << 32)
        print(f"{name}: {done} of {runs} runs, the next ones with seed {number}", flush=True)
        profile = settings(
            max_examples=min(BATCH, runs - done),
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(seed(number)(MACHINES[name]), settings=profile)
        done += profile.max_examples
    return done


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000, help="of all machines together")
    runs = parser.parse_args().runs
    text = HEAD + f"Version {__version__}, {datetime.now(UTC):%Y-%m-%d}, no failure in {runs} runs of {STEPS} steps.\n"
    for name in MACHINES:
        REACHED.clear()
        done = simulate(name, runs // len(MACHINES))
        rows = "".join(f"| {what} | {count:,} |\n" for what, count in sorted(REACHED.items()) if count)
        text += f"\n## {name.capitalize()}, {done:,} runs\n\n| what came about | how often |\n|---|---:|\n{rows}"
    PAGE.write_text(text)
    print(f"{PAGE} is written")


if __name__ == "__main__":
    main()
