"""Cases as a person writes them, and what became of them."""

from __future__ import annotations

import textwrap
from typing import Any

import yaml

from vgpu_scheduler.whatif import Case, CaseError, CaseResult, check_case, read_cases

CLUSTER = """
nodes:
  - {name: a, cards: 2}
  - {name: b, cards: 2}
running:
  - {node: a, cards: {card: a-0, memory: 8Gi, cores: 30}}
pod: {resources: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096}}
expect: {node: a}
"""


def document(text: str, **fields: Any) -> dict[str, Any]:
    """Return a file of cases; fields given replace those written."""
    return {**yaml.safe_load(textwrap.dedent(text)), **fields}


def results(source: dict[str, Any] | str) -> list[CaseResult | CaseError]:
    """Run every case of a file."""
    found: list[CaseResult | CaseError] = []
    for case in read_cases(document(source) if isinstance(source, str) else source):
        try:
            found.append(check_case(case) if isinstance(case, Case) else case)
        except CaseError as error:
            found.append(error)
    return found


def failures(source: dict[str, Any] | str) -> list[str]:
    """Run the one case of a file that can be read and run; return where it differs."""
    (result,) = results(source)
    assert isinstance(result, CaseResult), result
    return list(result.failures)


def error(source: dict[str, Any] | str) -> str:
    """Return why the one case of a file cannot be read or run."""
    try:
        (result,) = results(source)
    except CaseError as problem:
        return str(problem)
    assert isinstance(result, CaseError), result
    return str(result)
