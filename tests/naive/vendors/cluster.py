"""A whole case with devices of other vendors than NVIDIA: from its raw JSON objects to an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice, permutations

from tests.naive.hami import NODE, TIME, UNREGISTERED, Answer
from tests.naive.hami_cards import f32, node_score
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import Container, Rules
from tests.naive.hami_wire import Bad, raw_containers, weights
from tests.naive.vendors import kunlun, mthreads, simple, vastai
from tests.naive.vendors.ascend import Ascend
from tests.naive.vendors.aws import AwsNeuron
from tests.naive.vendors.enflame import EnflameDrs
from tests.naive.vendors.gosort import INSERTION
from tests.naive.vendors.ledger import Ledger
from tests.naive.vendors.maker import Maker
from tests.naive.vendors.metax_shared import MetaxShared
from tests.naive.vendors.model import MOST_WAYS, Device, Obj, View
from tests.naive.vendors.nvidia import Nvidia
from tests.naive.vendors.place import added_score, copied, places, written
from tests.naive.vendors.quirks import VendorQuirk

MAKERS: Mapping[str, tuple[Callable[[Obj], Maker], ...]] = {
    "hygon": (simple.Hygon,),
    "cambricon": (simple.Cambricon,),
    "amd": (simple.Amd,),
    "awsneuron": (AwsNeuron,),
    "biren": (simple.Biren,),
    "enflame": (simple.EnflameGcu, EnflameDrs),
    "kunlun": (kunlun.Kunlun, kunlun.KunlunSlices),
    "mthreads": (mthreads.Mthreads,),
    "metax": (mthreads.MetaxGpu, MetaxShared),
    "vastai": (vastai.Vastai,),
}
"""The vendors of a section of HAMi's device configuration."""

MOMENT = "<time>"
"""Stands for any time that is written."""


@dataclass
class VendorAnswer(Answer):
    """An answer whose annotations are those of several vendors."""

    copies: dict[str, str] = field(default_factory=dict)
    """Annotations that are written a second time under another key, for the plugin."""
    possible: dict[str, list[tuple[float, dict[str, str]]]] = field(default_factory=dict, compare=False)
    """By node, all scores and annotations that HAMi may come to; the first are those of this answer."""

    def annotations(self, node: str) -> dict[str, str]:
        return self.whole(node, self.possible[node][0][1])

    def whole(self, node: str, keys: dict[str, str]) -> dict[str, str]:
        """All that is written on the pod for an allocation."""
        again = {self.copies[key]: value for key, value in keys.items() if key in self.copies}
        return {**keys, **again, NODE: node, TIME: MOMENT}


def makers_of(case: Obj) -> dict[str, Maker]:
    """The vendors that a case configures, by key, in the order of the keys.

    HAMi goes through them in the order of a map, which is any; here a pod's claims are fitted in this order.
    """
    found: list[Maker] = []
    for name, section in case["config"]["deviceConfig"].items():
        if name == "nvidia":
            found.append(Nvidia(case))
        elif name == "iluvatars":
            found += [simple.Iluvatar(chip) for chip in section]
        elif name == "vnpus":
            found += [Ascend(chip, soft_nodes=bool(section.get("hamiVnpuCore"))) for chip in section["configs"]]
        else:
            found += [make(section) for make in MAKERS[name]]
    return {maker.vendor: maker for maker in sorted(found, key=lambda maker: maker.vendor)}


def requests(pod: Obj, makers: Mapping[str, Maker], switch: Switches) -> tuple[list[Container], set[Bad]]:
    """What each container asks for, and what is refused."""
    containers, refused = [], set()
    annotations = pod["metadata"].get("annotations") or {}
    for name, kind, resources in raw_containers(pod):
        answers = [maker.ask(resources, switch) for maker in makers.values()]
        asks = [makers[ask.vendor].cut(ask, annotations, switch) for ask, _ in answers if ask]
        containers.append(Container(name, kind, tuple(asks)))
        refused |= {Bad(name, resource) for _, bad in answers for resource in bad}
    return containers, refused


def decide(case: Obj, quirks: Iterable[Enum] = ()) -> tuple[VendorAnswer, set[Enum]]:
    """Decide a placement case; also tell which quirks were asked for."""
    switch = Switches(quirks)
    return _decide(case, switch), switch.asked


def _decide(case: Obj, switch: Switches) -> VendorAnswer:
    makers, config = makers_of(case), case["config"]
    containers, refused = requests(case["pod"], makers, switch)
    annotations = case["pod"]["metadata"].get("annotations") or {}
    weighting: tuple[int, int, int] | None = (1, 1, 1)
    if "hami.io/device-scoring-weights" in annotations:
        weighting = weights(annotations["hami.io/device-scoring-weights"])
    if weighting is None and not switch(Quirk.BAD_WEIGHTS_FAIL_FILTER):
        refused.add(Bad("", "hami.io/device-scoring-weights"))
    if refused:
        return VendorAnswer("refused", refused=frozenset(refused))
    if not any(container.asks for container in containers):
        return VendorAnswer("passthrough")
    if weighting is None:
        return VendorAnswer("error")
    view = View(
        annotations,
        annotations.get("hami.io/gpu-scheduler-policy", config["gpuSchedulerPolicy"]),
        weighting,
        switch,
        Rules.of(annotations),
        spread=annotations.get("hami.io/node-scheduler-policy", config["nodeSchedulerPolicy"]) == "spread",
    )
    return _over_nodes(case, makers, containers, view)


def orders(devices: Sequence[Device], view: View) -> Iterator[list[Device]]:
    """The orders in which the vendors of a node may come: HAMi keeps them in a map.

    It shows where equal devices do not stay in order, as the devices of all vendors are sorted together.
    """
    shuffled = len(devices) > INSERTION and view.switch(VendorQuirk.EQUALS_SHUFFLED)
    vendors = list(dict.fromkeys(device.vendor for device in devices))
    for order in permutations(vendors) if shuffled else [tuple(vendors)]:
        found = [copied(device) for vendor in order for device in devices if device.vendor == vendor]
        for position, device in enumerate(found):
            device.position = position
        yield found


def _over_nodes(case: Obj, makers: Mapping[str, Maker], containers: list[Container], view: View) -> VendorAnswer:
    copies = {maker.allocated: maker.to_allocate for maker in makers.values() if maker.to_allocate}
    answer = VendorAnswer("unschedulable", copies=copies)
    ledger = Ledger(case, makers, view.switch)
    view.quota = ledger.quotas(case)
    for node in case["nodes"]:
        name = node["metadata"]["name"]
        devices = ledger.devices[name]
        if not devices:
            answer.failed[name] = UNREGISTERED
            continue
        view.node, view.neighbours = node, ledger.pods[name]
        ways = (fit for order in orders(devices, view) for fit in places(order, containers, view, makers))
        fits = list(islice(ways, MOST_WAYS))
        if fits[0].reason:
            answer.failed[name] = fits[0].reason
            continue
        before = node_score(devices)
        answer.possible[name] = [
            (f32(before + added_score(fit, devices, view, makers)), written(fit, devices, containers, view, makers))
            for fit in fits
            if not fit.reason
        ]
        answer.scores[name], keys = answer.possible[name][0]
        answer.per_node[name] = {key: value for key, value in keys.items() if value != MOMENT}
    if answer.scores:
        best = (min if view.spread else max)(answer.scores.values())
        answer.kind = "placed"
        answer.best = tuple(sorted(name for name, score in answer.scores.items() if score == best))
    return answer
