"""Runs the state machines at length, and writes what they came across: ``python -m tests.simulation --runs 2500``.

A run that fails is shrunk to a short script of steps, which is printed; nothing is written then.
"""

from __future__ import annotations

import argparse
import random
import re
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.simulation.cards import CardsMachine
from tests.simulation.group_preemption import GroupPreemptionMachine
from tests.simulation.groups import GroupsMachine
from tests.simulation.neighbours import NeighboursMachine
from tests.simulation.preemption import PreemptionMachine
from tests.simulation.world import REACHED

from vgpu_scheduler import __version__

MACHINES = {
    "cards": CardsMachine,
    "neighbours": NeighboursMachine,
    "preemption": PreemptionMachine,
    "groups": GroupsMachine,
    "preemption for groups": GroupPreemptionMachine,
}
BATCH = 250
STEPS = 60
PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
HEAD = """# What the simulation came across

State machines drive the real engine, observer, fence and evictor against a simulated API server: nodes, pods, groups,
cards, volumes, labels, policies and budgets change in any order, watches lag, repeat and lose events, Bindings and
evictions fail in every way, leaders are frozen and replaced, the store is restored (not where pods are evicted). After
each step the ledger must equal its rebuild, every index a recount, no card may be over, no room that is kept may be
given away, no group may be placed in part or over several of the domains it asks for, and no pod may be stranded or
wait in vain; at the end of a run the process must know what a new one would read.
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


def sections(page: str) -> dict[str, str]:
    """Return the sections of the page by the machine that each is about."""
    found = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return {each.partition(",")[0].lower(): f"## {each.rstrip()}\n" for each in found}


def section(name: str, runs: int) -> str:
    """Run a machine, and return what is written of it."""
    REACHED.clear()
    done = simulate(name, runs)
    rows = "".join(f"| {what} | {count:,} |\n" for what, count in sorted(REACHED.items()) if count)
    said = f"Version {__version__}, {datetime.now(UTC):%Y-%m-%d}, no failure in {done:,} runs of {STEPS} steps."
    return f"## {name.capitalize()}, {done:,} runs\n\n{said}\n\n| what came about | how often |\n|---|---:|\n{rows}"


def main() -> None:
    """Run, and write the page; what it says of other machines stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2500, help="of each machine")
    parser.add_argument("--machine", choices=MACHINES, action="append", help="all without it")
    options = parser.parse_args()
    written = sections(PAGE.read_text())
    for name in options.machine or MACHINES:
        written[name] = section(name, options.runs)
    PAGE.write_text(HEAD + "\n".join(written[name] for name in MACHINES if name in written))
    print(f"{PAGE} is written")


if __name__ == "__main__":
    main()
