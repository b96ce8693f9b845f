"""Draws what each recipe for policies does to a small fleet: the same pods, placed without the recipe and with it.

Nodes, pods and what runs already are those of the recipe's own test cases, and the real engine places the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

import yaml

from vgpu_scheduler.kube import CPU, Pod
from vgpu_scheduler.model import Amounts
from vgpu_scheduler.whatif import Case, World, place, read_cases, world_of

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE / "recipes"
TESTS: Final = HERE.parent / "tests" / "recipes"
RECIPES: Final[Mapping[str, Any]] = yaml.safe_load((FOLDER / "pictures.yaml").read_text())
"""By recipe, what is drawn of it: its ``cases``, and what there is to see (``caption``)."""

# What is drawn -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """What one pod has of a card; pods that ran already have the number 0, the others count from 1."""

    pod: int
    memory: int
    cores: int


@dataclass(frozen=True, slots=True)
class Card:
    """A card with its tenants."""

    name: str
    memory: int
    cores: int
    numa: int
    shares: Sequence[Share]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes with their cards, after the pods came.

    Attributes
    ----------
    cpu
        Thousandths of a cpu that are requested, by node; only where some pod asks for cpu.
    waiting
        Why pods wait, by number.
    """

    nodes: Mapping[str, Sequence[Card]]
    cpu: Mapping[str, int]
    waiting: Mapping[int, str]


def cases_of(name: str) -> dict[str, Case]:
    """Return the test cases of a recipe by name."""
    file = TESTS / f"{name}.yaml"
    document = yaml.safe_load(file.read_text())
    policies = list(yaml.safe_load_all((file.parent / document["policies"]).read_text()))
    found = read_cases({**document, "policies": policies})
    return {case.name: case for case in found if isinstance(case, Case)}


def pods_of(name: str) -> tuple[Case, list[Mapping[str, Any]]]:
    """Return the case that says what is there, and the pods that come."""
    cases = cases_of(name)
    drawn: Mapping[str, int] = RECIPES[name]["cases"]
    coming = [step.pod for case, times in drawn.items() for _ in range(times) for step in cases[case].steps]
    return cases[next(iter(drawn))], coming


def fleet(case: Case, coming: Sequence[Mapping[str, Any]], *, recipe: bool) -> Fleet:
    """Place pods in the cluster of a case, with its policies or without any."""
    world = world_of(case if recipe else case.model_copy(update={"policies": ()}))
    held = {pod.uid: (0, pod, pod.node_name, _charges(world, pod)) for pod in world.bound.values()}
    waiting = {}
    for number, asked in enumerate(coming, 1):
        answer = place(world, asked)
        if answer.decision.placement is None:
            waiting[number] = answer.decision.message
        else:
            taken = (a for container in answer.decision.placement.containers for a in container)
            held[answer.decision.uid] = (number, answer.pod, answer.node, {a.uuid: a.amounts for a in taken})
        for victim in answer.preemption.victims if answer.preemption else ():
            held.pop(victim.uid, None)
    nodes, cpu = {}, {}
    for name in sorted(world.nodes):
        here = [(number, pod, charges) for number, pod, node, charges in held.values() if node == name]
        cpu[name] = sum(pod.spec.requests.get(CPU, 0) for _, pod, _ in here)
        nodes[name] = [
            Card(card.uuid, card.total[1], card.total[2], card.numa, tuple(_shares(card.uuid, here)))
            for card in sorted(world.devices(name), key=lambda card: card.index)
        ]
    return Fleet(nodes, cpu if any(cpu.values()) else {}, waiting)


def _shares(card: str, tenants: Iterable[tuple[int, Pod, Mapping[str, Amounts]]]) -> Iterator[Share]:
    for number, _, charges in tenants:
        if card in charges:
            yield Share(number, *charges[card][1:3])


def _charges(world: World, pod: Pod) -> dict[str, Amounts]:
    """Return what a pod that ran already has of each card."""
    uses = world.engine.dialects.uses(pod).values()
    return {uuid: amounts for usage in uses for uuid, amounts in usage.charges.items()}


# How it is drawn -----------------------------------------------------------------------------------------------------

_PANEL, _MARGIN, _LABEL, _WIDTH, _A_ROW = 400, 12, 52, 76, 4
_ROW, _MEMORY, _CORES, _TOP, _LINE = 34, 18, 7, 54, 16
_GREY, _KINDS = "#9aa0a6", ("#2f6fb7", "#c2571a", "#3b8c4a")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#202124}.h{font-weight:600}.s{font-size:10px;fill:#5f6368}"
    ".n{font-size:10px;fill:#fff;text-anchor:middle}.e{text-anchor:end}.c{fill:#f1f3f4;stroke:#9aa0a6}"
)


