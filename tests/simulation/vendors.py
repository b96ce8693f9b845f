"""Cards of other vendors than NVIDIA: what nodes say of them, what pods ask for, and what others may have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.model import Amounts


@dataclass(frozen=True)
class OtherCard:
    """One card of a vendor, of which a node has one or none.

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


def registered(name: str, memory: int, cores: int = 100) -> str:
    """What a plugin says of its card in HAMi's JSON."""
    card = {"id": name, "count": 4, "devmem": memory, "devcore": cores, "type": name[7:], "health": True}
    return json.dumps([card])


def shares(count: str, memory: str = "", cores: str = "") -> tuple[Mapping[str, str], ...]:
    """Claims of a little, of more, and of all that is not said."""
    return tuple(
        {count: "1", **({memory: each} if memory and each else {}), **({cores: part} if cores and each else {})}
        for each, part in (("1", "2"), ("40", "10"), ("", ""))
    )


SGPU = {
    "uuid": "{node}-sgpu", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True, "linkZone": 0,
}  # fmt: skip
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
    "DCU": OtherCard(
        "{node}-dcu",
        {"hygon.com/dcunum": "4"},
        shares("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
        "hami.io/dcu-devices-allocated",
        "DCU,2000,20",
        (4, 16384, 100),
        {"hami.io/node-dcu-register": "{node}-dcu,4,16384,100,DCU-Z100,0,true:"},
    ),
    "MLU": OtherCard(
        "{node}-cambricon-mlu-0",
        {"cambricon.com/vmlu": "100", "cambricon.com/mlu.smlu.vcore": "100", "cambricon.com/mlu.smlu.vmemory": "128"},
        shares("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
        "hami.io/cambricon-mlu-devices-allocated",
        "MLU,5120,10",
        (100, 32768, 100),
    ),
    "MR-V100": OtherCard(
        "{node}-MR-V100",
        {"iluvatar.ai/MR-V100-vgpu": "4"},
        shares("iluvatar.ai/MR-V100-vgpu", "iluvatar.ai/MR-V100.vMem", "iluvatar.ai/MR-V100.vCore"),
        "hami.io/MR-V100-devices-allocated",
        "MR-V100,2560,10",
        (4, 32768, 100),
        {"hami.io/node-MR-V100-register": registered("{node}-MR-V100", 32768)},
    ),
    "Mthreads": OtherCard(
        "{node}-mthreads-0",
        {"mthreads.com/vgpu": "100", "mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "96"},
        shares("mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
        "hami.io/mthreads-vgpu-devices-allocated",
        "Mthreads,4096,2",
        (100, 49152, 16),
    ),
    "Metax-GPU": OtherCard(
        "{node}-metax-0",
        {"metax-tech.com/gpu": "1"},
        shares("metax-tech.com/gpu"),
        "hami.io/metax-gpu-devices-allocated",
        "Metax-GPU,65536,100",
        (1, 65536, 100),
    ),
    "Metax-SGPU": OtherCard(
        "{node}-sgpu",
        {"metax-tech.com/sgpu": "16"},
        shares("metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"),
        "hami.io/metax-sgpu-devices-allocated",
        "Metax-SGPU,8192,20",
        (16, 65536, 100, *(16 for _ in range(6))),
        {"metax-tech.com/node-gpu-devices": json.dumps([SGPU])},
    ),
    "GCU": OtherCard(
        "{node}-GCU-0",
        {"enflame.com/gcu": "1"},
        shares("enflame.com/gcu"),
        "hami.io/enflame-gcu-devices-allocated",
        "GCU,100,100",
        (1, 100, 100),
    ),
    "kunlun": OtherCard(
        "{node}-kunlun-0",
        {"kunlunxin.com/xpu": "1"},
        shares("kunlunxin.com/xpu"),
        "hami.io/kunlun-allocated",
        "kunlun,98304,100",
        (100, 98304, 100),
    ),
    "XPU": OtherCard(
        "{node}-XPU",
        {"kunlunxin.com/vxpu": "4"},
        shares("kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"),
        "hami.io/xpu-devices-allocated",
        "XPU,24576,25",
        (4, 98304, 100),
        {"hami.io/node-register-xpu": registered("{node}-XPU", 98304)},
    ),
    "AMD": OtherCard(
        "{node}-AMD",
        {"amd.com/gpu": "4"},
        shares("amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores"),
        "hami.io/amd-devices-allocated",
        "AMD,1000,30",
        (4, 196288, 304),
        {"hami.io/node-amd-register": registered("{node}-AMD", 196288, 304)},
    ),
    "Vastai": OtherCard(
        "{node}-Vastai",
        {"vastaitech.com/va": "4"},
        shares("vastaitech.com/va"),
        "hami.io/Vastai-devices-allocated",
        "Vastai,0,0",
        (4, 32768, 100),
        {"hami.io/node-va-register": registered("{node}-Vastai", 32768)},
    ),
    "Biren": OtherCard(
        "{node}-Biren",
        {"birentech.com/gpu": "4"},
        shares("birentech.com/gpu"),
        "hami.io/Biren-devices-allocated",
        "Biren,0,0",
        (4, 65536, 100),
        {"hami.io/node-biren-register": registered("{node}-Biren", 65536)},
    ),
}
"""By HAMi's word: templates of a chip, slices of one card in profiles, cores in masks, and all the others."""


def total_of(uuid: str) -> Amounts:
    """What a card of any node has; one of NVIDIA is given out in shares, or in pieces of its slices."""
    found = [card.total for card in OTHER_CARDS.values() if uuid.endswith(card.uuid(""))]
    return found[0] if found else (4, 8000, 100, 64, 1, 1, 1, 1)
