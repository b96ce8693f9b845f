"""Random containers that ask every maker for amounts that nobody should write, in every form of a quantity."""

from __future__ import annotations

from typing import Any

import numpy as np

Obj = dict[str, Any]

PLAIN = (
    "0",
    "1",
    "1",
    "1",
    "2",
    "2",
    "3",
    "4",
    "5",
    "8",
    "10",
    "16",
    "30",
    "32",
    "64",
    "96",
    "99",
    "100",
    "1k",
    "24576",
)
ODD = (
    "-1", "-4294967295", "-8Gi", "-500m", "101", "130", "1500", "1024", "16k", "65536", "98305", "100k", "1M", "100M",
    "10G", "5T", "1Ki", "1023Ki", "1Mi", "512Mi", "8Gi", "16Gi", "3Ti", "4Pi", "1Ei", "500m", "1500m", "2u",
    "7n", "1e3", "3e9", "5e18", "9e20", "2097151", "2097152", "8388607", "8388608", "4194303", "4194304", "2147483647",
    "2147483648", "4294967295", "4294967296", "4294967297", "9007199254740993", "18446744073709551617",
)  # fmt: skip
"""Among them the ends of what 32 bits hold, of it in units of 256, 512 and 1024 MiB, and of what 64 bits hold."""

CONFIG: Obj = {
    "nvidia": {
        "resourceCountName": "nvidia.com/gpu",
        "resourceMemoryName": "nvidia.com/gpumem",
        "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
        "resourceCoreName": "nvidia.com/gpucores",
        "resourcePriorityName": "nvidia.com/priority",
        "memoryFactor": 1,
        "defaultMemory": 0,
        "defaultCores": 0,
        "defaultGPUNum": 1,
    },
    "hygon": {
        "resourceCountName": "hygon.com/dcunum",
        "resourceMemoryName": "hygon.com/dcumem",
        "resourceCoreName": "hygon.com/dcucores",
        "memoryFactor": 2,
    },
    "cambricon": {
        "resourceCountName": "cambricon.com/vmlu",
        "resourceMemoryName": "cambricon.com/mlu.smlu.vmemory",
        "resourceCoreName": "cambricon.com/mlu.smlu.vcore",
    },
    "mthreads": {
        "resourceCountName": "mthreads.com/vgpu",
        "resourceMemoryName": "mthreads.com/sgpu-memory",
        "resourceCoreName": "mthreads.com/sgpu-core",
    },
    "metax": {
        "resourceCountName": "metax-tech.com/gpu",
        "resourceVCountName": "metax-tech.com/sgpu",
        "resourceVMemoryName": "metax-tech.com/vmemory",
        "resourceVCoreName": "metax-tech.com/vcore",
    },
    "kunlun": {
        "resourceCountName": "kunlunxin.com/xpu",
        "resourceVCountName": "kunlunxin.com/vxpu",
        "resourceVMemoryName": "kunlunxin.com/vxpu-memory",
    },
    "enflame": {
        "resourceNameGCU": "enflame.com/gcu",
        "resourceNameDRSGCU": "enflame.com/drs-gcu",
        "resourceNameGCUMemory": "enflame.com/gcu-memory",
        "resourceNameGCUCore": "enflame.com/gcu-core",
    },
    "awsneuron": {"resourceCountName": "aws.amazon.com/neuron", "resourceCoreName": "aws.amazon.com/neuroncore"},
    "amd": {
        "resourceCountName": "amd.com/gpu",
        "resourceMemoryName": "amd.com/gpumem",
        "resourceCoreName": "amd.com/gpucores",
    },
    "vastai": {"resourceCountName": "vastaitech.com/va"},
    "biren": {"resourceCountName": "birentech.com/gpu"},
    "iluvatars": [
        {
            "chipName": "BI-V150",
            "commonWord": "BI-V150",
            "resourceCountName": "iluvatar.ai/BI-V150-vgpu",
            "resourceMemoryName": "iluvatar.ai/BI-V150.vMem",
            "resourceCoreName": "iluvatar.ai/BI-V150.vCore",
        }
    ],
    "vnpus": {
        "configs": [
            {
                "chipName": "910B2",
                "commonWord": "Ascend910B2",
                "resourceName": "huawei.com/Ascend910B2",
                "resourceMemoryName": "huawei.com/Ascend910B2-memory",
                "resourceCoreName": "huawei.com/Ascend910B2-core",
                "memoryAllocatable": 65536,
                "memoryCapacity": 65536,
                "aiCore": 24,
                "templates": [
                    {"name": "vir03_1c_8g", "memory": 8192, "aiCore": 3},
                    {"name": "vir06_1c_16g", "memory": 16384, "aiCore": 6},
                ],
            }
        ]
    },
}
KINDS: dict[str, tuple[str, ...]] = {
    "nvidia": ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    "hygon": ("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
    "cambricon": ("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
    "mthreads": ("mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
    "metax": ("metax-tech.com/gpu",),
    "metax shared": ("metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"),
    "kunlun": ("kunlunxin.com/xpu",),
    "kunlun slices": ("kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"),
    "enflame": ("enflame.com/gcu",),
    "enflame slices": ("enflame.com/drs-gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"),
    "awsneuron": ("aws.amazon.com/neuron", "aws.amazon.com/neuroncore"),
    "amd": ("amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores"),
    "vastai": ("vastaitech.com/va",),
    "biren": ("birentech.com/gpu",),
    "iluvatars": ("iluvatar.ai/BI-V150-vgpu", "iluvatar.ai/BI-V150.vMem", "iluvatar.ai/BI-V150.vCore"),
    "vnpus": ("huawei.com/Ascend910B2", "huawei.com/Ascend910B2-memory", "huawei.com/Ascend910B2-core"),
}
"""The resource names of each kind of devices, the count first."""


def config_of(kind: str) -> Obj:
    """The section of a kind's maker alone."""
    section = kind.partition(" ")[0]
    return {section: CONFIG[section]}


def case(kind: str, container: Obj, config: Obj | None = None) -> Obj:
    """A case with one pending pod of one container."""
    return {
        "config": {
            "nodeSchedulerPolicy": "binpack",
            "gpuSchedulerPolicy": "spread",
            "deviceConfig": config or config_of(kind),
        },
        "nodes": [],
        "pods": [],
        "quotas": [],
        "pod": {
            "metadata": {"name": "p", "namespace": "default", "uid": "p", "annotations": {}},
            "spec": {"containers": [{"name": "c", "resources": container}]},
            "status": {"phase": "Pending"},
        },
    }


def resources(kind: str, rng: np.random.Generator) -> Obj:
    """What a container asks: in limits, in requests, or in both, which then may differ."""
    odd = rng.random() < 0.8
    limits, requests = amounts(kind, rng, odd=odd), amounts(kind, rng, odd=odd)
    where = rng.random()
    if where < 0.45:
        return {"limits": limits}
    if where < 0.65:
        return {"requests": requests}
    return {"limits": limits, "requests": limits if where < 0.8 else requests}


def amounts(kind: str, rng: np.random.Generator, *, odd: bool) -> dict[str, str]:
    count, *others = KINDS[kind]
    names = [name for name in others if rng.random() < 0.7]
    if rng.random() < 0.9 or not names:
        names.insert(0, count)
    return {name: str(rng.choice(ODD if odd and rng.random() < 0.5 else PLAIN)) for name in names}
