"""Recognises other software in a cluster: device plugins, other schedulers, NVIDIA's components."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vgpu_scheduler.doctor.objects import Workload

HAMI_SCHEDULER = "hami-scheduler"
"""The scheduler name of HAMi's scheduler, unless its flag sets another."""

_PLUGIN_FOLDER = "/var/lib/kubelet/device-plugins"
_STOCK = re.compile(r"(^|/)(nvidia/)?k8s-device-plugin(:|@|$)|nvcr\.io/nvidia/k8s-device-plugin")
"""NVIDIA's own device plugin; forks have other image names."""
_MAKERS = re.compile(
    r"hami|vgpu|dcu|ascend|npu|mlu|cambricon|iluvatar|ix-device|mthreads|metax|enflame|gcu|kunlun|xpu|neuron|vastai|biren"
)
"""Words in the names and images of device plugins that write annotations on pods."""


def is_stock_plugin(workload: Workload) -> bool:
    """Tell whether a DaemonSet runs NVIDIA's own device plugin, which allocates whole cards or time slices."""
    return any(_STOCK.search(container.image) for container in workload.containers)


def is_mig_manager(workload: Workload) -> bool:
    """Tell whether a DaemonSet runs the GPU operator's MIG manager, which partitions cards by a label of their node."""
    return any("mig-manager" in container.image for container in workload.containers) or (
        "mig-manager" in workload.metadata.name
    )


def is_device_plugin(workload: Workload) -> bool:
    """Tell whether a DaemonSet looks like a device plugin that writes annotations on pods.

    A DaemonSet is one if

    - it mounts the folder of the kubelet's device plugins, or is called a device plugin, and
    - its name, a label or an image contains HAMi's name or a vendor's, and
    - it is not NVIDIA's own device plugin, which writes no annotations.
    """
    labels = (*workload.metadata.labels.values(), *workload.spec.template.metadata.labels.values())
    images = (container.image for container in workload.containers)
    words = " ".join((workload.metadata.name, *labels, *images)).lower()
    folders = [volume.host_path.path for volume in workload.spec.template.spec.volumes if volume.host_path]
    plugin = "device-plugin" in words or any(folder.rstrip("/") == _PLUGIN_FOLDER for folder in folders)
    return plugin and bool(_MAKERS.search(words)) and not is_stock_plugin(workload)


def is_hami_scheduler(workload: Workload) -> bool:
    """Tell whether a Deployment is HAMi's scheduler."""
    component = "app.kubernetes.io/component"
    labels = (workload.metadata.labels, workload.spec.template.metadata.labels)
    return any(found.get(component) == HAMI_SCHEDULER for found in labels) or any(
        container.name == "vgpu-scheduler-extender" or "projecthami/hami" in container.image
        for container in workload.containers
    )


def is_volcano_scheduler(workload: Workload) -> bool:
    """Tell whether a Deployment is Volcano's scheduler."""
    return _is(workload, "vc-scheduler", {"app": "volcano-scheduler"})


def is_koordinator(workload: Workload, component: str) -> bool:
    """Tell whether a workload is a component of Koordinator: ``koordlet``, ``koord-scheduler``, ``koord-manager``."""
    return _is(workload, component, {"koord-app": component})


def _is(workload: Workload, program: str, labels: Mapping[str, str]) -> bool:
    """Tell whether a workload has a program's labels, image or command."""
    found = workload.metadata.labels.items() | workload.spec.template.metadata.labels.items()
    image = re.compile(rf"(^|/){program}(:|@|$)")
    return labels.items() <= found or any(
        image.search(container.image) or any(word.rpartition("/")[2] == program for word in container.command[:1])
        for container in workload.containers
    )
