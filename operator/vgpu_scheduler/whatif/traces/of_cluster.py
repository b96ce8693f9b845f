"""Convert the nodes of a cluster to nodes of a trace, without the pods on them."""

from __future__ import annotations

from vgpu_scheduler.kube import CPU, MEMORY, PODS, Node
from vgpu_scheduler.model import mib_free
from vgpu_scheduler.whatif.traces.format import MOST_CARDS, TraceNode
from vgpu_scheduler.whatif.world.world import World


def nodes_of_cluster(world: World) -> tuple[list[TraceNode], list[str]]:
    """Return the nodes of a cluster, and one sentence for each node that is left out.

    Running pods are ignored. Cordoned nodes are left out, and so are nodes without cards that have repelling taints;
    pods are assumed to tolerate the taints of nodes with cards. Unhealthy and cordoned cards do not count, and neither
    vendors nor dialects are distinguished.
    """
    found, left_out = [], []
    for name in sorted(world.nodes):
        node = world.engine.state.node(name)
        assert node is not None
        models, memory = _cards(world, name)
        if node.unschedulable:
            left_out.append(f"node {name} is cordoned")
        elif not models and any(taint.repels for taint in node.taints):
            left_out.append(f"node {name} has no cards, and taints")
        elif len(models) > MOST_CARDS:
            left_out.append(f"node {name} has {len(models)} cards, more than {MOST_CARDS}")
        else:
            found.append(_trace_node(node, models, memory))
    return found, left_out


def _trace_node(node: Node, models: tuple[str, ...], memory: int) -> TraceNode:
    room = node.allocatable
    pods = room.get(PODS, 0)
    return TraceNode(node.name, room.get(CPU, 0), mib_free(room.get(MEMORY, 0)), models, pods, memory)


def _cards(world: World, node: str) -> tuple[tuple[str, ...], int]:
    """Return the models of a node's cards, and the MiB of each, rounded up so that a percent is a whole number.

    RDMA and FPGA devices are no cards.
    """
    cards = [
        (device.type, mib_free(device.total[dialect.inventory.memory] * dialect.inventory.memory_unit))
        for _, dialect, device in world.listed_devices(nodes=(node,))
        if device.vendor in dialect.inventory.cards and device.in_service and not device.part
    ]
    most = max((memory for _, memory in cards), default=0)
    return tuple(model for model, _ in cards), max(-(-most // 100), 1) * 100 if cards else 0
