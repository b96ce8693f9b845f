"""Koordinator's names: resources, annotations, labels, device types, and dimensions."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.model import DeviceResource, Dimension

ALLOCATED_ANNOTATION = "scheduling.koordinator.sh/device-allocated"
HINT_ANNOTATION = "scheduling.koordinator.sh/device-allocate-hint"
JOINT_ANNOTATION = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION_ANNOTATION = "scheduling.koordinator.sh/gpu-partition-spec"
PARTITIONS_ANNOTATION = "scheduling.koordinator.sh/gpu-partitions"
"""An annotation of the Device object."""

ISOLATION_LABEL = "koordinator.sh/gpu-isolation-provider"
PARTITION_POLICY_LABEL = "node.koordinator.sh/gpu-partition-policy"
VENDOR_LABEL = "node.koordinator.sh/gpu-vendor"
MODEL_LABEL = "node.koordinator.sh/gpu-model"

NAME = "koordinator"

GPU, RDMA, FPGA = "gpu", "rdma", "fpga"
DEVICE_TYPES = (FPGA, GPU, RDMA)
"""Device types, the vendors of this dialect, in the order in which they are written."""

FUNCTIONS_OF: Mapping[str, str] = {FPGA: f"{FPGA}-vf", RDMA: f"{RDMA}-vf"}
"""The types of virtual functions by device type: each function is booked as a device of its own, always whole."""

SHARE, MEMORY, CORES, RATIO = range(4)
DIMENSIONS = (
    Dimension("share", "percent"),
    Dimension("memory", "bytes"),
    Dimension("cores", "percent"),
    Dimension("memory ratio", "percent"),
)
"""RDMA and FPGA devices have a share, GPUs the other three. Memory and its ratio are both booked, and differ by
rounding errors, as in Koordinator."""

WHOLE_GPUS = ("amd.com/gpu", "dcu.com/gpu", "nvidia.com/gpu")
GPU_PERCENT = "koordinator.sh/gpu"
GPU_CORE = "koordinator.sh/gpu-core"
GPU_MEMORY = "koordinator.sh/gpu-memory"
GPU_RATIO = "koordinator.sh/gpu-memory-ratio"
GPU_SHARED = "koordinator.sh/gpu.shared"
NPU = ("huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp")
RDMA_PERCENT = "koordinator.sh/rdma"
FPGA_PERCENT = "koordinator.sh/fpga"

TYPE_OF: Mapping[str, str] = {
    **dict.fromkeys((*WHOLE_GPUS, GPU_PERCENT, GPU_CORE, GPU_MEMORY, GPU_RATIO, GPU_SHARED, *NPU), GPU),
    RDMA_PERCENT: RDMA,
    FPGA_PERCENT: FPGA,
}
"""The device type of each resource name."""

DEVICE_RESOURCES: Mapping[str, DeviceResource] = {
    GPU_CORE: DeviceResource(GPU, CORES),
    GPU_MEMORY: DeviceResource(GPU, MEMORY),
    GPU_RATIO: DeviceResource(GPU, RATIO),
    RDMA_PERCENT: DeviceResource(RDMA, SHARE),
    FPGA_PERCENT: DeviceResource(FPGA, SHARE),
}
"""The resources of devices, and the dimensions in which they are booked."""