def picture(name: str) -> str:
    """Return the picture of a recipe as SVG."""
    case, coming = pods_of(name)
    asked = [_asks(pod) for pod in coming]
    kinds = list(dict.fromkeys(asked))
    colours = {0: _GREY} | {number: _KINDS[kinds.index(asks)] for number, asks in enumerate(asked, 1)}
    fleets = [fleet(case, coming, recipe=wanted) for wanted in (False, True)]
    lines = max(len(_waiting(one)) for one in fleets)
    bottom = _TOP + sum(map(_height, fleets[0].nodes.values())) + _LINE * lines + 6
    height = bottom + _LINE * (len(kinds) + 1) + 8
    size = f'width="{2 * _PANEL}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {2 * _PANEL} {height}" role="img">',
        f"<title>{escape(name)}: {escape(RECIPES[name]['caption'])}</title>",
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        *_panel(fleets[0], "without the recipe", 0, colours),
        *_panel(fleets[1], f"with {name}", _PANEL, colours),
        *_legend(asked, kinds, bottom, colours),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _height(cards: Sequence[Card]) -> int:
    """Return how much room a node takes."""
    return _ROW * -(-len(cards) // _A_ROW) + 10


def _panel(shown: Fleet, title: str, left: int, colours: Mapping[int, str]) -> Iterator[str]:
    yield f'<g transform="translate({left + _MARGIN} 0)"><text class="h" y="22">{escape(title)}</text>'
    yield f'<text class="s" y="42">node</text><text class="s" x="{_LABEL}" y="42">its cards</text>'
    top, sizes = _TOP, {card.memory for cards in shown.nodes.values() for card in cards}
    for node, cards in shown.nodes.items():
        yield f'<text y="{top + 13}">{escape(node)}</text>'
        below = [f"{cards[0].memory // 1024} GiB"] if len(sizes) > 1 else []
        below += [f"{shown.cpu[node] // 1000} cpu"] if node in shown.cpu else []
        yield from (f'<text class="s" y="{top + 26}">{text}</text>' for text in below)
        numa = len({card.numa for card in cards}) > 1
        for number, card in enumerate(cards):
            row, column = divmod(number, _A_ROW)
            yield from _card(card, _LABEL + column * (_WIDTH + 4), top + row * _ROW, colours, numa=numa)
        top += _height(cards)
    for line, text in enumerate(_waiting(shown)):
        yield f'<text class="s" y="{top + _LINE * line + 4}">{escape(text)}</text>'
    yield "</g>"


def _card(card: Card, x: int, y: int, colours: Mapping[int, str], *, numa: bool) -> Iterator[str]:
    memory, cores = (sum(getattr(share, what) for share in card.shares) for what in ("memory", "cores"))
    tenants = ", ".join("one that ran already" if share.pod == 0 else f"pod {share.pod}" for share in card.shares)
    told = f"{card.name}: {memory} of {card.memory} MiB, {cores} of {card.cores} % ({tenants or 'idle'})"
    yield f'<g transform="translate({x} {y})"><title>{escape(told)}</title>'
    yield f'<rect class="c" width="{_WIDTH}" height="{_MEMORY}"/>'
    yield f'<rect class="c" y="{_MEMORY + 2}" width="{_WIDTH}" height="{_CORES}"/>'
    if numa:
        yield f'<text class="s e" x="{_WIDTH - 3}" y="13">NUMA {card.numa}</text>'
    at_memory = at_cores = 0.0
    for share in card.shares:
        memory_part, cores_part = _WIDTH * share.memory / card.memory, _WIDTH * share.cores / card.cores
        paint = f'fill="{colours[share.pod]}" stroke="#fff" stroke-width=".5"'
        if share.memory:
            yield f'<rect x="{at_memory:.1f}" width="{memory_part:.1f}" height="{_MEMORY}" {paint}/>'
        if share.cores:
            shape = f'y="{_MEMORY + 2}" width="{cores_part:.1f}" height="{_CORES}"'
            yield f'<rect x="{at_cores:.1f}" {shape} {paint}/>'
        if share.pod:
            yield f'<text class="n" x="{at_memory + memory_part / 2:.1f}" y="13">{share.pod}</text>'
        at_memory, at_cores = at_memory + memory_part, at_cores + cores_part
    yield "</g>"


def _legend(asked: Sequence[str], kinds: Sequence[str], top: int, colours: Mapping[int, str]) -> Iterator[str]:
    yield f'<g transform="translate({_MARGIN} {top})">'
    for line, kind in enumerate(kinds):
        numbers = [number for number, asks in enumerate(asked, 1) if asks == kind]
        yield _entry(line, colours[numbers[0]], f"{_pods(numbers)} {'asks' if len(numbers) == 1 else 'ask'} for {kind}")
    yield _entry(len(kinds), _GREY, "ran already. Wide bars are memory, thin ones compute.")
    yield "</g>"


def _entry(line: int, colour: str, text: str) -> str:
    box = f'<rect y="{_LINE * line}" width="10" height="10" fill="{colour}"/>'
    return f'{box}<text class="s" x="16" y="{_LINE * line + 9}">{escape(text)}</text>'


def _asks(pod: Mapping[str, Any]) -> str:
    """Word what a pod in short form asks for, and who it is."""
    who = [pod["namespace"]] if "namespace" in pod else []
    who += [f"{key}={value}" for key, value in pod.get("labels", {}).items()]
    who += [f"priority {pod['priority']}"] if "priority" in pod else []
    amounts = ", ".join(f"{key} {value}" for key, value in pod["resources"].items())
    return f"{amounts} ({', '.join(who)})" if who else amounts


def _pods(numbers: Sequence[int]) -> str:
    """Word numbers as ``pods 1, 3, 4``, those of a row as ``pods 1 to 6``."""
    if len(numbers) == 1:
        return f"pod {numbers[0]}"
    row = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"pods {numbers[0]} to {numbers[-1]}" if row else f"pods {', '.join(map(str, numbers))}"


def _waiting(shown: Fleet) -> list[str]:
    """Word why pods wait, those with the same reason together."""
    reasons: dict[str, list[int]] = {}
    for number, message in shown.waiting.items():
        reasons.setdefault(message.partition(": ")[2], []).append(number)
    return [f"{_pods(listed)} {'waits' if len(listed) == 1 else 'wait'}: {why}" for why, listed in reasons.items()]


def pictures() -> Iterator[tuple[Path, str]]:
    """Yield the path and content of every picture."""
    for name in RECIPES:
        yield FOLDER / f"{name}.svg", picture(name)
