"""Cards of other makers than NVIDIA: what nodes say of them, what pods ask for, and what others may have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.model import Amounts


@dataclass(frozen=True)
class OtherCard:
    """One card of a maker, of which a node has one or none.

    Attributes
    ----------
    name
        What it is called; {node} stands for the node.
    annotations, capacity
        What the node says of it.
    claims
        What pods ask for.
    allocated, entry
        The annotation of a pod that has some of it, and what may stand there.
    told
        Other annotations of such a pod.
    total
        What it has.
    """

    name: str
    capacity: Mapping[str, str]
    claims: tuple[Mapping[str, str], ...]
    allocated: str
    entry: str
    total: Amounts
    annotations: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)

    def uuid(self, node: str) -> str:
        return self.name.replace("{node}", node)

    def said(self, node: str) -> dict[str, str]:
        """The node's annotations."""
        return {key: value.replace("{node}", node) for key, value in self.annotations.items()}

    def allocation(self, node: str, *, readable: bool = True) -> dict[str, str]:
        """The annotations of a pod to which somebody else gave some of it."""
        entry = f"{self.uuid(node)},{self.entry}:;" if readable else f"{self.uuid(node)},broken:;"
        return {self.allocated: entry, "hami.io/vgpu-node": node, **self.told}


NPU = {"id": "{node}-npu", "count": 4, "devmem": 65536, "devcore": 20, "type": "Ascend910B3", "health": True}
DRS = {
    "devices": [{"index": "0", "minor": "0", "capacity": 6}],
    "profiles": {"1g.8gb": "0", "3g.24gb": "1", "6g.48gb": "2"},
}
OTHER_CARDS = {
    "Ascend910B3": OtherCard(
        "{node}-npu",
        {"huawei.com/Ascend910B3": "4"},
        tuple(
            {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": memory}
            for memory in ("9000", "32768", "65536")
        ),
        "hami.io/Ascend910B3-devices-allocated",
        "Ascend910B3,16384,5",
        (4, 65536, 20),
        {"hami.io/node-register-Ascend910B3": json.dumps([NPU])},
    ),
    "Enflame": OtherCard(
        "{node}-enflame-drs-0",
        {"enflame.com/drs-gcu": "6"},
        tuple({"enflame.com/drs-gcu": slices} for slices in ("1", "3", "6")),
        "hami.io/enflame-vgpu-devices-allocated",
        "Enflame,24576,50",
        (6, 49152, 100, 6),
        {"enflame.com/gcu-drs-capacity": json.dumps(DRS)},
        {"assigned-containers": json.dumps({"main": {"request": 3, "profileName": "3g.24gb"}})},
    ),
    "AWSNeuron": OtherCard(
        "{node}-AWSNeuron-0",
        {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"},
        ({"aws.amazon.com/neuron": "1"}, {"aws.amazon.com/neuroncore": "1"}, {"aws.amazon.com/neuroncore": "2"}),
        "hami.io/aws-neuron-devices-allocated",
        "AWSNeuron,0,1",
        (2, 0, 3, 2, 1, 1),
    ),
}
"""By HAMi's word: templates of a chip, slices of one card in profiles, and cores in masks."""


def total_of(uuid: str) -> Amounts:
    """What a card of any node has; one of NVIDIA is given out in shares, or in pieces of its slices."""
    found = [card.total for card in OTHER_CARDS.values() if uuid.endswith(card.uuid(""))]
    return found[0] if found else (4, 8000, 100, 64, 1, 1, 1, 1)
