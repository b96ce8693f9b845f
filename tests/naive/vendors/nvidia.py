"""NVIDIA's cards beside those of other vendors: their own twin, seen as one vendor of several."""

from __future__ import annotations

from collections.abc import Sequence

from tests.naive import hami, hami_cards, hami_mig
from tests.naive.hami_quirks import Switches
from tests.naive.hami_values import Ask, Rules, Wish
from tests.naive.hami_wire import Names, Unreadable, asks
from tests.naive.vendors.maker import Maker
from tests.naive.vendors.model import Choice, Device, Obj, Taken, View


class Nvidia(Maker):
    vendor = "NVIDIA"
    allocated, to_allocate = hami.ALLOCATED, hami.TO_ALLOCATE

    def __init__(self, case: Obj) -> None:
        self.names = Names.of(case)
        self.count, self.memory, self.cores = self.names.count, self.names.memory, self.names.cores

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        cards = hami.node_cards(node, self.names, switch)
        if not cards:
            raise Unreadable("no card")
        return [Device(**vars(card)) for card in cards]

    def ask(self, resources: Obj, switch: Switches) -> tuple[Ask | None, set[str]]:
        pod = {"spec": {"containers": [{"name": "", "resources": resources}]}}
        containers, refused = asks(pod, self.names, switch)
        return next(iter(containers[0].asks), None), {bad.resource for bad in refused}

    def enough(self, ask: Ask, devices: Sequence[Device], view: View) -> bool:
        return hami_cards.enough(ask, devices, Rules.of(dict(view.annotations)))

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        wish = Wish((), Rules.of(dict(view.annotations)), view.policy, weights=view.weights)
        chosen, counts = hami_cards.choose(tried, ask, wish)
        taken = [Taken(card, self.vendor, 0, 0, note=ask) for card in chosen if isinstance(card, Device)]
        return Choice([taken]) if len(chosen) == ask.nums else Choice(counts=+counts)  # a zero is not a reason

    def book(self, taken: Taken) -> Taken:
        pick = hami_cards.book(taken.device, taken.note)
        return Taken(taken.device, self.vendor, pick.memory, pick.cores, note=pick.held)

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        placements = [
            hami_mig.Allocation(number, position, taken.device.uuid, taken.note)
            for number, container in enumerate(entries)
            for position, taken in enumerate(container)
            if taken.note
        ]
        return {hami.MIG: hami_mig.encode(placements)} if placements else {}
