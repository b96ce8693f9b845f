"""Renders what follows from code: pages of vendors, the doctor, metrics, commands and sizes, and pictures.

``--check`` only tells whether they are current.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from commands_page import commands_page
from recipe_pictures import FOLDER as PICTURES
from recipe_pictures import RECIPES, pictures
from rooms_picture import picture

from vgpu_scheduler.allocators import Check, Selection
from vgpu_scheduler.dialects.hami import Vendor, VendorSection
from vgpu_scheduler.dialects.hami.vendors import VENDOR_FACTORIES
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.doctor import DIAGNOSES
from vgpu_scheduler.telemetry.catalogue import METRICS
from vgpu_scheduler.telemetry.metric import Metric

_PERCENT = 100
HERE = Path(__file__).parent
FOLDER = HERE / "vendors"
DOCTOR = HERE / "doctor.md"
OPERATIONS = HERE / "operations.md"
PERFORMANCE = HERE / "performance.md"
METRICS_PAGE = HERE / "metrics.md"
POLICIES = HERE / "policies.md"
FAMILIES = {"kube-scheduler's": ("scheduler_", "rest_client_"), "Ours": ("vgpu_scheduler_",), "HAMi's": ("hami_",)}
"""Sections of the page of metrics, and how the names begin that are there."""
BLOCK = re.compile(r"(<!-- BEGIN rendered from .*? -->\n).*?(<!-- END rendered -->)", re.DOTALL)
WIDTH = 120
HEAD = "<!-- Rendered from operator/vgpu_scheduler/dialects/hami/vendors by `make manifests`; do not edit. -->\n"

INDEX = """\
# Vendors

{head}
Nodes keep the device plugins of HAMi, of any of these vendors; several vendors may share a node, and a pod. What each
of them is about is a file of facts in `operator/vgpu_scheduler/dialects/hami/vendors`, and these pages are rendered
from that.
[Adding a vendor](../adding-a-vendor.md) shows how another is added.

| vendor | a pod asks for | cards come from |
|---|---|---|
{rows}
Names of resources are those of HAMi's chart; its `device-config.yaml` may change them (the setting
`hami_device_config`). Nothing is written to nodes but the plugin's lock, where it has one, and the token
`vgpu-scheduler.io/last-allocated`.
"""

_AMOUNTS = ("how many cards", "memory of each", "compute of each")
_CHECKS = {
    Check.MODE: "the node is in the mode that the pod asks for (`ModeNotFit`)",
    Check.CLASSES: "no pod of another application class uses it (`CardAppClassMismatch`)",
    Check.QUALITY: "the pods that use it have the quality of service of the new pod (`CardQosPolicyMismatch`)",
    Check.NUMA: "all cards of a container are on one NUMA node, where the pod asks for that (`NumaNotFit`)",
    Check.SLOTS: "it has a share left (`CardTimeSlicingExhausted`)",
    Check.IDLE: "no pod uses it (`ExclusiveDeviceAllocateConflict`)",
    Check.IDLE_GROUP: "under `mutex`, no pod uses another part of the same card",
    Check.MEMORY: "it has enough memory left (`CardInsufficientMemory`)",
    Check.CORES: "it has enough compute left (`CardInsufficientCore`)",
    Check.EXCLUSIVE: "no other pod uses it, where the pod asks for all its compute (`ExclusiveDeviceAllocateConflict`)",
    Check.COMPUTE: "it has some compute left, where the pod names no amount of it (`CardComputeUnitsExhausted`)",
    Check.EQUAL_SHARES: "each pod that uses it has as much memory as the new pod asks for",
    Check.SAME_CARDS: "the other containers of the pod get the same card (`CardNotFoundCustomFilterRule`)",
}
_SELECTIONS = {
    Selection.FIRST: "Of several that fit, a container gets the first ones in the order of the device policy.",
    Selection.GROUPED: "A container gets cards of the group (network, card) of which most fit, then of the next.",
    Selection.PAIRS: "A container gets whole modules of two.",
    Selection.RUN: "A container gets neighbours: a row of devices, or 4, 8 or 16 in their place.",
    Selection.HALVES: "A container gets 1, 2, 4 or 8 cards, if possible of one half of the server.",
    Selection.CONTENTION: "A container gets the cards on which other pods leave the most.",
    Selection.ZONE: "Of several that fit, a container gets the first ones; for whole cards, those of the smallest link "
    "zone that has enough.",
}


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the path and text of every page."""
    rows = []
    for section, factories in VENDOR_FACTORIES.items():
        for make in factories:
            vendors = make(VendorSection())
            module = inspect.getmodule(make)
            assert module is not None
            name = make.__name__.replace("_", "-")
            rows.append(_row(name, vendors))
            yield FOLDER / f"{name}.md", "\n".join(_page(section, vendors, inspect.cleandoc(module.__doc__ or "")))
    yield FOLDER / "README.md", INDEX.format(head=HEAD, rows="\n".join(rows) + "\n")


