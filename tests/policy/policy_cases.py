"""Policies as people write them, and what the tests of policies ask of their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from vgpu_scheduler.policy.schema import Schema, crds

NAMESPACED, CLUSTER = "VGPUPolicy", "ClusterVGPUPolicy"


@dataclass(frozen=True, slots=True)
class Case:
    """A policy, and for a malformed one the path of the field at fault."""

    spec: str
    path: str = ""
    kind: str = CLUSTER
    name: str = "case"

    def policy(self) -> dict[str, Any]:
        """Return the resource."""
        return policy(yaml.safe_load(self.spec), self.kind, self.name)


def policy(spec: object, kind: str = CLUSTER, name: str = "case") -> dict[str, Any]:
    """Return a resource with this spec; a namespaced one is in the namespace ``default``."""
    metadata = {"name": name} if kind == CLUSTER else {"name": name, "namespace": "default"}
    return {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def resource_schema(crd: Schema) -> Schema:
    """Return the schema of a CRD's resource."""
    (version,) = crd["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every schema inside with its path."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from walk(field, f"{path}.{name}".lstrip("."))
    for inner, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if inner in schema:
            yield from walk(schema[inner], path + mark)


def rule_messages() -> set[str]:
    """Return the messages of all rules."""
    return {
        rule["message"]
        for crd in crds()
        for _, schema in walk(resource_schema(crd))
        for rule in schema.get("x-kubernetes-validations", ())
    }


def scorer(text: str) -> str:
    """Return a spec with this one scorer."""
    return f"nodes: {{scorers: [{{{text}}}]}}"


def labels(text: str) -> str:
    """Return a spec with this node selector."""
    return f"nodeSelector: {{{text}}}"


DEVICESHARE = "nodes: {scorers: [{name: deviceshare, scoringStrategy: {type: MostAllocated}}]}\n"

GOOD = {
    "short forms": Case("nodes: {policy: binpack}\ndevices: {policy: spread}"),
    "short forms, namespaced": Case("nodes: {policy: spread}\ndevices: {policy: binpack}", kind=NAMESPACED),
    "priority and selectors": Case(
        """
        priority: -5
        selector: {matchLabels: {app: train}}
        namespaceSelector:
          matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, ""]}]
        defaults: {cores: 0}
        """
    ),
    "empty selectors": Case("selector: {}\nnamespaceSelector: {}\nnodeSelector: {}"),
    "the four scorers": Case(
        """
        nodes:
          scorers:
            - {name: hami, weight: 10, policy: spread}
            - {name: binpack, weight: -1000000, resources: {cpu: 0, memory: 5, nvidia.com/gpumem: 1000000}}
            - name: deviceshare
              weight: 0
              scoringStrategy:
                type: MostAllocated
                resources: [{name: koordinator.sh/gpu-memory-ratio, weight: 100}, {name: koordinator.sh/gpu-core}]
            - {name: fragmentation, weight: 1000000, prices: Auto}
        """
    ),
    "together, by default preferred": Case("nodes: {policy: spread, together: {key: nvidia.com/gpu.clique}}"),
    "together in any case": Case("nodes: {scorers: [{name: hami}], together: {key: rack, mode: Required}}"),
    "no prices": Case("nodes: {scorers: [{name: fragmentation, prices: None}]}"),
    "the scorers of kube-scheduler": Case(
        """
        nodes:
          scorers:
            - {name: leastAllocated, weight: 10, resources: {cpu: 0, nvidia.com/gpu: 5}}
            - {name: mostAllocated}
            - name: requestedToCapacityRatio
              resources: {example.com/foo: 3}
              shape: [{utilization: 100, score: 10}, {utilization: 0, score: 0}, {utilization: 50, score: 7}]
            - {name: balancedAllocation, weight: 0, resources: {}}
            - {name: imageLocality}
        """
    ),
    "scorers by name only": Case("nodes: {scorers: [{name: hami}, {name: binpack}, {name: deviceshare}]}"),
    "no resource weights": Case(scorer("name: binpack, resources: {}")),
    "arguments of Volcano as pasted": Case(
        """
        nodes:
          scorers:
            - name: binpack
              arguments:
                binpack.weight: 10
                binpack.cpu: 5
                binpack.memory: "5"
                binpack.resources: "nvidia.com/gpu, example.com/foo"
                binpack.resources.nvidia.com/gpu: 2
                binpack.resources.example.com/foo: -3
        """
    ),
    "weight beside other arguments": Case(scorer("name: binpack, weight: 3, arguments: {binpack.cpu: 0}")),
    "deviceshare with its default strategy": Case(
        "nodes: {scorers: [{name: deviceshare, scoringStrategy: {}}]}\ndevices: {policy: LeastAllocated}"
    ),
    "deviceshare with its own strategy": Case(DEVICESHARE + "devices: {policy: MostAllocated, exclusive: true}"),
    "deviceshare switched off": Case(
        "nodes: {scorers: [{name: deviceshare, weight: 0}]}\ndevices: {policy: spread, weights: {slots: 2}}"
    ),
    "every field of devices": Case(
        """
        devices:
          policy: topology-aware, mutex,numa
          order: NUMAFirst
          weights: {slots: 0, memory: 3}
          types: {allow: [A100, "RTX 6000 Ada"], deny: [a100-sxm]}
          exclusive: false
          topology: None
          numa: None
          modes: [hami-core, mig, mps]
          apartFrom: {matchLabelKeys: [app, example.com/tier]}
        """,
        kind=NAMESPACED,
    ),
    "the other values of devices": Case(
        "devices: {policy: bestFit, order: ScoreFirst, types: {deny: [H100]}, topology: Preferred, numa: Required}"
    ),
    "weights without a policy": Case("devices: {weights: {slots: 0, memory: 0, cores: 1000000}}"),
    "node labels": Case(
        """
        nodeSelector:
          matchLabels: {pool: shared, example.com/tier: "", a.b/C_d.e: x_Y.1, %s/a: b}
          matchExpressions:
            - {key: zone, operator: In, values: [a, b]}
            - {key: example.com/drain, operator: DoesNotExist}
            - {key: gpu, operator: Exists, values: []}
        """
        % ("x" * 253)
    ),
    "defaults": Case("defaults: {memory: 4Gi, cores: 100}"),
    "memory in bytes": Case("defaults: {memory: 1048576}\nlimits: {memoryPerPod: 1125899906842624}"),
    "memory in other units": Case('defaults: {memory: "1e9"}\nlimits: {memoryPerPod: +1.5Gi}'),
    "limits": Case("limits: {memoryPerPod: 24Gi, coresPerPod: 0, devicesPerPod: 0}"),
    "cards of its own": Case("limits: {exclusiveCardsPerPod: 0}"),
    "overrides": Case(
        "podOverrides: {allow: [nodePolicy, devicePolicy, deviceWeights, deviceTypes, deviceUUIDs, mode, numa]}"
    ),
    "no overrides": Case("podOverrides: {allow: []}"),
    "enforced": Case(
        "enforce: [nodes, devices, defaults]\nnodes: {policy: binpack}\ndevices: {policy: spread}\ndefaults: {cores: 1}"
    ),
    "one section enforced": Case("enforce: [devices]\nnodes: {policy: binpack}\ndevices: {exclusive: true}"),
    "preemption": Case(
        """
        preemption:
          mayPreempt: true
          preemptible: false
          minRuntime: 1h30m
          delay: 0s
          victims: Any
          budgets: Exceed
          perHour: 1000
        """
    ),
    "preemption tightened": Case(
        "preemption: {mayPreempt: false, preemptible: true, minRuntime: 0s, delay: 99999h500ms, victims: Own,"
        " budgets: Respect, perHour: 0}",
        kind=NAMESPACED,
    ),
    "groups": Case("groups: {minimum: 100000, staleAfter: 1h30m, whenStale: Evict, holdAfter: 0s}"),
    "groups of a namespace": Case("groups: {minimum: 1, staleAfter: 0s, whenStale: Report}", kind=NAMESPACED),
    "the longest name": Case("defaults: {cores: 1}", name="n" * 63),
}