def _row(name: str, vendors: tuple[Vendor, ...]) -> str:
    first = vendors[0]
    asked = ", ".join(f"`{resource}`" for resource in first.claims.resources)
    more = f" and {len(vendors) - 1} more chips" if len(vendors) > 1 else ""
    return f"| [{_title(vendors)}]({name}.md) | {asked}{more} | {_source(first)} |"


def _title(vendors: tuple[Vendor, ...]) -> str:
    title = vendors[0].title
    return title if len(vendors) == 1 else title.removesuffix(vendors[0].key).strip()


def _source(vendor: Vendor) -> str:
    source = vendor.cards.source
    return f"annotation `{source.annotation}`" if source.annotation else f"capacity of `{source.capacity}`"


def _page(section: str, vendors: tuple[Vendor, ...], told: str) -> Iterator[str]:
    vendor = vendors[0]
    yield f"# {_title(vendors)}\n"
    yield HEAD
    yield _prose(told) + "\n"
    if len(vendors) > 1:
        names = ", ".join(f"`{one.key}`" for one in vendors)
        yield (
            _prose(f"Its chips are {names}; what follows is about `{vendor.key}`, the others have names of their own.")
            + "\n"
        )
    yield "## What a pod asks for\n"
    yield from _resources(vendor)
    yield from _choices(vendor)
    yield "## Which cards fit\n"
    yield (
        _prose(
            f"Cards come from the node's {_source(vendor)}. A card is used if it is healthy, annotations allow it, and"
        )
        + "\n"
    )
    yield from (f"* {text}" for check, text in _CHECKS.items() if check in vendor.fit.all_checks)
    yield "\n" + _prose(_SELECTIONS[vendor.fit.selection]) + "\n"
    yield _prose(_liveness(vendor)) + "\n"
    yield "## What is written\n"
    yield "| on the pod | for |\n|---|---|"
    yield f"| `{vendor.record.allocated}` | all readers: what the pod has |"
    if vendor.record.to_allocate:
        yield f"| `{vendor.record.to_allocate}` | the plugin, which removes one entry after the other |"
    yield from (f"| `{name}` | the plugin |" for name in vendor.record.keys)
    yield "\n" + _prose(_finding(vendor)) + "\n"
    yield "## Quotas\n"
    yield _prose(_quotas(vendor)) + "\n"
    yield "## Configuration\n"
    yield _prose(f"Section `{section}` of HAMi's `device-config.yaml`.")
    notes = [one.notes for one in vendors if one.notes]
    if notes:
        yield "\n## Notes\n"
        yield "\n".join(_prose(note) if len(notes) == 1 else f"* {note}" for note in notes)
    yield ""


def _quotas(vendor: Vendor) -> str:
    """Say what a namespace's quota may limit."""
    limited = vendor.claims.quotas(vendor.key)
    if not limited:
        return "Only numbers are asked for, which Kubernetes' own quotas limit (`requests.<resource>`)."
    units = {1: "in the unit of the resource", 2: "in percent, added up over all cards"}
    if vendor.claims.units != _PERCENT:
        units[2] = f"of which a card has {vendor.claims.units}"
    told = " and ".join(f"`limits.{name}` ({units[what.dimension]})" for name, what in limited.items())
    return f"A ResourceQuota may limit {told}; see [quotas](../quotas.md)."


def _liveness(vendor: Vendor) -> str:
    """Say what becomes of a node whose plugin is gone."""
    advertised = [f"`{name}`" for name in vendor.claims.counts if name not in vendor.claims.unadvertised]
    return (
        f"A plugin that is gone is seen in the node's allocatable amount of {' or '.join(advertised)}, which the "
        "kubelet sets to 0: no new pod is placed there, running pods keep their cards, and placement goes on when it "
        "is back."
    )


def _finding(vendor: Vendor) -> str:
    """Say how the plugin finds its pod, and what keeps it from taking another."""
    lock = f"`{vendor.lock.annotation}`" if vendor.lock else ""
    turns = "pods of a node are bound one after the other, each when the one before has started"
    if not vendor.found:
        return (
            f"The plugin finds its pod through the node's lock {lock}, and releases it."
            if lock
            else f"{turns[0].upper()}{turns[1:]}."
        )
    kept = f"a pod is bound with the node's lock {lock} held, and the plugin releases it" if lock else turns
    return f"How the plugin finds its pod: {vendor.found[0].lower()}{vendor.found[1:]}. So {kept}."


def _resources(vendor: Vendor) -> Iterator[str]:
    yield "| resource | means |\n|---|---|"
    names = vendor.claims
    for resource, dimension, percent in names.dimensions:
        usual = _AMOUNTS[dimension] + _unit(names, dimension, percent=percent)
        yield f"| `{resource}` | {vendor.means.get(resource) or usual} |"
    yield from (f"| `{name}` | {told} |" for name, told in vendor.means.items() if _is_resource(name, vendor))
    if isinstance(names, ShareRequests):
        if names.divided:
            yield "\nWhat is asked for is for all cards together."
        if names.cores:
            without = f"{names.default_cores} percent" if names.default_cores else "no compute, and takes what is free"
            yield "\n" + _prose(f"Without compute a container claims {without}; without memory, all of it.")
    yield ""


def _unit(names: object, dimension: int, *, percent: bool) -> str:
    """Say what an amount of memory or compute is counted in."""
    if dimension == 0:
        return ""
    if dimension == 2:
        units = names.units if isinstance(names, ShareRequests) else _PERCENT
        return ", in percent" if units == _PERCENT else f", of which a card has {units}"
    factor = names.memory_factor if isinstance(names, ShareRequests) else 1
    return ", in percent" if percent else f", in units of {factor} MiB" if factor > 1 else ", in MiB"


def _is_resource(name: str, vendor: Vendor) -> bool:
    """Tell whether a name that the claims do not read is that of a resource."""
    return name in vendor.claims.resources and name not in {resource for resource, _, _ in vendor.claims.dimensions}


def _choices(vendor: Vendor) -> Iterator[str]:
    keys = vendor.rules
    told = {name: text for name, text in vendor.means.items() if name not in vendor.claims.resources}
    if not (keys.all or told):
        return
    yield "| annotation | means |\n|---|---|"
    if keys.use_types:
        yield f"| `{keys.use_types}`, `{keys.no_use_types}` | parts of model names to use, or not |"
    yield from (f"| `{use}`, `{no_use}` | UUIDs of devices to use, or not |" for use, no_use in keys.uuids)
    yield from (f"| `{name}` | {text} |" for name, text in told.items())
    yield ""


def _prose(text: str) -> str:
    """Return paragraphs for Markdown: references to code as code, lines no longer than elsewhere."""
    plain = re.sub(r":(?:mod|class|data):`([^`]*)`", r"`\1`", text).replace("``", "`")
    return "\n\n".join(
        fill(part, WIDTH, break_long_words=False, break_on_hyphens=False) for part in plain.split("\n\n")
    )


def doctor() -> str:
    """Return the page of the doctor with a section for each thing that it may find."""
    found = [f"| [`{one.id}`](#{one.id}) | {one.severity.value} |" for one in DIAGNOSES]
    parts = ["\n".join(["| finding | severity |", "|---|---|", *found])]
    for one in DIAGNOSES:
        text = f"*{one.severity.value.capitalize()}.* {one.cause}"
        parts.append(f"### {one.id}\n\n{fill(text, WIDTH)}\n\n{fill(f'**What to do:** {one.remedy}', WIDTH)}")
    rendered = "\n\n".join(parts)
    return BLOCK.sub(lambda block: f"{block[1]}\n{rendered}\n\n{block[2]}", DOCTOR.read_text())


def measured(*names: str) -> list[str]:
    """Return the row of a table of the benchmark that begins with some cells."""
    rows = [[cell.strip() for cell in line.strip("| \n").split(" |")] for line in PERFORMANCE.read_text().splitlines()]
    found = [row for row in rows if row[: len(names)] == list(names)]
    if len(found) != 1:
        raise SystemExit(f"{PERFORMANCE.name}: {len(found)} rows begin with {', '.join(names)}")
    return found[0]


def sizes() -> str:
    """Return the page of operations with the numbers that sizes follow from."""
    lines = ["| pods | nodes | pods a second | CPU per pod |", "|---|---:|---:|---:|"]
    for name, shown, nodes in (
        ("slices, node side with all its writes", "slices of cards, with a node lock", "500"),
        ("plain pods, no node lock", "pods without cards", "500"),
        ("plain pods, no node lock, 5,000 nodes", "pods without cards", "5,000"),
    ):
        _, pace, _, cpu = measured(name)
        lines.append(f"| {shown} | {nodes} | {pace} | {cpu} |")
    lines += ["", "| one decision, nodes with 8 cards | nodes | p50 | p99 |", "|---|---:|---:|---:|"]
    for name, shown in (("repeated class", "a replica of a pod before it"), ("new class", "the first pod of its kind")):
        for nodes in ("1,000", "5,000"):
            _, _, p50, p99 = measured(name, nodes)
            lines.append(f"| {shown} | {nodes} | {p50} | {p99} |")
    rendered = "\n".join(lines)
    return BLOCK.sub(lambda block: f"{block[1]}\n{rendered}\n\n{block[2]}", OPERATIONS.read_text())


def all_pages() -> Iterator[tuple[Path, str]]:
    """Yield the path and text of every page and picture, and of pages that are rendered in part."""
    yield from pages()
    yield DOCTOR, doctor()
    yield OPERATIONS, sizes()
    yield METRICS_PAGE, metrics()
    yield HERE / "commands.md", commands_page()
    yield HERE / "rooms.svg", picture()
    yield POLICIES, recipes()
    yield from pictures()


def recipes() -> str:
    """Return the guide to policies with a picture of each recipe."""
    parts = []
    for name, recipe in RECIPES.items():
        parts.append(fill(f"**[{name}](../manifests/policies/{name}.yaml)**: {recipe['caption']}", WIDTH))
        parts.append(f"![Where the pods are without {name}, and with it](recipes/{name}.svg)")
    rendered = "\n\n".join(parts)
    return BLOCK.sub(lambda block: f"{block[1]}\n{rendered}\n\n{block[2]}", POLICIES.read_text())


def metrics() -> str:
    """Return the page of metrics with a table for each family of names."""
    parts = []
    for title, prefixes in FAMILIES.items():
        rows = [_metric_row(metric) for metric in METRICS if metric.name.startswith(prefixes)]
        parts.append("\n".join([f"## {title}\n", "| metric | type | labels | meaning |", "|---|---|---|---|", *rows]))
    rendered = "\n\n".join(parts)
    return BLOCK.sub(lambda block: f"{block[1]}\n{rendered}\n\n{block[2]}", METRICS_PAGE.read_text())


def _metric_row(metric: Metric) -> str:
    labels = "; ".join(
        f"`{label}`" + (": " + ", ".join(f"`{value}`" for value in values) if values else "")
        for label, values in metric.labels.items()
    )
    leader = " (leader)" if metric.of_cluster else ""
    meaning = metric.help.replace("<error>", "`<error>`")
    return f"| `{metric.name}` | {metric.type.value} | {labels} | {meaning}{leader} |"


def main() -> int:
    check = "--check" in sys.argv[1:]
    expected = {path: text.rstrip("\n") + "\n" for path, text in all_pages()}
    stale = [path for path, text in expected.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in (*FOLDER.glob("*.md"), *PICTURES.glob("*.svg")) if path not in expected]
    if check:
        for path in stale:
            print(f"{path.relative_to(HERE.parent)} is not current: run `make manifests`", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        if path in expected:
            path.write_text(expected[path])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
